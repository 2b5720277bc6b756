// Tests that a sequence that is exported as a file of llama.cpp and imported again continues with
// the same bits, for every kind of memory and both layouts. The import refuses a file of another
// model and changes nothing.
#include "llama_files/llama_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/model_config.h"
#include "tests/llama_files/import_sequences.h"
#include "tests/llama_files/llama_rewrite.h"
#include "tests/support/llama_conversion.h"
#include "tests/support/parameter_name.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd::llama_import {
namespace {

using kernels::DataType;
using test::Feed;
using test::LlamaRewrite;
using test::LlamaRewriter;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;
using test::TinyLlama;
using test::TinyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LlamaImportTest : public testing::TestWithParam<Architecture> {};

TEST_P(LlamaImportTest, FilesOfBothLayoutsContinueWithTheSameBits) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const auto other = MakeEngine(shape, Options());
  ASSERT_TRUE(engine != nullptr && other != nullptr);
  const std::vector<TokenId> next = RandomTokens(4, 40, shape.vocab);
  // TinyOf gives models with sliding windows windows of 45 positions.
  for (const std::size_t count : {1, 31, 45, 46, 150}) {
    const SequenceHandle sequence = Sequence(*engine, count);
    std::vector<SequenceHandle> copies;
    for (const LlamaLayout layout : kLayouts) {
      for (const bool is_session : {false, true}) {
        for (const bool is_transposed : {false, true}) {
          const auto file =
              Exported(*engine, {sequence},
                       {.kind = is_session ? LlamaFileKind::kSession : LlamaFileKind::kSequence,
                        .layout = layout,
                        .is_v_transposed = is_transposed});
          copies.push_back(Imported(*other, file));
        }
      }
    }
    const std::vector<float> expected = Feed(*engine, sequence, next, 9);
    for (const SequenceHandle copy : copies) {
      EXPECT_EQ(other->memory().sequences().Query(copy)->pristine_cells, 0u);
      EXPECT_TRUE(SameBits(Feed(*other, copy, next, 13), expected)) << count;
      EXPECT_TRUE(other->memory().sequences().Drop(copy));
    }
  }
}

// Describes the caches that llama.cpp of August 2026 keeps for the engine's model.
LlamaRewrite RewriteFor(const Engine& engine, std::uint32_t window_cells) {
  LlamaRewrite rewrite;
  rewrite.has_states = engine.state_bytes() != 0;
  if (window_cells == 0) return rewrite;
  for (std::size_t layer = 0; layer < engine.config().layer_count; ++layer) {
    if (engine.config().caches(layer))
      rewrite.windowed.push_back(engine.config().window[layer] != 0);
  }
  rewrite.window_cells = window_cells;
  return rewrite;
}

TEST_P(LlamaImportTest, AForeignFileOfThe2026LayoutContinuesWithTheSameBits) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const auto other = MakeEngine(shape, Options());
  const SequenceHandle sequence = Sequence(*engine, 150);
  LlamaRewrite rewrite = RewriteFor(*engine, shape.window);
  rewrite.shuffles = true;
  rewrite.has_coordinates = true;
  rewrite.streams = 3;
  for (const bool is_transposed : {false, true}) {
    const auto before =
        Exported(*engine, {sequence},
                 {.layout = LlamaLayout::kFebruary2025, .is_v_transposed = is_transposed});
    const auto description = ReadLlamaStateFile(before);
    ASSERT_TRUE(description);
    const auto file = LlamaRewriter(before, *description, rewrite).Run();
    const SequenceHandle copy = Imported(*other, file);
    SequenceHandle twin{};
    ASSERT_TRUE(engine->memory().sequences().Fork(sequence, {}, {&twin, 1}));
    const std::vector<TokenId> next = RandomTokens(4, 40, shape.vocab);
    EXPECT_TRUE(SameBits(Feed(*other, copy, next, 13), Feed(*engine, twin, next, 40)));
  }
}

TEST_P(LlamaImportTest, The2026LayoutIsWrittenAsAForeignWriterDoes) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  for (const std::uint32_t count : {1u, 30u, 150u}) {
    const SequenceHandle sequence = Sequence(*engine, count);
    for (const bool is_transposed : {false, true}) {
      const auto before =
          Exported(*engine, {sequence},
                   {.layout = LlamaLayout::kFebruary2025, .is_v_transposed = is_transposed});
      const auto file = Exported(*engine, {sequence}, {.is_v_transposed = is_transposed});
      const auto description = ReadLlamaStateFile(before);
      const auto own = ReadLlamaStateFile(file);
      ASSERT_TRUE(description && own);
      std::uint32_t window_cells = 0;
      if (shape.window != 0) {
        ASSERT_EQ(own->cache_count, 2u);
        window_cells = static_cast<std::uint32_t>(own->parts[1].cells.size());
        // The export may omit the oldest cell in the last token's window, because no later token's
        // window contains it.
        EXPECT_LE(window_cells, std::min(count, shape.window));
        EXPECT_GE(window_cells, std::min(count, shape.window - 1));
      }
      LlamaRewrite rewrite = RewriteFor(*engine, window_cells);
      rewrite.sequence_id = 0;
      rewrite.has_coordinates = GetParam() == Architecture::kQwen35;
      EXPECT_TRUE(file == LlamaRewriter(before, *description, rewrite).Run()) << count;
    }
  }
}

