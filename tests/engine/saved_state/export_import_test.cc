// Tests that a sequence that was exported and imported continues with the same bits: for every kind
// of memory, after shifts, and in another engine whose blocks are laid out differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/model_config.h"
#include "engine/work/pool_cells.h"
#include "kernels/data_type.h"
#include "tests/engine/memory/rewrite_all.h"
#include "tests/engine/saved_state/copy_sequence.h"
#include "tests/support/parameter_name.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::CopySequence;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;
using test::TinyLlama;
using test::TinyOf;
using testing::HasSubstr;

class ExportImportTest : public testing::TestWithParam<Architecture> {
 protected:
  static EngineOptions Options() {
    return {.cells = 1024, .checkpoint_every = 32, .threads = 2, .deterministic = true};
  }
};

TEST_P(ExportImportTest, AnImportedCopyContinuesWithTheSameBits) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const auto other = MakeEngine(shape, Options());
  ASSERT_TRUE(engine != nullptr && other != nullptr);
  const std::vector<TokenId> next = RandomTokens(4, 40, shape.vocab);
  for (const std::size_t count : {1, 31, 150}) {
    const SequenceHandle sequence = *engine->memory().sequences().Create({});
    (void)Feed(*engine, sequence, RandomTokens(3, count, shape.vocab), 50);
    std::vector<SequenceHandle> copies;
    for (const bool cell_major : {false, true}) {
      const auto copy =
          CopySequence(*engine, sequence, *other, {.cell_major = cell_major, .cells_at_once = 33});
      ASSERT_TRUE(copy) << copy.error().message;
      copies.push_back(*copy);
    }
    const SequenceInfo info = *engine->memory().sequences().Query(sequence);
    EXPECT_EQ(other->memory().sequences().Query(copies[0])->pristine_cells, info.pristine_cells);
    EXPECT_EQ(other->memory().sequences().Query(copies[0])->checkpoint_count,
              info.checkpoint_count);
    const std::vector<float> expected = Feed(*engine, sequence, next, 9);
    for (const SequenceHandle copy : copies) {
      EXPECT_TRUE(SameBits(Feed(*other, copy, next, 13), expected)) << count;
    }
  }
}

TEST_P(ExportImportTest, AnEmptySequenceIsCopiedToo) {
  const auto engine = MakeEngine(TinyOf(GetParam()), Options());
  const auto copy = CopySequence(*engine, *engine->memory().sequences().Create({}), *engine);
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(engine->memory().sequences().Query(*copy)->cell_count, 0u);
}

// The export rewrites shifted keys exactly like settling.
TEST_P(ExportImportTest, AShiftedSequenceIsExportedAsIfItHadBeenSettled) {
  const ModelShape shape = TinyOf(GetParam());
  for (const bool llama_shifts : {false, true}) {
    EngineOptions options = Options();
    options.llama_shifts = llama_shifts;
    const auto engine = MakeEngine(shape, options);
    ASSERT_NE(engine, nullptr);
    Memory& memory = engine->memory();
    const SequenceHandle sequence = *memory.sequences().Create({});
    (void)Feed(*engine, sequence, RandomTokens(3, 150, shape.vocab), 50);
    ASSERT_TRUE(memory.sequences().AddPositions(sequence, {Pos{120}, kPosEnd}, 7));
    ASSERT_TRUE(memory.sequences().AddPositions(sequence, {Pos{140}, kPosEnd}, 3));
    const auto copy = CopySequence(*engine, sequence, *engine);
    ASSERT_TRUE(copy) << copy.error().message;
    ModelCellRotator settler(llama_shifts ? RotationKind::kLlamaShift : RotationKind::kExact,
                             engine->config(), engine->cell_layout(), engine->kernels(),
                             engine->ropes(), memory);
    ASSERT_TRUE(SettleCells(memory, sequence,
                            llama_shifts ? SettleScope::kAll : SettleScope::kShifted, settler));
    EXPECT_LT(memory.sequences().Query(*copy)->pristine_cells, 150u);
    const std::vector<TokenId> next = RandomTokens(4, 40, shape.vocab);
    EXPECT_TRUE(SameBits(Feed(*engine, *copy, next, 13), Feed(*engine, sequence, next, 40)))
        << llama_shifts;
  }
}

