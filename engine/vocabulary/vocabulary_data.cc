#include "engine/vocabulary/vocabulary_data.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvd {
namespace {

struct IdKey {
  std::string_view key;
  std::optional<std::uint32_t> VocabularyData::* id;
};

// The keys of special token ids. If the file has two keys for the same role, the later one in this
// table is used. The last three keys are older names of keys above.
constexpr IdKey kIdKeys[] = {
    {"tokenizer.ggml.bos_token_id", &VocabularyData::bos},
    {"tokenizer.ggml.eos_token_id", &VocabularyData::eos},
    {"tokenizer.ggml.eot_token_id", &VocabularyData::eot},
    {"tokenizer.ggml.eom_token_id", &VocabularyData::eom},
    {"tokenizer.ggml.unknown_token_id", &VocabularyData::unk},
    {"tokenizer.ggml.seperator_token_id", &VocabularyData::sep},
    {"tokenizer.ggml.padding_token_id", &VocabularyData::pad},
    {"tokenizer.ggml.mask_token_id", &VocabularyData::mask},
    {"tokenizer.ggml.fim_pre_token_id", &VocabularyData::fim_pre},
    {"tokenizer.ggml.fim_suf_token_id", &VocabularyData::fim_suf},
    {"tokenizer.ggml.fim_mid_token_id", &VocabularyData::fim_mid},
    {"tokenizer.ggml.fim_pad_token_id", &VocabularyData::fim_pad},
    {"tokenizer.ggml.fim_rep_token_id", &VocabularyData::fim_rep},
    {"tokenizer.ggml.fim_sep_token_id", &VocabularyData::fim_sep},
    {"tokenizer.ggml.prefix_token_id", &VocabularyData::fim_pre},
    {"tokenizer.ggml.suffix_token_id", &VocabularyData::fim_suf},
    {"tokenizer.ggml.middle_token_id", &VocabularyData::fim_mid},
};

Status ReadIds(const GgufFile& file, VocabularyData& data) {
  for (const IdKey& entry : kIdKeys) {
    const GgufEntry* found = file.FindEntry(entry.key);
    if (found == nullptr) continue;
    // Some writers store "none" as -1.
    if (found->type == GgufType::kI32 || found->type == GgufType::kI64) {
      Result<std::int32_t> signed_id = file.GetI32(entry.key);
      if (signed_id && *signed_id < 0) continue;
    }
    KVD_TRY(data.*entry.id, file.GetU32(entry.key));
  }
  return {};
}

Status ReadFlags(const GgufFile& file, VocabularyData& data) {
  constexpr std::pair<std::string_view, std::optional<bool> VocabularyData::*> keys[] = {
      {"tokenizer.ggml.add_bos_token", &VocabularyData::add_bos},
      {"tokenizer.ggml.add_eos_token", &VocabularyData::add_eos},
      {"tokenizer.ggml.add_sep_token", &VocabularyData::add_sep},
      {"tokenizer.ggml.add_space_prefix", &VocabularyData::add_space_prefix},
      {"tokenizer.ggml.remove_extra_whitespaces", &VocabularyData::remove_extra_whitespaces},
      {"tokenizer.ggml.normalizer.lowercase", &VocabularyData::lowercase},
      {"tokenizer.ggml.normalizer.strip_accents", &VocabularyData::strip_accents},
  };
  for (const auto& [key, flag] : keys) {
    if (!file.Has(key)) continue;
    KVD_TRY(data.*flag, file.GetBool(key));
  }
  return {};
}

Status ReadStrings(const GgufFile& file, std::string_view key, std::vector<std::string>& strings) {
  if (!file.Has(key)) return {};
  KVD_TRY(std::vector<std::string_view> views, file.GetStringArray(key));
  strings.assign(views.begin(), views.end());
  return {};
}

Status ReadTemplates(const GgufFile& file, std::vector<NamedTemplate>& templates) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  for (const GgufEntry& entry : file.entries()) {
    if (!entry.key.starts_with(kKey)) continue;
    std::string_view name = entry.key.substr(kKey.size());
    if (!name.empty() && !name.starts_with('.')) continue;  // such as tokenizer.chat_templates
    if (!name.empty()) name.remove_prefix(1);
    KVD_TRY(const std::string_view text, file.GetString(entry.key));
    templates.push_back({std::string(name), std::string(text)});
  }
  return {};
}

Status ReadScores(const GgufFile& file, std::vector<float>& scores) {
  constexpr std::string_view key = "tokenizer.ggml.scores";
  const GgufEntry* entry = file.FindEntry(key);
  if (entry == nullptr) return {};
  if (entry->type == GgufType::kArray && entry->element_type == GgufType::kI32) {
    KVD_TRY(std::vector<std::int32_t> ranks, file.GetI32Array(key));
    for (std::int32_t rank : ranks) scores.push_back(static_cast<float>(rank));
    return {};
  }
  KVD_TRY(scores, file.GetF32Array(key));
  return {};
}

Status ReadCharsmap(const GgufFile& file, std::vector<std::byte>& charsmap) {
  constexpr std::string_view key = "tokenizer.ggml.precompiled_charsmap";
  const GgufEntry* entry = file.FindEntry(key);
  if (entry == nullptr) return {};
  bool bytes = entry->element_type == GgufType::kI8 || entry->element_type == GgufType::kU8;
  if (entry->type != GgufType::kArray || !bytes)
    return Fail(Code::kCorrupt, key, ": not an array of bytes");
  charsmap.assign(entry->value.begin(), entry->value.end());
  return {};
}

// Reads the vocabulary size of a file without tokens: the declared size, else the number of rows of
// the embedding, else 0.
Result<std::uint32_t> ReadVocabSize(const GgufFile& file, const std::string& architecture) {
  std::string key = architecture + ".vocab_size";
  if (file.Has(key)) return file.GetU32(key);
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || !std::in_range<std::uint32_t>(embedding->dims[1])) return 0u;
  return static_cast<std::uint32_t>(embedding->dims[1]);
}

}  // namespace

Result<VocabularyData> ReadVocabulary(const GgufFile& file) {
  VocabularyData data;
  KVD_TRY(data.model, file.GetStringOr("tokenizer.ggml.model", ""));
  KVD_TRY(data.pre, file.GetStringOr("tokenizer.ggml.pre", ""));
  KVD_TRY(data.architecture, file.GetStringOr("general.architecture", ""));
  KVD_TRY(data.general_name, file.GetStringOr("general.name", ""));
  KVD_CHECK_OK(ReadTemplates(file, data.chat_templates));
  KVD_CHECK_OK(ReadStrings(file, "tokenizer.ggml.tokens", data.tokens));
  KVD_CHECK_OK(ReadStrings(file, "tokenizer.ggml.merges", data.merges));
  KVD_CHECK_OK(ReadScores(file, data.scores));
  if (file.Has("tokenizer.ggml.token_type")) {
    KVD_TRY(data.token_types, file.GetI32Array("tokenizer.ggml.token_type"));
  }
  KVD_CHECK_OK(ReadIds(file, data));
  KVD_CHECK_OK(ReadFlags(file, data));
  KVD_CHECK_OK(ReadCharsmap(file, data.precompiled_charsmap));
  KVD_TRY(data.vocab_size, ReadVocabSize(file, data.architecture));
  return data;
}

}  // namespace kvd
