// Tests that a sequence that is exported as a file of llama.cpp and imported again continues with
// the same bits, for every kind of memory and both layouts. The import refuses a file of another
// model and changes nothing.
#include "client/llama_state/llama_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "client/llama_state/llama_sequence.h"
#include "engine/forward/architectures/architecture.h"
#include "engine/model/model_config.h"
#include "kernels/cell_types.h"
#include "tests/client/llama_state/llama_rewrite.h"
#include "tests/support/counting_work.h"
#include "tests/support/llama_conversion.h"
#include "tests/support/parameter_name.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
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

EngineOptions Options() {
  return {.cells = 4096, .checkpoint_every = 32, .threads = 2, .deterministic = true};
}

SequenceHandle Sequence(Engine& engine, std::size_t tokens, std::uint64_t seed = 3) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  (void)Feed(engine, sequence, RandomTokens(seed, tokens, engine.config().vocab_size), 50);
  return sequence;
}

std::vector<std::byte> Exported(Engine& engine, std::vector<SequenceHandle> sequences,
                                LlamaExportOptions options = {}) {
  auto file = test::ExportLlama(engine, sequences, options);
  if (file) return std::move(*file);
  ADD_FAILURE() << file.error().message;
  return {};
}

Result<LlamaImported> Import(Engine& engine, const std::vector<std::byte>& bytes,
                             SequenceHandle destination, LlamaImportOptions options = {}) {
  KVD_TRY(const LlamaStateFile file, ReadLlamaStateFile(bytes));
  KVD_TRY(const LlamaSequenceIndex index, LlamaSequenceIndex::Create(file));
  return test::ImportLlama(engine, bytes, index, destination, options);
}

SequenceHandle Imported(Engine& engine, const std::vector<std::byte>& bytes,
                        LlamaImportOptions options = {}) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  const auto imported = Import(engine, bytes, sequence, options);
  EXPECT_TRUE(imported) << imported.error().message;
  return sequence;
}

std::string Refused(Engine& engine, const std::vector<std::byte>& bytes,
                    LlamaImportOptions options = {}) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  const PoolUsage before = engine.memory().Usage();
  const auto imported = Import(engine, bytes, sequence, options);
  const PoolUsage after = engine.memory().Usage();
  EXPECT_EQ(after.free_blocks, before.free_blocks);
  EXPECT_EQ(after.free_state_slots, before.free_state_slots);
  EXPECT_EQ(engine.memory().sequences().Query(sequence)->cell_count, 0u);
  EXPECT_FALSE(imported);
  return imported ? std::string() : imported.error().message;
}

class LlamaImportTest : public testing::TestWithParam<Architecture> {};

constexpr LlamaLayout kLayouts[] = {LlamaLayout::kFebruary2025, LlamaLayout::kAugust2026};

