// Tests which form of products is the default of each kernel table.
#include <gtest/gtest.h>

#include <string_view>

#include "kernels/product_choice.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/random_product.h"

namespace kvd::kernels {
namespace {

// The default of a table that multiplies no bf16, but is faster with outer products.
TEST(ProductChoicesTest, OuterProductsAreChosenWhereTheTableIsFasterWithThem) {
  for (const char* const name : {"scalar", "avx2", "avx512", "amx"}) {
    const KernelChoice choice = SelectOrTrap(name);
    if (choice.table == nullptr) continue;
    const ProductChoices choices = DefaultChoices(*choice.table);
    const auto rows = static_cast<std::uint32_t>(choice.table->outer_rows_min);
    EXPECT_EQ(rows != 0, std::string_view(name) == "avx2");
    for (const DataType type : kPlainTypes) {
      EXPECT_TRUE(Supports(*choice.table, type, WideForm::kOuter)) << name;
      const ProductChoice expected = {WideForm::kOuter, rows};
      EXPECT_EQ(choices.For(type) == expected, rows != 0 && type != DataType::kF32) << name;
    }
    EXPECT_FALSE(Supports(*choice.table, DataType::kQ8_0, WideForm::kOuter)) << name;
    EXPECT_NE(choices.For(DataType::kQ8_0).wide_form, WideForm::kOuter) << name;
  }
}

TEST(ProductChoicesTest, Bf16IsChosenWhereTheTableMultipliesIt) {
  for (const char* const name : {"scalar", "avx2", "avx512", "amx"}) {
    const KernelChoice choice = SelectOrTrap(name);
    if (choice.table == nullptr) continue;
    const KernelTable& table = *choice.table;
    const ProductChoices choices = DefaultChoices(table);
    EXPECT_EQ(choices.For(DataType::kF32), ProductChoice{});
    EXPECT_FALSE(Supports(table, DataType::kF32, WideForm::kBf16));
    const bool rounds = table.round_rows != nullptr, tiles = std::string_view(name) == "amx";
    for (const DataType type : {DataType::kF16, DataType::kQ8_0, DataType::kMXFP4}) {
      const bool expected = IsQuantized(type) ? tiles : rounds;
      EXPECT_EQ(Supports(table, type, WideForm::kBf16), expected) << name;
      EXPECT_TRUE(Supports(table, type, WideForm::kAsNarrow)) << name;
      EXPECT_EQ(choices.For(type).wide_form == WideForm::kBf16, expected) << name;
      EXPECT_EQ(choices.For(type).wide_from_rows != 0,
                choices.For(type).wide_form != WideForm::kAsNarrow)
          << name;
    }
  }
}

TEST(ProductChoicesTest, ThereIsOneChoiceForEachType) {
  ProductChoices choices;
  std::uint32_t rows = 0;
  for (const DataType type : kAllTypes) choices.Set(type, {WideForm::kBf16, ++rows});
  rows = 0;
  for (const DataType type : kAllTypes) EXPECT_EQ(choices.For(type).wide_from_rows, ++rows);
}

}  // namespace
}  // namespace kvd::kernels
