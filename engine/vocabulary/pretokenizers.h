// The named ways in which byte-level BPE vocabularies split text into words (tokenizer.ggml.pre)
// and their regular expressions. The data are constant and may be read from any thread.
//
// The names, and which names share expressions, are those of llama.cpp's loader. The expressions
// are those published with the models (`tokenizer.json`); if llama.cpp runs a different form of an
// expression, kvd uses llama.cpp's form. The expressions are written in PCRE2's syntax, except that
// `\s`, `\S`, `\p{L}`, `\p{M}`, `\p{N}`, `\p{P}` and `\p{S}` mean the sets of Unicode 15.1,
// independent of the library's Unicode version (see word_splitter.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvd {

// SplitStage is one step of splitting a text into words (word_splitter.h): an expression, and what
// its matches become.

// What becomes of a match of a run of digits. Groups have three digits and are counted from the
// right; the first group of a run has one to three. No expression can form groups in linear work,
// because each group would look ahead to the end of the run.
enum class DigitCuts : std::uint8_t {
  kNone,          // the match is a piece, and so is the text between two matches
  kGroups,        // each group is a piece; the text before the run belongs to its first group
  kBeforeGroups,  // a piece ends before each group of three, and nowhere else
};

struct SplitStage {
  std::string_view expression;
  DigitCuts cuts = DigitCuts::kNone;
};

// How a vocabulary writes text.
enum class Spelling {
  kByteAlphabet,       // a character of the byte alphabet for each byte (byte_pair.h)
  kCharacters,         // the characters themselves
  kEscapedCharacters,  // the characters themselves, with U+2581 for a space
};

struct Pretokenizer {
  std::string_view name;
  // The first stage is applied to the text, and each further stage to the pieces that the previous
  // stage produced. Unless a stage says otherwise, pieces are the matches and the text between
  // them.
  std::span<const SplitStage> stages;
  Spelling spelling = Spelling::kByteAlphabet;
  bool ignore_merges = false;     // a word that is a token as a whole is used without merging
  bool joins_line_feeds = false;  // the same only for a word of line feeds
  bool add_bos = false;           // whether to add BOS if the file does not say
  bool always_adds_bos = false;   // whether to add BOS whatever the file says
  bool default_bos = true;  // use the default BOS of the tokenizer's kind if the file names none
  bool may_lack_merges = false;  // a file without merges is not an error
  bool lowercases = true;  // of the model "whitespace": lower-case text if the file does not say
};

// Returns the pretokenizer of this name; null if the name is unknown. An empty name means
// "default", as in llama.cpp (files that predate the key).
const Pretokenizer* FindPretokenizer(std::string_view name);

// All pretokenizers, for tests.
std::span<const Pretokenizer> AllPretokenizers();

}  // namespace kvd