TEST_P(LlamaImportTest, AFileOfEitherLayoutGoesOnWithTheSameBits) {
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

TEST_P(LlamaImportTest, AFileOf2026FromAnotherWriterGoesOnWithTheSameBits) {
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

TEST_P(LlamaImportTest, TheFileOf2026HasTheBytesOfAnotherWriter) {
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

TEST_P(LlamaImportTest, SequencesOfASessionAreApartAgain) {
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

TEST_P(LlamaImportTest, FilesOfOtherModelsAreRefused) {
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
TEST(LlamaImportSharedTest, SharedCellsComeBackWithTheirBits) {
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

TEST_P(LlamaImportLatentTest, LatentRowsComeBackWithTheirBits) {
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

// ------------------------------------------------------------------------------------------- types

ModelShape WideHeads() {
  ModelShape shape = TinyLlama();
  shape.name = "tiny-heads-64";
  shape.embedding = 128;
  shape.head_dim = 64;
  return shape;
}

double RelativeError(const std::vector<float>& got, const std::vector<float>& expected) {
  double difference = 0, square = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - expected[i], 2);
    square += std::pow(double{expected[i]}, 2);
  }
  return difference / square;
}

TEST(LlamaImportTypesTest, FilesOfEveryTypeAreConverted) {
  const ModelShape shape = WideHeads();
  const auto source =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  const SequenceHandle sequence = Sequence(*source, 90);
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  std::vector<std::pair<double, std::vector<float>>> all;  // the limit of the error, the logits
  for (const DataType type : kernels::kCellTypes) {
    for (const DataType pool : {DataType::kF16, DataType::kQ8_0}) {
      for (const LlamaLayout layout : kLayouts) {
        const auto file =
            Exported(*source, {sequence}, {.layout = layout, .k_type = type, .v_type = type});
        EXPECT_EQ(ReadLlamaStateFile(file)->parts[0].k[0].type, type);
        const auto engine = MakeEngine(shape, {.cells = 512, .k_type = pool, .v_type = pool});
        const SequenceHandle copy = *engine->memory().sequences().Create({});
        const auto imported = Import(*engine, file, copy);
        ASSERT_TRUE(imported) << imported.error().message;
        EXPECT_EQ(imported->is_converted, pool != type);
        all.emplace_back(type == DataType::kQ4_0 ? 1e-1 : 1e-3, Feed(*engine, copy, next, 20));
      }
    }
  }
  const std::vector<float> expected = Feed(*source, sequence, next, 20);
  for (const auto& [limit, got] : all) EXPECT_LT(RelativeError(got, expected), limit);
}

// Computes y = H x for Hadamard's matrix H; each element of y is a sum over all elements of x.
void RotateNaively(std::span<float> x, std::size_t side) {
  for (std::size_t piece = 0; piece < x.size(); piece += side) {
    std::vector<float> y(side);
    for (std::size_t row = 0; row < side; ++row) {
      for (std::size_t column = 0; column < side; ++column) {
        const float sign = __builtin_parityll(row & column) != 0 ? -1.0f : 1.0f;
        y[row] += sign * x[piece + column] / std::sqrt(static_cast<float>(side));
      }
    }
    std::ranges::copy(y, x.begin() + static_cast<std::ptrdiff_t>(piece));
  }
}

TEST(LlamaImportTypesTest, HeadsThatThePeerHasRotatedAreTurnedBack) {
  ModelShape shape = WideHeads();
  shape.name = "tiny-heads-128";
  shape.head_dim = 128;
  shape.embedding = 256;
  const auto source =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  const SequenceHandle sequence = Sequence(*source, 60);
  const auto before = Exported(
      *source, {sequence},
      {.layout = LlamaLayout::kFebruary2025, .k_type = DataType::kQ8_0, .v_type = DataType::kQ8_0});
  const auto description = ReadLlamaStateFile(before);
  ASSERT_TRUE(description);
  const kernels::KernelTable& kernels = source->kernels();
  const LlamaRewrite rotated{.change = [&](bool is_key, const LlamaRows& rows, std::byte* row) {
    std::vector<float> x(rows.elements);
    kernels.decode_row(rows.type, row, x.data(), x.size());
    RotateNaively(x, is_key ? 128 : 64);
    EXPECT_TRUE(kernels.encode_row(rows.type, x.data(), row, x.size()));
  }};
  const auto file = LlamaRewriter(before, *description, rotated).Run();
  const auto engine =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  const SequenceHandle right = Imported(*engine, file);
  const SequenceHandle wrong = Imported(*engine, file, {.is_unrotated = true});
  const auto plain_file = LlamaRewriter(before, *description, {}).Run();
  const SequenceHandle plain = Imported(*engine, plain_file, {.is_unrotated = true});
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  const std::vector<float> expected = Feed(*source, sequence, next, 20);
  EXPECT_LT(RelativeError(Feed(*engine, right, next, 20), expected), 3e-3);
  EXPECT_LT(RelativeError(Feed(*engine, plain, next, 20), expected), 3e-3);
  EXPECT_GT(RelativeError(Feed(*engine, wrong, next, 20), expected), 1e-2);
}

// Decodes all keys or all values of one layer to floats.
std::vector<float> RowsOf(const Engine& engine, const std::vector<std::byte>& bytes,
                          const LlamaRows& rows, std::size_t cells) {
  std::vector<float> floats(cells * rows.elements);
  engine.kernels().decode_row(rows.type, bytes.data() + rows.offset, floats.data(), floats.size());
  return floats;
}

TEST(LlamaExportTypesTest, QuantisedHeadsAreRotatedAsThePeerOf2026DoesIt) {
  for (const std::uint32_t head_dim : {32u, 64u, 128u, 192u}) {
    SCOPED_TRACE(head_dim);
    ModelShape shape = WideHeads();
    shape.name = "tiny-rotated-" + std::to_string(head_dim);
    shape.head_dim = head_dim;
    shape.embedding = 2 * head_dim;
    const auto engine =
        MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
    // 150 cells are more than the export converts and rotates in one pass.
    const SequenceHandle sequence = Sequence(*engine, 150);
    const auto exported = [&](LlamaLayout layout, DataType type, bool is_unrotated) {
      return Exported(
          *engine, {sequence},
          {.layout = layout, .k_type = type, .v_type = type, .is_unrotated = is_unrotated});
    };
    const auto plain = exported(LlamaLayout::kAugust2026, DataType::kF32, false);
    const auto rotated = exported(LlamaLayout::kAugust2026, DataType::kQ8_0, false);
    const auto unrotated = exported(LlamaLayout::kAugust2026, DataType::kQ8_0, true);
    const auto older = exported(LlamaLayout::kFebruary2025, DataType::kQ8_0, false);
    const auto rows_of = [&](const std::vector<std::byte>& bytes, bool is_key, std::size_t layer) {
      const auto file = ReadLlamaStateFile(bytes);
      const LlamaCells& part = file->parts.at(0);
      return RowsOf(*engine, bytes, is_key ? part.k[layer] : part.v[layer], 150);
    };
    for (const bool is_key : {true, false}) {
      for (std::size_t layer = 0; layer < 3; ++layer) {
        std::vector<float> expected = rows_of(plain, is_key, layer);
        EXPECT_EQ(rows_of(unrotated, is_key, layer), rows_of(older, is_key, layer));
        EXPECT_LT(RelativeError(rows_of(older, is_key, layer), expected), 1e-3);
        if (head_dim % 64 == 0) {
          EXPECT_GT(RelativeError(rows_of(rotated, is_key, layer), expected), 0.1);
          RotateNaively(expected, is_key && head_dim == 128 ? 128 : 64);
        }
        EXPECT_LT(RelativeError(rows_of(rotated, is_key, layer), expected), 1e-3);
      }
    }
    // The import reverses the rotation of the rows by Hadamard's matrix.
    const SequenceHandle copy = Imported(*engine, rotated);
    const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
    EXPECT_LT(RelativeError(Feed(*engine, copy, next, 20), Feed(*engine, sequence, next, 20)),
              3e-3);
  }
}

TEST(LlamaExportTypesTest, StreamsThatDoNotFitAreRefused) {
  const auto engine = MakeEngine(TinyLlama(), Options());
  const std::vector<SequenceHandle> three = {Sequence(*engine, 9), Sequence(*engine, 8),
                                             Sequence(*engine, 7)};
  const auto message = [&](const LlamaExportOptions& options) {
    const auto opened = test::ExportLlama(*engine, three, options);
    EXPECT_FALSE(opened);
    if (opened) return std::string();
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
    return opened.error().message;
  };
  const LlamaFileKind session = LlamaFileKind::kSession;
  EXPECT_THAT(message({.kind = session, .streams = 0}), HasSubstr("0 streams, not in [1, 256]"));
  EXPECT_THAT(message({.kind = session, .streams = 257}), HasSubstr("257 streams, not in"));
  EXPECT_THAT(message({.kind = session, .streams = 2}), HasSubstr("3 sequences in 2 streams"));
  EXPECT_THAT(message({.kind = session, .layout = LlamaLayout::kFebruary2025, .streams = 3}),
              HasSubstr("the layout of 2025 has no streams"));
}

TEST(LlamaImportTypesTest, TypesThatTheLayoutOrTheHeadsCannotHaveAreRefused) {
  const auto engine = MakeEngine(TinyLlama(), Options());  // heads of 16
  const SequenceHandle sequence = Sequence(*engine, 9);
  const auto message = [&](const LlamaExportOptions& options) {
    const auto opened = test::ExportLlama(*engine, {&sequence, 1}, options);
    EXPECT_FALSE(opened);
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_THAT(message({.k_type = DataType::kQ8_0}), HasSubstr("q8_0 packs 32 elements"));
  EXPECT_THAT(message({.v_type = DataType::kQ4_1}), HasSubstr("q4_1; f32, f16"));
  const auto wide = MakeEngine(WideHeads(), Options());
  const SequenceHandle other = Sequence(*wide, 9);
  const auto opened =
      test::ExportLlama(*wide, {&other, 1}, {.v_type = DataType::kQ8_0, .is_v_transposed = true});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("cannot be transposed"));
}

// ------------------------------------------------------------------------------- tokens and cells

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

TEST(LlamaImportTypesTest, AModelThatAttendsToAnEncodedTextTakesNoFile) {
  const auto llama = MakeEngine(TinyLlama(), Options());
  const auto file = Exported(*llama, {Sequence(*llama, 4)});
  ModelShape shape = TinyOf(Architecture::kT5);
  shape.name = "tiny-t5-import";
  EXPECT_THAT(Refused(*MakeEngine(shape, Options()), file), HasSubstr("hold no encoded text"));
}

TEST(LlamaImportTokensTest, TokensBehindTheCellsAndCellsBehindTheTokensAreLeftOut) {
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

TEST(LlamaImportTokensTest, AStateNeedsAllItsTokens) {
  for (const Architecture architecture : {Architecture::kMamba2, Architecture::kLfm2}) {
    const auto engine = MakeEngine(TinyOf(architecture), Options());
    const SequenceHandle sequence = Sequence(*engine, 40);
    const auto file = Exported(*engine, {sequence});
    const std::vector<TokenId> tokens = RandomTokens(3, 39, engine->config().vocab_size);
    EXPECT_THAT(Refused(*engine, WithTokens(file, tokens)),
                HasSubstr("recurrent state depends on"));
  }
}

TEST(LlamaImportTokensTest, HolesNeedAsManyTokensAsCells) {
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

TEST(LlamaImportTokensTest, EmptySequencesAndSeveralInOneFileAreRefused) {
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

// Makes a session file of the given cells, also of cells that llama.cpp writes and kvd does not.
LlamaStateFile Session(std::vector<std::vector<LlamaCells>> caches, std::size_t tokens) {
  LlamaStateFile file;
  file.kind = LlamaFileKind::kSession;
  file.tokens.resize(tokens);
  for (std::vector<LlamaCells>& parts : caches) {
    for (LlamaCells& part : parts) {
      part.cache = file.cache_count;
      file.parts.push_back(std::move(part));
    }
    ++file.cache_count;
  }
  return file;
}

LlamaCells CellsAt(std::uint32_t stream,
                   const std::vector<std::pair<int, std::vector<int>>>& cells) {
  LlamaCells part;
  part.stream = stream;
  for (const auto& [pos, ids] : cells) {
    part.cells.push_back({pos, static_cast<std::uint32_t>(part.sequence_ids.size()),
                          static_cast<std::uint32_t>(ids.size())});
    part.sequence_ids.insert(part.sequence_ids.end(), ids.begin(), ids.end());
  }
  return part;
}

TEST(LlamaSequenceTest, CellsAreInTheOrderOfTheirPositions) {
  const LlamaCacheKinds attention{.has_attention = true};
  const LlamaStateFile file =
      Session({{CellsAt(0, {{2, {4}}, {0, {4, 9}}, {1, {4}}, {1, {9}}})}}, 3);
  const auto index = LlamaSequenceIndex::Create(file);
  ASSERT_TRUE(index);
  const auto first = SelectLlamaSequence(*index, 4, attention);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(first->caches[0].indices, ElementsAre(1, 2, 0));
  EXPECT_EQ(first->tokens.size(), 3u);
  const auto second = SelectLlamaSequence(*index, 9, attention);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnsupported);
  EXPECT_THAT(second.error().message, HasSubstr("the file has only the tokens of sequence 4"));
}

TEST(LlamaSequenceTest, WhatDoesNotFitTogetherIsRefused) {
  const auto message = [](const LlamaStateFile& file, const LlamaCacheKinds& kinds) {
    if (const Status caches = CheckLlamaCaches(file, kinds); !caches) return caches.error().message;
    const auto selected = SelectLlamaSequence(*LlamaSequenceIndex::Create(file), -1, kinds);
    EXPECT_FALSE(selected);
    return selected ? std::string() : selected.error().message;
  };
  const LlamaCacheKinds attention{.has_attention = true};
  const LlamaCacheKinds windows{.has_attention = true, .has_windows = true};
  const LlamaCacheKinds hybrid{.has_attention = true, .has_states = true};
  const LlamaCacheKinds states{.has_states = true};
  EXPECT_THAT(message(Session({{}}, 3), attention), HasSubstr("no cells"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{1, {0}}, {1, {0}}})}}, 2), attention),
              HasSubstr("cache 0 has two cells at position 1"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{0, {0}}}), CellsAt(1, {{1, {0}}})}}, 2), attention),
              HasSubstr("sequence 0 has cells in streams 0 and 1"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{0, {0}}})}, {CellsAt(0, {{0, {0}}})}}, 1), attention),
              HasSubstr("2 caches in the file, the model has 1 cache"));
  EXPECT_THAT(message(Session({{}, {}, {}}, 1), windows),
              HasSubstr("3 caches in the file, the model has 1 or 2 caches"));
  const LlamaCells two = CellsAt(0, {{0, {0}}, {1, {0}}});
  EXPECT_THAT(message(Session({{two}, {CellsAt(0, {{0, {0}}})}}, 2), windows),
              HasSubstr("the cells of cache 1 are not the last ones of cache 0"));
  EXPECT_THAT(message(Session({{two}, {CellsAt(0, {{3, {1}}})}}, 2), windows),
              HasSubstr("name one"));
  EXPECT_THAT(message(Session({{two}, {}}, 2), windows), HasSubstr("no cells of sequence 0"));
  EXPECT_THAT(message(Session({{two}, {CellsAt(0, {{0, {0}}})}}, 2), hybrid),
              HasSubstr("the recurrent state is at position 0, the last cell at 1"));
  EXPECT_THAT(message(Session({{two}, {}}, 2), hybrid), HasSubstr("no recurrent state"));
  EXPECT_THAT(message(Session({{two}, {two}}, 2), hybrid), HasSubstr("2 recurrent states"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{7, {0}}})}}, 2), states),
              HasSubstr("2 tokens, but the recurrent state depends on 8"));
}

