// Tests that, with --deterministic, cells computed from f16 weights by one kernel table are not
// used by a table that computes other bits, whether they come from the prompt cache, a saved state
// or a warm start. Tables that compute the same bits share cells, and without --deterministic all
// tables do.
#include "engine/model/numeric_form.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/memory/memory_home.h"
#include "engine/model/model_config.h"
#include "engine/saved_state/prompt_store.h"
#include "tests/engine/saved_state/state_folder.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::StateBytes;
using test::StateFolder;
using test::TinyLlama;
using testing::HasSubstr;

constexpr std::uint32_t kUid = 1000;
constexpr const char* kPairs = "avx512";
constexpr const char* kFloats = "avx2";

class NumericFormTest : public testing::Test {
 protected:
  void SetUp() override {
    const kernels::KernelTable* const pairs = kernels::Avx512Table();
    if (pairs == nullptr || pairs->round_rows == nullptr)
      GTEST_SKIP() << "the machine lacks AVX512_BF16, or the build lacks the kernels for it";
  }
  std::unique_ptr<Engine> Make(DataType weights, const char* table, bool deterministic,
                               int directory = -1) {
    ModelShape shape = TinyLlama();
    shape.type = weights;
    shape.name = std::string("tiny-form-") + kernels::DataTypeName(weights);
    return MakeEngine(shape, {.cells = 512,
                              .threads = 1,
                              .deterministic = deterministic,
                              .kernel_table = table,
                              .state_directory = directory});
  }
  SequenceHandle Hold(Engine& engine) {
    const SequenceHandle handle = *engine.memory().sequences().Create({.id = OwnerId{kUid}});
    (void)Feed(engine, handle, prompt_, 50);
    return handle;
  }
  // Writes the prompt to a prompt cache with table `by` and returns how many of its cells an engine
  // with table `with` finds there.
  std::uint32_t Found(DataType weights, bool deterministic, const char* by, const char* with) {
    const StateFolder folder;
    const PromptStore::Options options{
        .path = folder.PathOf("."), .bytes_max = 1u << 30, .on_damaged = {}};
    {
      const auto engine = Make(weights, by, deterministic);
      auto store = PromptStore::Open(*engine, options);
      const SequenceHandle handle = Hold(*engine);
      EXPECT_TRUE(*engine->memory().prefixes().Retain(handle));
      auto from = SequenceExport::OpenPaused(*engine, handle);
      EXPECT_GT(*(*store)->Write(*from, nullptr), 0u);
    }
    const auto engine = Make(weights, with, deterministic);
    auto store = PromptStore::Open(*engine, options);
    const auto found = (*store)->Find(OwnerId{kUid}, 0, prompt_, 0);
    EXPECT_EQ((*store)->counts().entries_dropped, 0u);
    return found ? found->cells : 0;
  }

  const std::vector<TokenId> prompt_ = RandomTokens(3, 100, 96);
  const StateFolder folder_;
};

TEST_F(NumericFormTest, OnlyF16AndBf16WithTheDeterministicFlagHaveANumericFormPerTable) {
  EXPECT_EQ(Make(DataType::kF16, kPairs, true)->numeric_form(), NumericForm::kBf16Pairs);
  EXPECT_EQ(Make(DataType::kBF16, kPairs, true)->numeric_form(), NumericForm::kBf16Pairs);
  EXPECT_EQ(Make(DataType::kF16, kFloats, true)->numeric_form(), NumericForm::kFloat32);
  EXPECT_EQ(Make(DataType::kF16, "scalar", true)->numeric_form(), NumericForm::kFloat32);
  EXPECT_EQ(Make(DataType::kF32, kPairs, true)->numeric_form(), NumericForm::kFloat32);
  EXPECT_EQ(Make(DataType::kF16, kPairs, false)->numeric_form(), NumericForm::kFree);
}

