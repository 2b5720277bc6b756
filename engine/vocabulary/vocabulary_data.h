// VocabularyData holds a model file's vocabulary metadata as plain values. `Vocabulary::Create`
// validates them.
//
// The fields correspond to the metadata of GGUF (ggml/docs/gguf.md, "Tokenizer"). A field whose key
// the file lacks is empty. `ReadVocabulary` fills a VocabularyData; some tests fill it directly.
// The code that fills a VocabularyData owns it until `Vocabulary::Create` takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"

namespace kvd {

// VocabularyKind: which tokenizer a vocabulary has.
enum class VocabularyKind {
  kNone,
  kSentencePiece,
  kBytePair,
  kCharacterPair,
  kWordPiece,
  kUnigram,
  kReverseUnigram,
  kLongestMatch,
};

// "none", "sentencepiece", "byte_pair", "character_pair", "wordpiece", "unigram", "reverse_unigram"
// or "longest_match".
std::string_view VocabularyKindName(VocabularyKind kind);

// A chat template of the file, a Jinja program, which the vocabulary keeps for clients.
struct NamedTemplate {
  std::string name;  // NAME of tokenizer.chat_template.NAME; empty: tokenizer.chat_template
  std::string text;
};

struct VocabularyData {
  std::string model;         // tokenizer.ggml.model: "llama", "gpt2", ... (tokenizer_choice.cc)
  std::string pre;           // tokenizer.ggml.pre: how "gpt2" splits text into words
  std::string architecture;  // general.architecture, and
  std::string general_name;  // general.name: decide quirks that no other key of the file states
  std::vector<std::string> tokens;        // text of token i, as stored (escaped or byte-encoded)
  std::vector<float> scores;              // empty, or one per token
  std::vector<std::int32_t> token_types;  // empty, or one per token: values of `GgufTokenType`
  std::vector<std::string> merges;        // "LEFT RIGHT"; earlier entries are merged first

  std::optional<std::uint32_t> bos;  // begins a text
  std::optional<std::uint32_t> eos;  // ends a text
  std::optional<std::uint32_t> eot;  // ends a turn of a chat
  std::optional<std::uint32_t> eom;  // ends a message that is followed by more of the same turn
  std::optional<std::uint32_t> unk;  // replaces text that no token covers
  std::optional<std::uint32_t> sep;
  std::optional<std::uint32_t> pad;
  std::optional<std::uint32_t> mask;
  std::optional<std::uint32_t>
      fim_pre;  // fill in the middle: prefix; then suffix, middle, padding, repository, file
  std::optional<std::uint32_t> fim_suf;
  std::optional<std::uint32_t> fim_mid;
  std::optional<std::uint32_t> fim_pad;
  std::optional<std::uint32_t> fim_rep;
  std::optional<std::uint32_t> fim_sep;

  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_sep;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
  std::optional<bool> lowercase;                // tokenizer.ggml.normalizer.lowercase
  std::optional<bool> strip_accents;            // tokenizer.ggml.normalizer.strip_accents
  std::vector<std::byte> precompiled_charsmap;  // normalisation rules; empty: none

  std::vector<NamedTemplate> chat_templates;
  std::uint32_t vocab_size = 0;  // of a vocabulary without tokens: ids are 0 to vocab_size - 1
};

// Values of tokenizer.ggml.token_type; any other value is treated as kUndefined.
enum class GgufTokenType : std::int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Reads the vocabulary metadata of a GGUF file. ReadVocabulary does not validate the values;
// `Vocabulary::Create` validates them.
// Errors: kCorrupt: a key of the wrong type (the message names it). A missing key is not an error.
Result<VocabularyData> ReadVocabulary(const GgufFile& file);

}  // namespace kvd
