// Everything that a model file says about its vocabulary, as plain values; `Vocabulary::Create`
// validates it.
//
// Field by field the metadata of GGUF (ggml/docs/gguf.md, "Tokenizer"); a key that the file lacks
// is empty here. Filled by `ReadVocabulary`, or by hand in tests. Owned by whoever filled it until
// `Vocabulary::Create` takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvd {

struct VocabularyData {
  std::string model;         // tokenizer.ggml.model: "llama", "gpt2", "bert", "t5", "no_vocab", ...
  std::string pre;           // tokenizer.ggml.pre: how "gpt2" splits text into words
  std::string general_name;  // general.name: decides quirks that the file states nowhere else
  std::vector<std::string> tokens;        // text of token i, as stored (escaped or byte-encoded)
  std::vector<float> scores;              // empty, or one for each token
  std::vector<std::int32_t> token_types;  // empty, or one for each token: values of `GgufTokenType`
  std::vector<std::string> merges;        // "LEFT RIGHT", the first is merged first

  std::optional<std::uint32_t> bos;  // begins a text
  std::optional<std::uint32_t> eos;  // ends a text
  std::optional<std::uint32_t> eot;  // ends a turn of a chat
  std::optional<std::uint32_t> eom;  // ends a message that more messages of the same turn follow
  std::optional<std::uint32_t> unk;  // stands for what no token covers
  std::optional<std::uint32_t> sep;
  std::optional<std::uint32_t> pad;
  std::optional<std::uint32_t> mask;
  std::optional<std::uint32_t>
      fim_pre;  // fill in the middle: before, after, the middle, padding, repository, file
  std::optional<std::uint32_t> fim_suf;
  std::optional<std::uint32_t> fim_mid;
  std::optional<std::uint32_t> fim_pad;
  std::optional<std::uint32_t> fim_rep;
  std::optional<std::uint32_t> fim_sep;

  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
  std::optional<bool> lowercase;                // tokenizer.ggml.normalizer.lowercase
  std::optional<bool> strip_accents;            // tokenizer.ggml.normalizer.strip_accents
  std::vector<std::byte> precompiled_charsmap;  // rules of normalisation; empty: none

  std::string chat_template;     // tokenizer.chat_template, Jinja text
  std::uint32_t vocab_size = 0;  // for a vocabulary without tokens: ids are 0 to vocab_size - 1
};

// Values of tokenizer.ggml.token_type; any other counts as kUndefined.
enum class GgufTokenType : std::int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

}  // namespace kvd
