#include <gtest/gtest.h>

#include <cstring>

#include "kernels/kernel_table.h"
#include "tests/kernels/trapped_tiles.h"

namespace kvd::kernels {
namespace {

TEST(SelectKernelsTest, ReturnsANamedTableOrSaysWhatIsMissing) {
  for (const char* name : {"scalar", "avx2", "avx512", "amx"}) {
    const KernelChoice choice = SelectKernels(name);
    if (choice.table != nullptr) {
      EXPECT_STREQ(choice.table->name, name);
      EXPECT_EQ(choice.problem, nullptr);
    } else {
      EXPECT_NE(choice.problem, nullptr);
      EXPECT_STRNE(name, "scalar");
    }
  }
}

TEST(SelectKernelsTest, GivesTheBestTableWhenNoneIsNamed) {
  const KernelTable* best = AmxTable();
  if (best == nullptr) best = Avx512Table();
  if (best == nullptr) best = Avx2Table();
  if (best == nullptr) best = ScalarTable();
  EXPECT_EQ(SelectKernels(nullptr).table, best);
  EXPECT_EQ(SelectKernels("").table, best);
}

TEST(SelectKernelsTest, RefusesAnUnknownName) {
  for (const char* name : {"amx512", "AVX2", "avx", "scalar "}) {
    const KernelChoice choice = SelectKernels(name);
    EXPECT_EQ(choice.table, nullptr);
    EXPECT_STREQ(choice.problem, "no such table (scalar, avx2, avx512, amx)");
  }
}

TEST(SelectKernelsTest, EveryTableIsComplete) {
  for (const KernelTable* table :
       {ScalarTable(), Avx2Table(), Avx512Table(), SelectOrTrap("amx").table}) {
    if (table == nullptr) continue;
    EXPECT_TRUE(table->matmul && table->quantize_rows && table->decode_row && table->encode_row &&
                table->key_panel && table->scores && table->softmax_rows && table->add_values &&
                table->merge_softmax && table->plain_dots && table->lane_dots &&
                table->plain_softmax && table->rms_norm && table->rope && table->silu_multiply &&
                table->add && table->scale && table->all_finite && table->argmax)
        << table->name;
  }
}

TEST(SelectKernelsTest, AssumedTilesAreUsedOnlyIfNamed) {
  const KernelTable *amx = AmxTable(), *best = SelectKernels(nullptr).table;
  AssumeTiles();
  EXPECT_EQ(AmxTable(), amx);
  EXPECT_EQ(SelectKernels(nullptr).table, best);
  const bool has_the_rest = Avx512Table() != nullptr && Avx512Table()->bf16_rows_min != 0;
  EXPECT_EQ(SelectKernels("amx").table != nullptr, has_the_rest);
}

TEST(DataTypeTest, KnowsItsNumbers) {
  EXPECT_TRUE(IsDataType(30));
  EXPECT_TRUE(IsDataType(14));
  EXPECT_TRUE(IsDataType(10));
  EXPECT_TRUE(IsDataType(39));
  for (const std::uint32_t number :
       {4u, 5u, 9u, 15u, 19u, 24u, 29u, 31u, 38u, 40u, 255u, 256u, 286u}) {
    EXPECT_FALSE(IsDataType(number)) << number;
  }
  EXPECT_EQ(RowBytes(DataType::kQ4_K, 512), 288u);
}

}  // namespace
}  // namespace kvd::kernels
