// Writes the seeds of gguf_fuzz into a directory: one small model per architecture, type and rope
// scaling; files with only a vocabulary, one for each kind and each model with a special rule; and
// headers with every type and with every error.
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_writer.h"
#include "tests/engine/model/gguf_bytes.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/small_vocabularies.h"
#include "tools/make_model/model_maker.h"

namespace kvd::gguf_corpus {
namespace {

// The smallest model that has every kind of tensor; about 10 KiB in f32.
kvd::ModelShape SeedShape() {
  kvd::ModelShape shape;
  shape.layers = 1;
  shape.embedding = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.ffn = 32;
  shape.vocab = 16;
  shape.low_rank = 4;
  shape.rope_factor = 4.0f;
  shape.bias = kvd::BiasSet::kAll;
  return shape;
}

int Write(const kvd::ModelShape& shape, const std::string& path) {
  auto made = kvd::MakeModelFile(shape, nullptr, path);
  if (made) return 0;
  std::fprintf(stderr, "make_corpus gguf: %s\n", made.error().message.c_str());
  return 1;
}

// Writes a file that has only the keys that engine/vocabulary/vocabulary_data.h reads.
int WriteVocabulary(const kvd::VocabularyData& data, const std::string& path) {
  kvd::GgufWriter writer;
  writer.AddString("tokenizer.ggml.model", data.model);
  writer.AddString("tokenizer.ggml.pre", data.pre);
  if (!data.general_name.empty()) writer.AddString("general.name", data.general_name);
  const auto add_strings = [&](const char* key, const std::vector<std::string>& strings) {
    const std::vector<std::string_view> views(strings.begin(), strings.end());
    if (!views.empty()) writer.AddStringArray(key, views);
  };
  add_strings("tokenizer.ggml.tokens", data.tokens);
  add_strings("tokenizer.ggml.merges", data.merges);
  writer.AddF32Array("tokenizer.ggml.scores", data.scores);
  writer.AddI32Array("tokenizer.ggml.token_type", data.token_types);
  const auto add_id = [&](const char* key, std::optional<std::uint32_t> id) {
    if (id) writer.AddU32(key, *id);
  };
  add_id("tokenizer.ggml.bos_token_id", data.bos);
  add_id("tokenizer.ggml.eos_token_id", data.eos);
  add_id("tokenizer.ggml.unknown_token_id", data.unk);
  add_id("tokenizer.ggml.seperator_token_id", data.sep);
  add_id("tokenizer.ggml.padding_token_id", data.pad);
  add_id("tokenizer.ggml.mask_token_id", data.mask);
  writer.AddI32("tokenizer.ggml.eom_token_id", -1);
  const auto add_flag = [&](const char* key, std::optional<bool> flag) {
    if (flag) writer.AddBool(key, *flag);
  };
  add_flag("tokenizer.ggml.add_eos_token", data.add_eos);
  add_flag("tokenizer.ggml.add_space_prefix", data.add_space_prefix);
  add_flag("tokenizer.ggml.remove_extra_whitespaces", data.remove_extra_whitespaces);
  add_flag("tokenizer.ggml.normalizer.lowercase", data.lowercase);
  if (!data.precompiled_charsmap.empty()) {
    writer.AddEntry({.key = "tokenizer.ggml.precompiled_charsmap",
                     .type = kvd::GgufType::kArray,
                     .element_type = kvd::GgufType::kU8,
                     .count = data.precompiled_charsmap.size(),
                     .value = data.precompiled_charsmap});
  }
  const auto nothing = [](std::size_t, kvd::GgufSink&) { return kvd::Status{}; };
  if (writer.WriteFile(path, nothing)) return 0;
  std::fprintf(stderr, "make_corpus gguf: %s\n", path.c_str());
  return 1;
}

// Returns vocabularies that special_tokens.cc recognises by the model's name or by the texts of
// tokens.
std::vector<kvd::test::SmallVocabulary> KnownVocabularies() {
  const auto with = [](const char* name, const char* general_name,
                       std::initializer_list<const char*> texts) {
    kvd::VocabularyData data = kvd::test::SmallVocabularies()[1].data;
    data.general_name = general_name;
    for (const char* text : texts) {
      data.tokens.emplace_back(text);
      data.scores.push_back(0);
      data.token_types.push_back(static_cast<std::int32_t>(kvd::GgufTokenType::kControl));
    }
    return kvd::test::SmallVocabulary{name, std::move(data)};
  };
  std::vector<kvd::test::SmallVocabulary> all = {
      with("phi3", "Phi-3 mini", {"</s>", "<s>"}),
      with("gpt_oss", "", {"<|return|>", "<|call|>"}),
      with("gemma4", "", {"</s>", "<|tool_response>"}),
      with("modern_bert", "modern-bert", {"[MASK]"}),
      with("jina", "", {"<mask>"}),
      with("fim", "", {"<|fim_prefix|>", "<|fim_pad|>", "<|repo_name|>", "<|channel|>"}),
  };
  all[4].data.pre = "jina-v2-de";
  return all;
}

// Returns vocabularies with one change each, which is refused or which no small vocabulary has. The
// changed vocabularies are SentencePiece vocabularies, or Unigram vocabularies if the charsmap is
// changed.
std::vector<kvd::test::SmallVocabulary> ChangedVocabularies() {
  kvd::VocabularyData sentencepiece, unigram;
  for (const kvd::test::SmallVocabulary& small : kvd::test::SmallVocabularies()) {
    if (small.name == "sentencepiece") sentencepiece = small.data;
    if (small.name == "unigram_charsmap") unigram = small.data;
  }
  std::vector<kvd::test::SmallVocabulary> all;
  all.push_back({"id_behind", sentencepiece});
  all.back().data.bos = 100000;
  // Token 3 is the first byte token.
  for (const char* text : {"<0x0a>", "<0xfg>"}) {
    all.push_back({std::string("byte_") + text[4], sentencepiece});
    all.back().data.tokens[3] = text;
  }
  all.push_back({"charsmap_short", unigram});
  all.back().data.precompiled_charsmap.resize(3);
  all.push_back({"charsmap_behind", unigram});
  all.back().data.precompiled_charsmap.resize(8);
  return all;
}

// Returns headers with a value and an array of each type, and headers with errors.
std::vector<std::pair<std::string, kvd::GgufBytes>> Headers() {
  using kvd::GgufBytes;
  using kvd::GgufType;
  const auto array = [](GgufBytes& bytes, const char* key, GgufType type,
                        std::uint64_t count) -> GgufBytes& {
    return bytes.Key(key, GgufType::kArray).U32(static_cast<std::uint32_t>(type)).U64(count);
  };
  const auto one = [] { return GgufBytes::WithHeader(0, 1); };
  GgufBytes values = GgufBytes::WithHeader(0, 13);
  values.Key("u8", GgufType::kU8).U8(1).Key("i8", GgufType::kI8).U8(2);
  values.Key("u16", GgufType::kU16).Number(std::uint16_t{3});
  values.Key("i16", GgufType::kI16).Number(std::int16_t{-4});
  values.Key("u32", GgufType::kU32).U32(5).Key("i32", GgufType::kI32).Number(std::int32_t{-6});
  values.Key("u64", GgufType::kU64).U64(7).Key("i64", GgufType::kI64).Number(std::int64_t{-8});
  values.Key("f32", GgufType::kF32).Number(9.5f).Key("f64", GgufType::kF64).Number(1e300);
  values.Key("bool", GgufType::kBool).U8(1).Key("text", GgufType::kString).String("x");
  values.Key("general.alignment", GgufType::kU32).U32(64);
  GgufBytes arrays = GgufBytes::WithHeader(0, 12);
  struct Numbers {
    GgufType type;
    int bytes_each;
  };
  const Numbers numbers[] = {{GgufType::kU8, 1},  {GgufType::kI8, 1},  {GgufType::kU16, 2},
                             {GgufType::kI16, 2}, {GgufType::kU32, 4}, {GgufType::kI32, 4},
                             {GgufType::kU64, 8}, {GgufType::kI64, 8}, {GgufType::kF32, 4},
                             {GgufType::kF64, 8}, {GgufType::kBool, 1}};
  for (const auto& [type, bytes_each] : numbers) {
    array(arrays, std::string(1, static_cast<char>('a' + static_cast<int>(type))).c_str(), type, 2);
    for (int i = 0; i < 2 * bytes_each; ++i) arrays.U8(1);
  }
  array(arrays, "text", GgufType::kString, 2).String("a").String("b");
  std::vector<std::pair<std::string, GgufBytes>> all = {{"values", values}, {"arrays", arrays}};
  GgufBytes bytes = one();
  array(bytes, "a", GgufType::kArray, 1).U32(0).U64(0);
  all.emplace_back("array_of_arrays", bytes);
  bytes = one();
  all.emplace_back("bool_2", bytes.Key("b", GgufType::kBool).U8(2));
  bytes = one();
  all.emplace_back("alignment_type", bytes.Key("general.alignment", GgufType::kI32).U32(64));
  bytes = one();
  all.emplace_back("alignment_3", bytes.Key("general.alignment", GgufType::kU32).U32(3));
  const auto tensors = [&](const char* name, std::uint64_t elements, std::uint64_t rows,
                           std::uint32_t type, std::uint64_t second_offset) {
    GgufBytes made = GgufBytes::WithHeader(2, 0);
    made.Tensor("a", {elements, rows}, type, 0).Tensor("b", {32}, 0, second_offset).Data(512);
    all.emplace_back(name, made);
  };
  tensors("tensors", 32, 1, 0, 128);
  tensors("tensor_overlap", 32, 2, 0, 128);
  tensors("tensor_empty", 32, 0, 0, 128);
  tensors("tensor_block", 33, 1, 8, 128);
  tensors("tensor_huge", 32, std::uint64_t{1} << 62, 0, 128);
  tensors("tensor_behind", 32, 1, 0, 4096);
  tensors("tensor_bytes", 32, std::uint64_t{1} << 57, 0, 128);
  tensors("tensor_type", 32, 1, 999, 128);
  bytes = one();
  all.emplace_back("key_unprintable", bytes.Key("a\x01\xff", GgufType::kBool).U8(2));
  bytes = one();
  all.emplace_back("architecture_unprintable",
                   bytes.Key("general.architecture", GgufType::kString).String("a\x01\xff"));
  bytes = one();
  array(bytes, "general.alignment", GgufType::kU32, 1);
  all.emplace_back("alignment_array", bytes.U32(64));
  bytes = one();
  array(bytes, "tokenizer.ggml.scores", GgufType::kI32, 2);
  all.emplace_back("scores_i32", bytes.U32(1).U32(2));
  bytes = one();
  array(bytes, "tokenizer.ggml.precompiled_charsmap", GgufType::kU32, 1);
  all.emplace_back("charsmap_u32", bytes.U32(1));
  bytes = GgufBytes::WithHeader(1, 0);
  all.emplace_back("embedding",
                   bytes.Tensor("token_embd.weight", {32, 16}, 0, 0).Data(32 * 16 * 4));
  return all;
}

}  // namespace

int Make(const std::string& folder) {
  std::string prefix = folder + "/";
  int failed = 0;
  for (const kvd::ArchitectureDefinition* definition : kvd::Architectures()) {
    kvd::ModelShape shape = SeedShape();
    shape.architecture = definition->format.architecture;
    shape.layers = 2;  // the first attention layer of a hybrid is its second layer
    failed |= Write(shape, prefix + std::string(definition->format.name));
  }
  for (const char* type : {"f32", "bf16", "q4_0", "q5_1"}) {
    kvd::ModelShape shape = SeedShape();
    if (!kvd::SetType(shape, type)) failed = 1;
    failed |= Write(shape, prefix + "type_" + type);
  }
  for (kvd::RopeScaling scaling :
       {kvd::RopeScaling::kLinear, kvd::RopeScaling::kYarn, kvd::RopeScaling::kLlama3}) {
    kvd::ModelShape shape = SeedShape();
    shape.rope_scaling = scaling;
    shape.tied = true;
    failed |= Write(shape, prefix + "rope_" + std::string(kvd::RopeScalingName(scaling)));
  }
  for (const kvd::test::SmallVocabulary& small : kvd::test::SmallVocabularies()) {
    failed |= WriteVocabulary(small.data, prefix + "vocabulary_" + small.name);
  }
  for (const kvd::test::SmallVocabulary& known : KnownVocabularies()) {
    failed |= WriteVocabulary(known.data, prefix + "known_" + known.name);
  }
  for (const kvd::test::SmallVocabulary& changed : ChangedVocabularies()) {
    failed |= WriteVocabulary(changed.data, prefix + "changed_" + changed.name);
  }
  for (const auto& [name, header] : Headers()) {
    kvd::test::WriteSeed(folder, "header_" + name, header.bytes());
  }
  return failed;
}

}  // namespace kvd::gguf_corpus
