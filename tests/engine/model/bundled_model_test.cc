#include "engine/model/bundled_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

namespace kvd {
namespace {

TEST(BundledModelTest, TheBundledBytesEqualTheFileAndAreAligned) {
  std::ifstream file("models/notebook-1m-q8_0.gguf", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(bytes.empty());
  const auto model = BundledModel();
  ASSERT_EQ(model.size(), bytes.size());
  EXPECT_TRUE(std::ranges::equal(model, std::as_bytes(std::span(bytes))));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(model.data()) % 64, 0u);
}

}  // namespace
}  // namespace kvd