TEST_P(LlamaImportTest, SequencesOfASessionFileAreSeparated) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const std::vector<SequenceHandle> sequences = {Sequence(*engine, 40, 1), Sequence(*engine, 70, 2),
                                                 Sequence(*engine, 3, 3)};
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  std::vector<std::vector<float>> expected;
  for (const SequenceHandle sequence : sequences) {
    SequenceHandle twin{};
    ASSERT_TRUE(engine->memory().sequences().Fork(sequence, {}, {&twin, 1}));
    expected.push_back(Feed(*engine, twin, next, 20));
    ASSERT_TRUE(engine->memory().sequences().Drop(twin));
  }
  const LlamaExportOptions written[] = {
      {.kind = LlamaFileKind::kSession, .layout = LlamaLayout::kFebruary2025},
      {.kind = LlamaFileKind::kSession},
      {.kind = LlamaFileKind::kSession, .streams = 3},
      {.kind = LlamaFileKind::kSession, .is_v_transposed = true, .streams = 4}};
  for (const LlamaExportOptions& options : written) {
    const auto file = Exported(*engine, sequences, options);
    const auto description = ReadLlamaStateFile(file);
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_EQ(description->layout, options.layout);
    EXPECT_THAT(LlamaSequenceIndex::Create(*description)->ids(), ElementsAre(0, 1, 2));
    for (const LlamaCells& part : description->parts) {
      EXPECT_FALSE(part.cells.empty());
      const bool is_states = engine->state_bytes() != 0 && &part == &description->parts.back();
      if (options.streams == 1 || is_states) {
        EXPECT_EQ(part.stream, 0u);
      } else {
        EXPECT_THAT(part.sequence_ids, Each(static_cast<std::int32_t>(part.stream)));
      }
    }
    for (std::int32_t id = 0; id < 3; ++id) {
      const SequenceHandle copy = Imported(*engine, file, {.sequence_id = id});
      EXPECT_TRUE(SameBits(Feed(*engine, copy, next, 20), expected[static_cast<std::size_t>(id)]))
          << id;
      EXPECT_TRUE(engine->memory().sequences().Drop(copy));
    }
    EXPECT_THAT(Refused(*engine, file), HasSubstr("3 sequences, from 0 to 2: name one"));
    EXPECT_THAT(Refused(*engine, file, {.sequence_id = 3}),
                HasSubstr("no sequence 3; 3 from 0 to 2"));
  }
}

TEST_P(LlamaImportTest, FilesOfAnotherModelAreRefused) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const SequenceHandle sequence = Sequence(*engine, 40);
  const auto file = Exported(*engine, {sequence});
  const auto older = Exported(*engine, {sequence}, {.layout = LlamaLayout::kFebruary2025});
  const auto session = Exported(*engine, {sequence}, {.kind = LlamaFileKind::kSession});
  for (const Architecture architecture :
       {Architecture::kLlama, Architecture::kMamba2, Architecture::kLfm2, Architecture::kRwkv7}) {
    if (architecture == GetParam()) continue;
    const auto other = MakeEngine(TinyOf(architecture), Options());
    EXPECT_THAT(Refused(*other, session), HasSubstr("architecture "));
    // A layer of rwkv6 has a state of the same size as a layer of rwkv7. In the layout of 2025, a
    // layer of gemma2 or gpt-oss has rows of the same shape as a layer of llama. Therefore an
    // engine of rwkv7 does not refuse a sequence file of rwkv6, and an engine of llama does not
    // refuse a sequence file of gemma2 or gpt-oss in the layout of 2025.
    if (GetParam() == Architecture::kRwkv6 && architecture == Architecture::kRwkv7) continue;
    EXPECT_THAT(Refused(*other, file), HasSubstr("the model has"));
    const bool has_rows_of_llama =
        GetParam() == Architecture::kGemma2 || GetParam() == Architecture::kGptOss;
    if (has_rows_of_llama && architecture == Architecture::kLlama) continue;
    EXPECT_THAT(Refused(*other, older), HasSubstr("the model has"));
  }
  // More layers of gemma3n read the cells of the same layers.
  if (GetParam() == Architecture::kGemma3n) return;
  ModelShape deeper = shape;
  deeper.name = "tiny-deeper";
  deeper.layers += 2;
  EXPECT_THAT(Refused(*MakeEngine(deeper, Options()), file), HasSubstr("layers of "));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LlamaImportTest,
    testing::Values(Architecture::kLlama, Architecture::kGemma2, Architecture::kMamba,
                    Architecture::kMamba2, Architecture::kRwkv6, Architecture::kRwkv7,
                    Architecture::kJamba, Architecture::kGraniteHybrid, Architecture::kFalconH1,
                    Architecture::kLfm2, Architecture::kQwen35, Architecture::kGemma3n,
                    Architecture::kGptOss, Architecture::kNemotronHMoe),
    [](const auto& named) { return test::ParameterName(DefinitionOf(named.param).format.name); });

