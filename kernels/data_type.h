// The element types of weights and cells, by their ggml numbers, with their block shapes.
//
// A row of n elements of type t occupies RowBytes(t, n) bytes; n must be a multiple of
// ElementsPerBlock(t). Layouts are those of ggml (ggml/src/ggml-common.h of llama.cpp): see
// kernels/quant_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::kernels {

enum class DataType : std::uint8_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// Elements and bytes of one block; 0 for a number that is no DataType of ours.
constexpr std::size_t ElementsPerBlock(DataType type) {
  switch (type) {
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBF16: return 1;
    case DataType::kQ4_0:
    case DataType::kQ4_1:
    case DataType::kQ5_0:
    case DataType::kQ5_1:
    case DataType::kQ8_0: return 32;
    case DataType::kQ4_K:
    case DataType::kQ5_K:
    case DataType::kQ6_K: return 256;
  }
  return 0;
}

constexpr std::size_t BytesPerBlock(DataType type) {
  switch (type) {
    case DataType::kF32: return 4;
    case DataType::kF16:
    case DataType::kBF16: return 2;
    case DataType::kQ4_0: return 18;
    case DataType::kQ4_1: return 20;
    case DataType::kQ5_0: return 22;
    case DataType::kQ5_1: return 24;
    case DataType::kQ8_0: return 34;
    case DataType::kQ4_K: return 144;
    case DataType::kQ5_K: return 176;
    case DataType::kQ6_K: return 210;
  }
  return 0;
}

// Whether a number read from a file is a DataType of ours.
constexpr bool IsDataType(std::uint32_t number) {
  return number < 256 && ElementsPerBlock(static_cast<DataType>(number)) != 0;
}

// Whether elements come in blocks with scales, so that products quantise what they are multiplied
// with.
constexpr bool IsQuantized(DataType type) { return ElementsPerBlock(type) > 1; }

constexpr std::size_t RowBytes(DataType type, std::size_t element_count) {
  return element_count / ElementsPerBlock(type) * BytesPerBlock(type);
}

// The name that flags, scripts and `kvctl info` use: "f32", "q4_K". Never null.
constexpr const char* DataTypeName(DataType type) {
  switch (type) {
    case DataType::kF32: return "f32";
    case DataType::kF16: return "f16";
    case DataType::kBF16: return "bf16";
    case DataType::kQ4_0: return "q4_0";
    case DataType::kQ4_1: return "q4_1";
    case DataType::kQ5_0: return "q5_0";
    case DataType::kQ5_1: return "q5_1";
    case DataType::kQ8_0: return "q8_0";
    case DataType::kQ4_K: return "q4_K";
    case DataType::kQ5_K: return "q5_K";
    case DataType::kQ6_K: return "q6_K";
  }
  return "unknown";
}

}  // namespace kvd::kernels