TEST_P(ExportImportTest, AnExportIsConsistentWhileTheSequenceContinues) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  ASSERT_NE(engine, nullptr);
  Memory& memory = engine->memory();
  const SequenceHandle sequence = *memory.sequences().Create({});
  (void)Feed(*engine, sequence, RandomTokens(3, 70, shape.vocab), 50);
  SequenceHandle twin{};
  ASSERT_TRUE(memory.sequences().Fork(sequence, {}, {&twin, 1}));
  const SequenceHandle copy = *memory.sequences().Create({});
  {
    const auto from = SequenceExport::Open(*engine, sequence);
    ASSERT_TRUE(from);
    std::jthread busy([&] {
      (void)Feed(*engine, sequence, RandomTokens(5, 60, shape.vocab), 3);
      EXPECT_TRUE(memory.sequences().Drop(sequence));
      Defragmentation packing = engine->StartDefragmentation();
      while (!*packing.Slice()) {
      }
      const SequenceHandle fresh = *memory.sequences().Create({});
      (void)Feed(*engine, fresh, RandomTokens(6, 100, shape.vocab), 20);
    });
    auto import = test::BeginCopy(*from, *engine, copy, {.cells_at_once = 1});
    ASSERT_TRUE(import) << import.error().message;
    busy.join();
    ASSERT_TRUE((*import)->Commit());
  }
  const std::vector<TokenId> next = RandomTokens(4, 40, shape.vocab);
  EXPECT_TRUE(SameBits(Feed(*engine, copy, next, 13), Feed(*engine, twin, next, 40)));
  EXPECT_TRUE(memory.sequences().Drop(copy));
  EXPECT_TRUE(memory.sequences().Drop(twin));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ExportImportTest,
    testing::Values(Architecture::kLlama, Architecture::kGemma2, Architecture::kMamba2,
                    Architecture::kLfm2, Architecture::kQwen35, Architecture::kDeepseek2,
                    Architecture::kGemma4, Architecture::kGemma3n, Architecture::kGptOss,
                    Architecture::kNemotronHMoe, Architecture::kKimiLinear),
    [](const auto& named) { return test::ParameterName(DefinitionOf(named.param).format.name); });

// ------------------------------------------------------------------------------------------- types

TEST(ExportImportTypesTest, AnotherCellTypeInTheFileOrThePoolStaysClose) {
  ModelShape shape = TinyLlama();
  shape.name = "tiny-heads-64";
  shape.embedding = 128;
  shape.head_dim = 64;
  using kernels::DataType;
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  const auto source =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  ASSERT_NE(source, nullptr);
  const SequenceHandle sequence = *source->memory().sequences().Create({});
  (void)Feed(*source, sequence, RandomTokens(3, 90, shape.vocab), 50);
  struct Copy {
    SequenceHandle sequence;
    Engine* engine;
    double error_max;
  };
  std::vector<Copy> copies;
  std::vector<std::unique_ptr<Engine>> engines;
  for (const DataType pool : kernels::kCellTypes) {
    engines.push_back(MakeEngine(shape, {.cells = 512, .k_type = pool, .v_type = pool}));
    for (const DataType between :
         {DataType::kF32, DataType::kF16, DataType::kQ8_0, DataType::kQ4_0}) {
      const auto copy = CopySequence(*source, sequence, *engines.back(), {.type = between});
      ASSERT_TRUE(copy) << copy.error().message;
      const bool is_coarse = pool == DataType::kQ4_0 || between == DataType::kQ4_0;
      copies.push_back({*copy, engines.back().get(), is_coarse ? 2e-1 : 1e-3});
    }
  }
  const std::vector<float> expected = Feed(*source, sequence, next, 20);
  for (const auto& [copy, engine, error_max] : copies) {
    const std::vector<float> got = Feed(*engine, copy, next, 20);
    ASSERT_EQ(got.size(), expected.size());
    double difference = 0, square = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(double{got[i]} - expected[i], 2);
      square += std::pow(double{expected[i]}, 2);
    }
    EXPECT_LT(difference / square, error_max);
  }
}