// A model of four layers, of which two read the cells of the others: files have rows of the two
// layers that have cells, one with and one without a window.
TEST(LlamaImportSharedTest, SharedCellsAreRestoredBitForBit) {
  ModelShape shape = TinyOf(Architecture::kGemma4);
  shape.name = "tiny-wide-heads";
  shape.head_dim = 32;
  const auto engine = MakeEngine(shape, Options());
  const SequenceHandle sequence = Sequence(*engine, 90);
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  for (const LlamaFileKind kind : {LlamaFileKind::kSequence, LlamaFileKind::kSession}) {
    const auto file = Exported(*engine, {sequence}, {.kind = kind});
    const auto read = ReadLlamaStateFile(file);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->parts.size(), 2u);
    EXPECT_EQ(read->parts[0].k.size(), 1u);
    EXPECT_EQ(read->parts[1].k.size(), 1u);
    const auto other = MakeEngine(shape, Options());
    const SequenceHandle copy = Imported(*other, file);
    const SequenceHandle twin = Sequence(*other, 90);
    EXPECT_TRUE(SameBits(Feed(*other, copy, next, 13), Feed(*other, twin, next, 20)));
  }
  const auto older = Exported(*engine, {sequence}, {.layout = LlamaLayout::kFebruary2025});
  const auto other = MakeEngine(shape, Options());
  const SequenceHandle copy = Imported(*other, older);
  const SequenceHandle twin = Sequence(*other, 90);
  EXPECT_TRUE(SameBits(Feed(*other, copy, next, 13), Feed(*other, twin, next, 20)));
  const auto quantised = test::ExportLlama(*engine, {&sequence, 1}, {.k_type = DataType::kQ8_0});
  ASSERT_FALSE(quantised);
  EXPECT_THAT(quantised.error().message, HasSubstr("heads of 32 and 64 elements in q8_0"));
}

// Models whose cells hold latent rows, with and without recurrent states: files have no V, and the
// layout of 2025 has no such files.
class LlamaImportLatentTest : public testing::TestWithParam<Architecture> {};

TEST_P(LlamaImportLatentTest, LatentRowsAreRestoredBitForBit) {
  ModelShape shape = TinyOf(GetParam());
  shape.head_dim = 64;
  const auto engine = MakeEngine(shape, Options());
  ASSERT_TRUE(engine->config().values_in_keys());
  const SequenceHandle sequence = Sequence(*engine, 90);
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  for (const LlamaFileKind kind : {LlamaFileKind::kSequence, LlamaFileKind::kSession}) {
    const auto file = Exported(*engine, {sequence}, {.kind = kind});
    const auto read = ReadLlamaStateFile(file);
    ASSERT_TRUE(read) << read.error().message;
    const auto cached = std::ranges::count(engine->config().layer_kind, LayerKind::kAttention);
    EXPECT_EQ(read->parts[0].k.size(), static_cast<std::size_t>(cached));
    EXPECT_TRUE(read->parts[0].v.empty());
    const auto other = MakeEngine(shape, Options());
    const SequenceHandle copy = Imported(*other, file);
    const SequenceHandle twin = Sequence(*other, 90);
    EXPECT_TRUE(SameBits(Feed(*other, copy, next, 13), Feed(*other, twin, next, 20)));
    // The other models of the test have values, or latent rows of another length.
    EXPECT_THAT(Refused(*MakeEngine(TinyLlama(), Options()), file),
                HasSubstr(kind == LlamaFileKind::kSession ? "architecture" : "the model has"));
    ModelShape wider = shape;
    wider.name = "tiny-wider";
    wider.latent_rank = 128;
    EXPECT_THAT(Refused(*MakeEngine(wider, Options()), file), HasSubstr("the model has"));
  }
  const auto older =
      test::ExportLlama(*engine, {&sequence, 1}, {.layout = LlamaLayout::kFebruary2025});
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().message, HasSubstr("the layout of 2025 has no latent rows"));
  const auto quantised = test::ExportLlama(*engine, {&sequence, 1}, {.k_type = DataType::kQ8_0});
  ASSERT_FALSE(quantised);
  EXPECT_THAT(quantised.error().message, HasSubstr("latent rows in q8_0"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, LlamaImportLatentTest,
                         testing::Values(Architecture::kDeepseek2, Architecture::kKimiLinear),
                         [](const auto& named) {
                           return test::ParameterName(DefinitionOf(named.param).format.name);
                         });

}  // namespace
}  // namespace kvd::llama_import