// Makes a file of 256 sequences. If `shares`, each cell belongs to all 256 sequences, otherwise to
// one sequence.
LlamaStateFile Crowd(std::size_t cells, bool shares) {
  LlamaCells part;
  for (std::size_t number = 0; number < cells; ++number) {
    LlamaCell cell{.pos = static_cast<std::int32_t>(number),
                   .first_id = static_cast<std::uint32_t>(part.sequence_ids.size())};
    for (std::size_t id = 0; id < kLlamaSequencesMax; ++id) {
      if (!shares && number % kLlamaSequencesMax != id) continue;
      part.sequence_ids.push_back(static_cast<std::int32_t>(id));
      ++cell.id_count;
    }
    part.cells.push_back(cell);
  }
  return Session({{part}}, part.sequence_ids.size());
}

TEST(LlamaSequenceTest, StepsOfSelectingEverySequenceAreLinearInTheFile) {
  for (const bool shares : {false, true}) {
    const auto steps_of = [&](std::size_t cells) {
      const LlamaStateFile file = Crowd(cells, shares);
      test::CountingWork work;
      const auto index = LlamaSequenceIndex::Create(file, work);
      EXPECT_EQ(index->ids().size(), kLlamaSequencesMax);
      for (const std::int32_t id : index->ids()) {
        const auto selected = SelectLlamaSequence(*index, id, {.has_attention = true}, work);
        EXPECT_TRUE(selected || selected.error().code == Code::kInvalidArgument)
            << selected.error().message;
      }
      return work.steps();
    };
    const std::size_t cells = shares ? 1024 : 65'536;
    const std::uint64_t steps = steps_of(cells);
    EXPECT_GT(steps, 10u);
    EXPECT_LT(steps_of(4 * cells), 5 * steps);
  }
}

TEST(LlamaSequenceTest, ACellThatNamesASequenceTwiceIsItsCellOnce) {
  const LlamaStateFile file = Session({{CellsAt(0, {{0, {4, 4}}, {1, {4}}})}}, 2);
  const auto index = LlamaSequenceIndex::Create(file);
  ASSERT_TRUE(index);
  EXPECT_THAT(index->CellsOf(0, 4), ElementsAre(0, 1));
  EXPECT_TRUE(SelectLlamaSequence(*index, 4, {.has_attention = true}));
  test::CountingWork work(1);
  const LlamaStateFile crowd = Crowd(65'536, false);
  EXPECT_EQ(LlamaSequenceIndex::Create(crowd, work).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace kvd