TEST_F(NumericFormTest, TablesGiveDifferentBitsWithF16) {
  const auto last_row = [&](const char* table) {
    const auto engine = Make(DataType::kF16, table, true);
    return Feed(*engine, *engine->memory().sequences().Create({}), prompt_, prompt_.size());
  };
  EXPECT_NE(last_row(kPairs), last_row(kFloats))
      << "the other tests need tables with different bits";
}

TEST_F(NumericFormTest, ACacheEntryIsReusedOnlyByTablesOfItsNumericForm) {
  EXPECT_EQ(Found(DataType::kF16, true, kPairs, kFloats), 0u);
  EXPECT_EQ(Found(DataType::kF16, true, kFloats, kPairs), 0u);
  EXPECT_EQ(Found(DataType::kF16, true, kPairs, kPairs), 99u);
  EXPECT_EQ(Found(DataType::kF16, true, kFloats, "scalar"), 99u);
  EXPECT_EQ(Found(DataType::kF16, false, kPairs, kFloats), 99u);
  EXPECT_EQ(Found(DataType::kF32, true, kPairs, kFloats), 99u);
}

TEST_F(NumericFormTest, ASavedStateOfAnotherNumericFormIsRefusedByName) {
  const auto pairs = Make(DataType::kF16, kPairs, true);
  const auto floats = Make(DataType::kF16, kFloats, true);
  const auto free = Make(DataType::kF16, kFloats, false);
  ASSERT_TRUE(folder_.Save(*pairs, Hold(*pairs), "pairs"));
  ASSERT_TRUE(folder_.Save(*free, Hold(*free), "free"));
  EXPECT_TRUE(folder_.Load(*pairs, "pairs"));
  EXPECT_TRUE(folder_.Load(*free, "pairs"));
  EXPECT_TRUE(folder_.Load(*free, "free"));
  for (const char* file : {"pairs", "free"}) {
    const auto refused = folder_.Load(*floats, file);
    ASSERT_FALSE(refused) << file;
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("numeric form"));
  }
  EXPECT_FALSE(folder_.Load(*pairs, "free"));

  StateBytes damaged(folder_.Bytes("pairs"));
  damaged.header().numeric_form = 4;
  damaged.SumUpHeader();
  folder_.Write("damaged", damaged.bytes);
  const auto refused = folder_.Load(*free, "damaged");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("numeric_form"));
}

TEST_F(NumericFormTest, AStartWithAnotherNumericFormIsCold) {
  const auto start = [&](DataType weights, const char* table, bool deterministic) {
    const auto engine = Make(weights, table, deterministic, folder_.descriptor());
    if (engine->memory().Usage().live_sequences == 0) (void)Hold(*engine);
    return engine->memory_start();
  };
  EXPECT_FALSE(start(DataType::kF16, kPairs, true).is_warm);
  EXPECT_TRUE(start(DataType::kF16, kPairs, true).is_warm);
  const MemoryStart other = start(DataType::kF16, kFloats, true);
  EXPECT_FALSE(other.is_warm);
  EXPECT_THAT(other.why_cold, HasSubstr("numeric_form: products of bf16 in pairs"));
  EXPECT_TRUE(start(DataType::kF16, "scalar", true).is_warm) << "the same form";
  // A start without --deterministic accepts cells of any numeric form. After a start without
  // --deterministic the numeric form of the memory's cells is unknown, so a later start with
  // --deterministic is cold.
  EXPECT_TRUE(start(DataType::kF16, kPairs, false).is_warm);
  EXPECT_TRUE(start(DataType::kF16, kFloats, false).is_warm);
  EXPECT_FALSE(start(DataType::kF16, kFloats, true).is_warm);
  EXPECT_FALSE(start(DataType::kF32, kPairs, true).is_warm) << "another model";
  EXPECT_TRUE(start(DataType::kF32, kFloats, true).is_warm);
}

}  // namespace
}  // namespace kvd
