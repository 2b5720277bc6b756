// Tests imports of files of llama.cpp whose tokens and cells differ in number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/llama_files/import_sequences.h"
#include "tests/support/llama_conversion.h"
#include "tests/support/tiny_model.h"

namespace kvd::llama_import {
namespace {

using test::MakeEngine;
using test::RandomTokens;
using test::TinyLlama;
using test::TinyOf;
using ::testing::HasSubstr;

std::vector<std::byte> WithTokens(const std::vector<std::byte>& file,
                                  const std::vector<TokenId>& tokens) {
  std::uint32_t old_count = 0;
  std::memcpy(&old_count, file.data() + 8, sizeof old_count);
  std::vector<std::byte> changed(file.begin(), file.begin() + 8);
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const auto append = [&](std::span<const std::byte> bytes) {
    changed.insert(changed.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(&count, 1)));
  append(std::as_bytes(std::span(tokens)));
  append(std::span(file).subspan(12 + old_count * sizeof(TokenId)));
  return changed;
}

TEST(LlamaImportTypesTest, AModelWithAnEncoderImportsNoFile) {
  const auto llama = MakeEngine(TinyLlama(), Options());
  const auto file = Exported(*llama, {Sequence(*llama, 4)});
  ModelShape shape = TinyOf(Architecture::kT5);
  shape.name = "tiny-t5-import";
  EXPECT_THAT(Refused(*MakeEngine(shape, Options()), file), HasSubstr("hold no encoded text"));
}

TEST(LlamaImportTokensTest, TokensWithoutCellsAndCellsWithoutTokensAreLeftOut) {
  const auto engine = MakeEngine(TinyLlama(), Options());
  const SequenceHandle sequence = Sequence(*engine, 40);
  const auto file = Exported(*engine, {sequence});
  const std::vector<TokenId> all = RandomTokens(3, 43, engine->config().vocab_size);
  std::vector<TokenId> same = all;
  same.resize(40);
  SequenceHandle copy = *engine->memory().sequences().Create({});
  auto imported = Import(*engine, WithTokens(file, all), copy);
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->cell_count, 40u);
  EXPECT_EQ(imported->tokens_left_out, 3u);
  same.resize(30);
  copy = *engine->memory().sequences().Create({});
  imported = Import(*engine, WithTokens(file, same), copy);
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->cell_count, 30u);
  EXPECT_EQ(imported->cells_left_out, 10u);
  EXPECT_EQ(engine->memory().sequences().Query(copy)->next_pos.value, 30);
  EXPECT_THAT(Refused(*engine, WithTokens(file, {})), HasSubstr("40 cells and 0 tokens"));
  same[7] = -1;
  EXPECT_THAT(Refused(*engine, WithTokens(file, same)), HasSubstr("token 7: id -1"));
}

TEST(LlamaImportTokensTest, ARecurrentStateNeedsAllItsTokens) {
  for (const Architecture architecture : {Architecture::kMamba2, Architecture::kLfm2}) {
    const auto engine = MakeEngine(TinyOf(architecture), Options());
    const SequenceHandle sequence = Sequence(*engine, 40);
    const auto file = Exported(*engine, {sequence});
    const std::vector<TokenId> tokens = RandomTokens(3, 39, engine->config().vocab_size);
    EXPECT_THAT(Refused(*engine, WithTokens(file, tokens)),
                HasSubstr("recurrent state depends on"));
  }
}

TEST(LlamaImportTokensTest, ASequenceWithGapsNeedsOneTokenPerCell) {
  const auto engine = MakeEngine(TinyLlama(), Options());
  const SequenceHandle sequence = Sequence(*engine, 40);
  ASSERT_TRUE(engine->memory().sequences().RemoveRange(sequence, {Pos{10}, Pos{15}}));
  const auto file = Exported(*engine, {sequence});
  const SequenceHandle copy = Imported(*engine, file);
  EXPECT_EQ(engine->memory().sequences().Query(copy)->next_pos.value, 40);
  EXPECT_EQ(engine->memory().sequences().Query(copy)->cell_count, 35u);
  EXPECT_THAT(Refused(*engine, WithTokens(file, RandomTokens(3, 40, 96))),
              HasSubstr("35 cells and 40 tokens, and the positions have gaps"));
}

TEST(LlamaImportTokensTest, EmptySequencesAndFilesOfSeveralSequencesAreRefused) {
  const auto engine = MakeEngine(TinyLlama(), Options());
  const SequenceHandle full = Sequence(*engine, 4);
  const SequenceHandle empty = *engine->memory().sequences().Create({});
  const auto message = [&](std::vector<SequenceHandle> handles) {
    const auto opened = test::ExportLlama(*engine, handles, {});
    EXPECT_FALSE(opened);
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_THAT(message({}), HasSubstr("sequences: 0"));
  EXPECT_THAT(message({empty}), HasSubstr("a sequence without cells"));
  EXPECT_THAT(message({full, full}), HasSubstr("2 sequences in a sequence file"));
  EXPECT_THAT(message({MakeHandle(77, 1)}), HasSubstr("no such handle"));
}

}  // namespace
}  // namespace kvd::llama_import