TEST(ExportImportTypesTest, HeadLengthsThatNoBlockDividesAreRefused) {
  const auto engine = MakeEngine(TinyLlama(), {.cells = 512});  // heads of 16 elements
  const SequenceHandle sequence = *engine->memory().sequences().Create({});
  (void)Feed(*engine, sequence, RandomTokens(3, 9, 96), 9);
  const auto copy = CopySequence(*engine, sequence, *engine, {.type = kernels::DataType::kQ8_0});
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, Code::kUnsupported);
  EXPECT_THAT(copy.error().message, HasSubstr("q8_0 packs 32 elements"));
  const auto strange = CopySequence(*engine, sequence, *engine, {.type = kernels::DataType::kQ4_K});
  EXPECT_THAT(strange.error().message, HasSubstr("q4_K; f32, f16, bf16, q8_0 and q4_0"));
}

// ------------------------------------------------------------------------------------------ faults

class ImportFaultTest : public testing::Test {
 protected:
  void Use(Architecture architecture) {
    engine_ = MakeEngine(TinyOf(architecture), {.cells = 512, .checkpoint_every = 32});
    sequence_ = *engine_->memory().sequences().Create({});
    (void)Feed(*engine_, sequence_, RandomTokens(3, 70, 96), 50);
    from_.emplace(*SequenceExport::Open(*engine_, sequence_));
    copy_ = *engine_->memory().sequences().Create({});
    free_blocks_ = engine_->memory().Usage().free_blocks;
    free_states_ = engine_->memory().Usage().free_state_slots;
  }
  void ExpectNothingChanged() {
    EXPECT_EQ(engine_->memory().sequences().Query(copy_)->cell_count, 0u);
    EXPECT_EQ(engine_->memory().Usage().free_blocks, free_blocks_);
    EXPECT_EQ(engine_->memory().Usage().free_state_slots, free_states_);
  }
  ImportRequest Request() const {
    return {.handle = copy_,
            .tokens = from_->tokens(),
            .positions = from_->positions(),
            .has_state = !from_->state().empty()};
  }

  std::unique_ptr<Engine> engine_;
  SequenceHandle sequence_{}, copy_{};
  std::optional<SequenceExport> from_;
  std::uint32_t free_blocks_ = 0, free_states_ = 0;
};

TEST_F(ImportFaultTest, AnIncompleteImportIsNotCommitted) {
  Use(Architecture::kLlama);
  auto import = SequenceImport::Begin(*engine_, Request());
  ASSERT_TRUE(import) << import.error().message;
  const Status status = (*import)->Commit();
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("keys of layer 0: 0 of 70 cells given"));
  ExpectNothingChanged();
}

TEST_F(ImportFaultTest, AnImportWithoutItsStateIsNotCommitted) {
  Use(Architecture::kMamba2);
  auto import = SequenceImport::Begin(*engine_, Request());
  ASSERT_TRUE(import) << import.error().message;
  ASSERT_TRUE((*import)->FeedState(70, 0, from_->state().first(5)));
  const Status status = (*import)->Commit();
  EXPECT_THAT(status.error().message, HasSubstr("states and logits: 5 of "));
  ExpectNothingChanged();
}

TEST_F(ImportFaultTest, ADestroyedImportChangesNothing) {
  Use(Architecture::kLlama);
  {
    auto import = test::BeginCopy(*from_, *engine_, copy_);
    ASSERT_TRUE(import);
  }
  ExpectNothingChanged();
}

