#include "engine/vocabulary/vocabulary_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/model/gguf_writer.h"
#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Reads the vocabulary from a file with the metadata that `add` writes and an embedding of 7 rows.
Result<VocabularyData> Read(const std::function<void(GgufWriter&)>& add) {
  GgufWriter writer;
  add(writer);
  const std::uint64_t dims[] = {4, 7};
  writer.AddTensor("token_embd.weight", kernels::DataType::kF32, dims);
  auto zeros = [&writer](std::size_t index, GgufSink& sink) {
    return sink.Append(std::vector<std::byte>(writer.tensor_bytes(index)));
  };
  KVD_TRY(std::vector<std::byte> bytes, writer.ToBytes(zeros));
  KVD_TRY(GgufFile file, GgufFile::FromBytes(bytes));
  return ReadVocabulary(file);
}

TEST(ReadVocabularyTest, EveryKeyIsRead) {
  Result<VocabularyData> data = Read([](GgufWriter& writer) {
    writer.AddString("general.architecture", "llama");
    writer.AddString("general.name", "Name");
    writer.AddU32("llama.vocab_size", 3);
    writer.AddString("tokenizer.ggml.model", "gpt2");
    writer.AddString("tokenizer.ggml.pre", "qwen2");
    writer.AddString("tokenizer.chat_template", "{{ messages }}");
    writer.AddString("tokenizer.chat_template.tool_use", "{{ tools }}");
    const std::string_view names[] = {"tool_use"};
    writer.AddStringArray("tokenizer.chat_templates", names);
    const std::string_view tokens[] = {"a", "b", "ab"};
    const float scores[] = {1, 2, 3};
    const std::int32_t types[] = {1, 1, 3};
    const std::string_view merges[] = {"a b"};
    writer.AddStringArray("tokenizer.ggml.tokens", tokens);
    writer.AddF32Array("tokenizer.ggml.scores", scores);
    writer.AddI32Array("tokenizer.ggml.token_type", types);
    writer.AddStringArray("tokenizer.ggml.merges", merges);
    std::uint32_t next = 10;
    for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask",
                             "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep"}) {
      writer.AddU32("tokenizer.ggml." + std::string(name) + "_token_id", next++);
    }
    writer.AddBool("tokenizer.ggml.add_bos_token", true);
    writer.AddBool("tokenizer.ggml.add_eos_token", false);
    writer.AddBool("tokenizer.ggml.add_sep_token", true);
    writer.AddBool("tokenizer.ggml.add_space_prefix", true);
    writer.AddBool("tokenizer.ggml.remove_extra_whitespaces", true);
    writer.AddBool("tokenizer.ggml.normalizer.lowercase", false);
    writer.AddBool("tokenizer.ggml.normalizer.strip_accents", true);
  });
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->model, "gpt2");
  EXPECT_EQ(data->pre, "qwen2");
  EXPECT_EQ(data->architecture, "llama");
  EXPECT_EQ(data->general_name, "Name");
  ASSERT_EQ(data->chat_templates.size(), 2u);
  EXPECT_EQ(data->chat_templates[0].name, "");
  EXPECT_EQ(data->chat_templates[0].text, "{{ messages }}");
  EXPECT_EQ(data->chat_templates[1].name, "tool_use");
  EXPECT_EQ(data->chat_templates[1].text, "{{ tools }}");
  EXPECT_THAT(data->tokens, ElementsAre("a", "b", "ab"));
  EXPECT_THAT(data->scores, ElementsAre(1, 2, 3));
  EXPECT_THAT(data->token_types, ElementsAre(1, 1, 3));
  EXPECT_THAT(data->merges, ElementsAre("a b"));
  EXPECT_THAT((std::vector{data->bos, data->eos, data->eot, data->eom, data->unk, data->sep,
                           data->pad, data->mask, data->fim_pre, data->fim_suf, data->fim_mid,
                           data->fim_pad, data->fim_rep, data->fim_sep}),
              ElementsAre(10u, 11u, 12u, 13u, 14u, 15u, 16u, 17u, 18u, 19u, 20u, 21u, 22u, 23u));
  EXPECT_EQ(data->add_bos, true);
  EXPECT_EQ(data->add_eos, false);
  EXPECT_EQ(data->add_sep, true);
  EXPECT_EQ(data->add_space_prefix, true);
  EXPECT_EQ(data->remove_extra_whitespaces, true);
  EXPECT_EQ(data->lowercase, false);
  EXPECT_EQ(data->strip_accents, true);
  EXPECT_TRUE(data->precompiled_charsmap.empty());
  EXPECT_EQ(data->vocab_size, 3u);
}

TEST(ReadVocabularyTest, MissingKeysAreEmptyAndTheSizeIsThatOfTheEmbedding) {
  Result<VocabularyData> data = Read([](GgufWriter&) {});
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->model, "");
  EXPECT_TRUE(data->tokens.empty());
  EXPECT_FALSE(data->bos.has_value());
  EXPECT_FALSE(data->add_bos.has_value());
  EXPECT_EQ(data->vocab_size, 7u);
}

TEST(ReadVocabularyTest, OlderKeysAndNegativeIdsAreUnderstood) {
  Result<VocabularyData> data = Read([](GgufWriter& writer) {
    writer.AddU32("tokenizer.ggml.prefix_token_id", 5);
    writer.AddI32("tokenizer.ggml.bos_token_id", -1);
    writer.AddI32("tokenizer.ggml.eos_token_id", 6);
    const std::int32_t scores[] = {-7};
    writer.AddI32Array("tokenizer.ggml.scores", scores);
  });
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->fim_pre, 5u);
  EXPECT_FALSE(data->bos.has_value());
  EXPECT_EQ(data->eos, 6u);
  EXPECT_THAT(data->scores, ElementsAre(-7));
}

TEST(ReadVocabularyTest, TheCharsmapIsAnArrayOfBytes) {
  const std::byte value[] = {std::byte{1}, std::byte{0xff}};
  const auto add = [&](GgufType type) {
    return Read([&](GgufWriter& writer) {
      writer.AddEntry({.key = "tokenizer.ggml.precompiled_charsmap",
                       .type = GgufType::kArray,
                       .element_type = type,
                       .count = 2,
                       .value = value});
    });
  };
  for (GgufType type : {GgufType::kU8, GgufType::kI8}) {
    Result<VocabularyData> data = add(type);
    ASSERT_TRUE(data.has_value()) << data.error().message;
    EXPECT_THAT(data->precompiled_charsmap, ElementsAre(value[0], value[1]));
  }
  Result<VocabularyData> data = add(GgufType::kBool);
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().code, Code::kCorrupt);
  EXPECT_THAT(data.error().message, HasSubstr("precompiled_charsmap"));
}

TEST(ReadVocabularyTest, AKeyOfTheWrongTypeIsNamed) {
  for (std::string key :
       {"general.name", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template",
        "tokenizer.chat_template.tool_use", "tokenizer.ggml.tokens", "tokenizer.ggml.merges",
        "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.add_bos_token", "tokenizer.ggml.normalizer.lowercase",
        "tokenizer.ggml.precompiled_charsmap"}) {
    Result<VocabularyData> data = Read([&key](GgufWriter& writer) { writer.AddF32(key, 1); });
    ASSERT_FALSE(data.has_value()) << key;
    EXPECT_EQ(data.error().code, Code::kCorrupt);
    EXPECT_THAT(data.error().message, HasSubstr(key));
  }
}

}  // namespace
}  // namespace kvd
