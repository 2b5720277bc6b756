#include "state_layout/cached_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvd {
namespace {

using kernels::DataType;

TEST(RowTypesTest, RowsOfEveryTypeAreRestoredAsCloselyAsTheTypeAllows) {
  std::vector<float> floats(64);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = std::sin(static_cast<float>(i)) * 3.0f;
  }
  const struct {
    DataType type;
    float error_max;
  } types[] = {{DataType::kF32, 0.0f},
               {DataType::kF16, 2e-3f},
               {DataType::kBF16, 2e-2f},
               {DataType::kQ8_0, 2e-2f},
               {DataType::kQ4_0, 4e-1f}};
  for (const auto& [type, error_max] : types) {
    ASSERT_TRUE(IsRowType(type));
    std::vector<std::byte> rows(kernels::RowBytes(type, floats.size()));
    EXPECT_TRUE(EncodeRows(type, floats.data(), rows.data(), floats.size()));
    std::vector<float> back(floats.size());
    DecodeRows(type, rows.data(), back.data(), back.size());
    for (std::size_t i = 0; i < floats.size(); ++i) {
      EXPECT_NEAR(back[i], floats[i], error_max) << kernels::DataTypeName(type) << " " << i;
    }
  }
  EXPECT_FALSE(IsRowType(DataType::kQ4_K));
}

TEST(RowTypesTest, ANumberThatIsNotFiniteIsReported) {
  for (const DataType type : kernels::kCellTypes) {
    std::vector<float> floats(32, 1.0f);
    floats[7] = std::numeric_limits<float>::infinity();
    std::vector<std::byte> rows(kernels::RowBytes(type, floats.size()));
    EXPECT_FALSE(EncodeRows(type, floats.data(), rows.data(), floats.size()));
  }
  const float large = 1e6f;  // above the range of f16
  std::byte row[2];
  EXPECT_FALSE(EncodeRows(DataType::kF16, &large, row, 1));
}

TEST(CachePlaneTest, ATypeThatAPlaneCannotHaveIsRefusedByName) {
  const CachePlane plane{.layer = 3, .side = CacheSide::kValues, .head_count = 2, .dim = 48};
  EXPECT_TRUE(CheckRowType(plane, DataType::kBF16));
  const Status blocks = CheckRowType(plane, DataType::kQ8_0);
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().message,
            "values of layer 3: q8_0 packs 32 elements of a head together, this model's heads have "
            "48");
  const Status type = CheckRowType(plane, DataType::kQ4_1);
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().message,
            "values of layer 3: q4_1; f32, f16, bf16, q8_0 and q4_0 can be saved");
}

}  // namespace
}  // namespace kvd