TEST_F(ImportFaultTest, NumbersThatAreNotFiniteAreRefused) {
  Use(Architecture::kLlama);
  using kernels::DataType;
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    auto import = SequenceImport::Begin(*engine_, Request());
    ASSERT_TRUE(import);
    const CachePlane& plane = (*import)->planes()[1];
    for (const bool cell_major : {false, true}) {
      const RowPlacement placement =
          cell_major ? CellMajor(plane, type) : HeadMajor(plane, type, 40);
      std::vector<std::byte> rows(40 * plane.cell_bytes(type));
      ASSERT_TRUE(from_->ReadRows(plane, 0, 40, type, placement, rows.data()));
      std::fill_n(rows.end() - static_cast<std::ptrdiff_t>(plane.row_bytes(type)), 4,
                  std::byte{0xff});  // NaN in each data type
      const Status status = (*import)->FeedRows(1, 0, 40, type, placement, rows.data());
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Code::kNumerical);
      EXPECT_THAT(status.error().message, HasSubstr("values of layer 0"));
    }
  }
  ExpectNothingChanged();
}

TEST_F(ImportFaultTest, StatesAndLogitsAreChecked) {
  Use(Architecture::kLfm2);
  const std::uint32_t checkpoints[] = {64};
  ImportRequest request = Request();
  request.checkpoint_cells = checkpoints;
  {
    auto import = SequenceImport::Begin(*engine_, request);
    ASSERT_TRUE(import);
    std::vector<float> state(from_->state().begin(), from_->state().end());
    EXPECT_EQ((*import)->FeedState(63, 0, state).error().code, Code::kInvalidArgument);
    EXPECT_EQ((*import)->FeedState(70, 1, state).error().code, Code::kInvalidArgument);
    EXPECT_EQ((*import)->FeedState(70, ~std::size_t{0}, state).error().code,
              Code::kInvalidArgument);
    EXPECT_EQ((*import)->FeedLogits(0, state).error().code, Code::kInvalidArgument);
    state.back() = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ((*import)->FeedState(64, 0, state).error().code, Code::kNumerical);
    EXPECT_TRUE((*import)->FeedState(64, 0, from_->state()));
  }
  ExpectNothingChanged();
}

TEST_F(ImportFaultTest, RequestsAreChecked) {
  Use(Architecture::kGemma2);
  ImportRequest request = Request();
  std::vector<TokenId> tokens(request.tokens.begin(), request.tokens.end());
  tokens[9] = 96;
  request.tokens = tokens;
  EXPECT_THAT(SequenceImport::Begin(*engine_, request).error().message,
              HasSubstr("token 9: id 96, the vocabulary has 96"));
  request = Request();
  const std::uint32_t one[] = {0};
  request.first_cells = one;
  EXPECT_THAT(SequenceImport::Begin(*engine_, request).error().message,
              HasSubstr("of 1 planes, the model has 6"));
  std::vector<std::uint32_t> first(from_->planes().size(), 30);
  request.first_cells = first;
  const auto lost = SequenceImport::Begin(*engine_, request);
  EXPECT_EQ(lost.error().code, Code::kWindowLost) << lost.error().message;
  ExpectNothingChanged();
}

TEST(ExportTest, AMissingSequenceCannotBeExported) {
  const auto engine = MakeEngine(TinyLlama(), {.cells = 512});
  EXPECT_EQ(SequenceExport::Open(*engine, MakeHandle(3, 9)).error().code, Code::kNotFound);
}

TEST(ExportTest, APoolThatKeepsAllCellsImportsOnlyCompleteWindowedSequences) {
  const ModelShape shape = TinyOf(Architecture::kGemma2);
  const auto dropping = MakeEngine(shape, {.cells = 512, .deterministic = true});
  const auto keeping = MakeEngine(shape, {.cells = 512, .swa_full = true, .deterministic = true});
  const SequenceHandle a = *dropping->memory().sequences().Create({});
  const SequenceHandle b = *keeping->memory().sequences().Create({});
  (void)Feed(*dropping, a, RandomTokens(3, 150, 96), 50);
  (void)Feed(*keeping, b, RandomTokens(3, 150, 96), 50);
  const auto refused = CopySequence(*dropping, a, *keeping);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kWindowLost);
  const auto copy = CopySequence(*keeping, b, *dropping);
  ASSERT_TRUE(copy) << copy.error().message;
  const std::vector<TokenId> next = RandomTokens(4, 40, 96);
  EXPECT_TRUE(SameBits(Feed(*dropping, *copy, next, 7), Feed(*dropping, a, next, 40)));
}

}  // namespace
}  // namespace kvd
