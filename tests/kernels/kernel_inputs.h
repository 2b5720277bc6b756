// Inputs and comparisons for the tests of kernels: seeded random numbers, random weight rows of
// each type, and the comparison of bits.
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

#include "kernels/data_type.h"
#include "kernels/half.h"
#include "kernels/kernel_table.h"
#include "tests/kernels/trapped_tiles.h"

namespace kvd::kernels {

inline constexpr const auto& kAllTypes = kDataTypes;
inline constexpr std::array<std::size_t, 14> kLengths = {0,  1,  7,  8,   9,   31,  32,
                                                         33, 64, 96, 255, 256, 257, 1040};
inline constexpr std::array<std::size_t, 13> kRowCounts = {0, 1, 2,  3,  4,  5, 6,
                                                           7, 8, 12, 13, 17, 33};

// Where a block of a quantised type has its d and, if not 0, its m or dmin.
struct ScalePlaces {
  std::size_t d = 0;
  std::size_t minimum = 0;
};
inline ScalePlaces ScalePlacesOf(DataType type) {
  switch (type) {
    case DataType::kQ4_1:
    case DataType::kQ5_1:
    case DataType::kQ4_K:
    case DataType::kQ5_K: return {.d = 0, .minimum = 2};
    case DataType::kQ2_K: return {.d = 80, .minimum = 82};
    case DataType::kQ3_K: return {.d = 108};
    case DataType::kQ6_K: return {.d = 208};
    default: return {};
  }
}

// A generator of random numbers in [-2, 2), including zeros of both signs and subnormals.
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
  // Returns the bits of a finite f16 number of either sign, sometimes subnormal or zero.
  std::uint16_t Half() {
    const std::uint32_t kind = Bits() % 16;
    if (kind == 0) return static_cast<std::uint16_t>(Bits() & 0x8000u);
    if (kind == 1) return static_cast<std::uint16_t>(Bits() & 0x83ffu);
    return F16FromF32(std::uniform_real_distribution<float>(-0.05f, 0.05f)(random_));
  }
  // Returns a row of n elements of the type: random bits with finite scales.
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
  for (std::size_t at = 0; at < bytes.size(); at += BytesPerBlock(type)) {
    if (type == DataType::kMXFP4) {  // 2^-13 to 2^2, sometimes the smallest
      const std::uint32_t bits = Bits();
      bytes[at] = static_cast<std::uint8_t>(bits % 16 == 0 ? bits / 16 % 3 : 115 + bits / 16 % 16);
      continue;
    }
    const ScalePlaces places = ScalePlacesOf(type);
    put_half(at + places.d, Half());
    if (places.minimum != 0) put_half(at + places.minimum, Half());
  }
  return bytes;
}

inline std::uint32_t BitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }

// Succeeds if both rows have the same bits; otherwise fails with the first difference.
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

// A copy of a vector that starts `offset` bytes after an aligned address. The allocation ends with
// the copy, so that a sanitizer detects reads beyond it.
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

// AlignedBytes: bytes that begin at a 64-byte boundary, initially 0xff. The allocation ends with
// the last byte of AlignedBytes, so that a sanitizer detects accesses beyond it.
struct FreeAligned {
  void operator()(std::uint8_t* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::uint8_t[], FreeAligned>;
inline AlignedBytes MakeAlignedBytes(std::size_t count) {  // count: a multiple of 64
  AlignedBytes bytes(
      static_cast<std::uint8_t*>(std::aligned_alloc(64, std::max<std::size_t>(count, 64))));
  std::memset(bytes.get(), 0xff, count);
  return bytes;
}

// A test that compares the kernel table named by its parameter with the scalar table.
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
