// The named ways in which byte-level BPE vocabularies split text into words (tokenizer.ggml.pre)
// and their regular expressions. The data are constant and may be read from any thread.
//
// The names, and which names share expressions, are those of llama.cpp's loader. The expressions
// are those published with the models (`tokenizer.json`); if llama.cpp runs a different form of an
// expression, kvd uses llama.cpp's form. The expressions are written in PCRE2's syntax, except that
// `\s`, `\S`, `\p{L}`, `\p{N}` and `\p{P}` mean the sets of Unicode 15.1, independent of the
// library's Unicode version (see word_splitter.h).
#pragma once

#include <span>
#include <string_view>

namespace kvd {

struct Pretokenizer {
  std::string_view name;
  // The first expression is applied to the text, and each further expression to the pieces that the
  // previous expression produced. Pieces are the matches and the text between them.
  std::span<const std::string_view> expressions;
  bool ignore_merges = false;  // a word that is a token as a whole is used without merging
  bool add_bos = false;        // whether to add BOS if the file does not say
  bool default_bos = true;     // use the default BOS of the tokenizer's kind if the file names none
};

// Returns the pretokenizer of this name; null if the name is unknown. An empty name means
// "default", as in llama.cpp (files that predate the key).
const Pretokenizer* FindPretokenizer(std::string_view name);

// All pretokenizers, for tests.
std::span<const Pretokenizer> AllPretokenizers();

}  // namespace kvd
