// Inputs and comparisons for the tests of kernels: seeded numbers, random blocks of each type,
// equality of bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernel_table.h"
#include "tests/kernels/trapped_tiles.h"

namespace kvd::kernels {

inline constexpr std::array kAllTypes = {DataType::kF32,  DataType::kF16,  DataType::kBF16,
                                         DataType::kQ4_0, DataType::kQ4_1, DataType::kQ5_0,
                                         DataType::kQ5_1, DataType::kQ8_0, DataType::kQ4_K,
                                         DataType::kQ5_K, DataType::kQ6_K};
inline constexpr std::array kCellTypes = {DataType::kF32, DataType::kF16, DataType::kBF16,
                                          DataType::kQ8_0};
inline constexpr std::array<std::size_t, 14> kLengths = {0,  1,  7,  8,   9,   31,  32,
                                                         33, 64, 96, 255, 256, 257, 1040};
inline constexpr std::array<std::size_t, 13> kRowCounts = {0, 1, 2,  3,  4,  5, 6,
                                                           7, 8, 12, 13, 17, 33};

// How often a random test repeats, times KVD_TEST_SCALE.
inline int Repetitions(int count) {
  const char* scale = std::getenv("KVD_TEST_SCALE");
  return std::max(1, static_cast<int>(count * (scale != nullptr ? std::atof(scale) : 1.0)));
}

// Numbers of ordinary size, among them zeros of both signs and subnormals.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : random_(seed) {}

  std::uint32_t Bits() { return static_cast<std::uint32_t>(random_()); }
  float Next() {
    const std::uint32_t kind = Bits() % 64;
    if (kind == 0) return 0.0f;
    if (kind == 1) return -0.0f;
    if (kind == 2) return std::bit_cast<float>(Bits() & 0x807fffffu);
    return std::uniform_real_distribution<float>(-2.0f, 2.0f)(random_);
  }
  std::vector<float> Row(std::size_t n) {
    std::vector<float> row(n);
    for (float& value : row) value = Next();
    return row;
  }
  std::uint8_t Byte() { return static_cast<std::uint8_t>(Bits()); }
  // A finite half of either sign, sometimes subnormal, sometimes zero.
  std::uint16_t Half() {
    const std::uint32_t kind = Bits() % 16;
    if (kind == 0) return static_cast<std::uint16_t>(Bits() & 0x8000u);
    if (kind == 1) return static_cast<std::uint16_t>(Bits() & 0x83ffu);
    return F16FromF32(std::uniform_real_distribution<float>(-0.05f, 0.05f)(random_));
  }
  // A row of n elements of a type: random bits, with finite scales.
  std::vector<std::uint8_t> WeightRow(DataType type, std::size_t n);

 private:
  std::mt19937 random_;
};

inline std::vector<std::uint8_t> Numbers::WeightRow(DataType type, std::size_t n) {
  std::vector<std::uint8_t> bytes(RowBytes(type, n));
  const auto put_half = [&](std::size_t at, std::uint16_t half) {
    std::memcpy(&bytes[at], &half, 2);
  };
  if (type == DataType::kF32) {
    const std::vector<float> row = Row(n);
    if (n != 0) std::memcpy(bytes.data(), row.data(), bytes.size());
    return bytes;
  }
  if (type == DataType::kF16 || type == DataType::kBF16) {
    for (std::size_t j = 0; j < n; ++j) {
      put_half(2 * j, type == DataType::kF16 ? F16FromF32(Next()) : BF16FromF32(Next()));
    }
    return bytes;
  }
  for (std::uint8_t& byte : bytes) byte = Byte();
  const bool has_minimum = type == DataType::kQ4_1 || type == DataType::kQ5_1 ||
                           type == DataType::kQ4_K || type == DataType::kQ5_K;
  for (std::size_t at = 0; at < bytes.size(); at += BytesPerBlock(type)) {
    put_half(at + (type == DataType::kQ6_K ? 208 : 0), Half());
    if (has_minimum) put_half(at + 2, Half());
  }
  return bytes;
}

inline std::uint32_t BitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }

// Success if both rows hold the same bits; else the first difference.
inline ::testing::AssertionResult SameBits(const std::vector<float>& expected,
                                           const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return ::testing::AssertionFailure() << "lengths differ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (BitsOf(expected[i]) != BitsOf(actual[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << expected[i] << " (" << std::hex << BitsOf(expected[i])
             << ") is not " << actual[i] << " (" << BitsOf(actual[i]) << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

// A copy of a vector that starts `offset` bytes after an aligned address, in an allocation with no
// byte to spare.
template <class T>
class Misaligned {
 public:
  Misaligned(const std::vector<T>& values, std::size_t offset)
      : bytes_(offset + values.size() * sizeof(T)), offset_(offset) {
    if (!values.empty())
      std::memcpy(bytes_.data() + offset, values.data(), values.size() * sizeof(T));
  }
  const T* get() const { return reinterpret_cast<const T*>(bytes_.data() + offset_); }

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t offset_;
};

// Bytes at a 64-byte boundary, with none to spare, all 0xff at first.
struct FreeAligned {
  void operator()(std::uint8_t* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::uint8_t[], FreeAligned>;
inline AlignedBytes MakeAlignedBytes(std::size_t count) {  // a multiple of 64
  AlignedBytes bytes(
      static_cast<std::uint8_t*>(std::aligned_alloc(64, std::max<std::size_t>(count, 64))));
  std::memset(bytes.get(), 0xff, count);
  return bytes;
}

// A test of one table of instructions against the scalar one.
class TableTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const KernelChoice choice = SelectOrTrap(GetParam());
    if (choice.table == nullptr) GTEST_SKIP() << choice.problem;
    table_ = choice.table;
  }
  const KernelTable* table_ = nullptr;
  const KernelTable* scalar_ = ScalarTable();
};

#define KVD_FOR_EVERY_TABLE(Suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Tables, Suite, ::testing::Values("scalar", "avx2", "avx512", "amx"), \
                           [](const auto& table) { return std::string(table.param); })

}  // namespace kvd::kernels
