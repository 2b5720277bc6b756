// The element types of weights and cells, numbered as in ggml, with their block shapes.
//
// A row of n elements of type t occupies RowBytes(t, n) bytes; n must be a multiple of
// ElementsPerBlock(t). The layouts are those of ggml (ggml/src/ggml-common.h of llama.cpp); see
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
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

// Every type, for lists in messages, tests and benches.
inline constexpr DataType kDataTypes[] = {
    DataType::kF32,   DataType::kF16,     DataType::kBF16,   DataType::kQ8_0,   DataType::kQ4_0,
    DataType::kQ4_1,  DataType::kQ5_0,    DataType::kQ5_1,   DataType::kQ2_K,   DataType::kQ3_K,
    DataType::kQ4_K,  DataType::kQ5_K,    DataType::kQ6_K,   DataType::kIQ4_NL, DataType::kIQ4_XS,
    DataType::kMXFP4, DataType::kIQ2_XXS, DataType::kIQ2_XS, DataType::kIQ2_S,  DataType::kIQ3_XXS,
    DataType::kIQ3_S};

// Elements and bytes of one block; 0 for a number that is not a DataType.
constexpr std::size_t ElementsPerBlock(DataType type) {
  switch (type) {
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBF16: return 1;
    case DataType::kQ4_0:
    case DataType::kQ4_1:
    case DataType::kQ5_0:
    case DataType::kQ5_1:
    case DataType::kQ8_0:
    case DataType::kIQ4_NL:
    case DataType::kMXFP4: return 32;
    case DataType::kQ2_K:
    case DataType::kQ3_K:
    case DataType::kQ4_K:
    case DataType::kQ5_K:
    case DataType::kQ6_K:
    case DataType::kIQ2_XXS:
    case DataType::kIQ2_XS:
    case DataType::kIQ2_S:
    case DataType::kIQ3_XXS:
    case DataType::kIQ3_S:
    case DataType::kIQ4_XS: return 256;
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
    case DataType::kQ2_K: return 84;
    case DataType::kQ3_K: return 110;
    case DataType::kQ4_K: return 144;
    case DataType::kQ5_K: return 176;
    case DataType::kQ6_K: return 210;
    case DataType::kIQ2_XXS: return 66;
    case DataType::kIQ2_XS: return 74;
    case DataType::kIQ2_S: return 82;
    case DataType::kIQ3_XXS: return 98;
    case DataType::kIQ3_S: return 110;
    case DataType::kIQ4_NL: return 18;
    case DataType::kIQ4_XS: return 136;
    case DataType::kMXFP4: return 17;
  }
  return 0;
}

// Whether a number read from a file is a DataType.
constexpr bool IsDataType(std::uint32_t number) {
  return number < 256 && ElementsPerBlock(static_cast<DataType>(number)) != 0;
}

// Returns whether elements of the type are stored in blocks with scales. Products with weights that
// are stored in blocks quantise the other factor, too.
constexpr bool IsQuantized(DataType type) { return ElementsPerBlock(type) > 1; }

constexpr std::size_t RowBytes(DataType type, std::size_t element_count) {
  return element_count / ElementsPerBlock(type) * BytesPerBlock(type);
}

// The name used by flags, scripts and `kvctl info`: "f32", "q4_K". Never null.
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
    case DataType::kQ2_K: return "q2_K";
    case DataType::kQ3_K: return "q3_K";
    case DataType::kQ4_K: return "q4_K";
    case DataType::kQ5_K: return "q5_K";
    case DataType::kQ6_K: return "q6_K";
    case DataType::kIQ2_XXS: return "iq2_xxs";
    case DataType::kIQ2_XS: return "iq2_xs";
    case DataType::kIQ2_S: return "iq2_s";
    case DataType::kIQ3_XXS: return "iq3_xxs";
    case DataType::kIQ3_S: return "iq3_s";
    case DataType::kIQ4_NL: return "iq4_nl";
    case DataType::kIQ4_XS: return "iq4_xs";
    case DataType::kMXFP4: return "mxfp4";
  }
  return "unknown";
}

// The element types that cached keys and values may have.
inline constexpr DataType kCellTypes[] = {DataType::kF32, DataType::kF16, DataType::kBF16,
                                          DataType::kQ8_0, DataType::kQ4_0};

constexpr bool IsCellType(DataType type) {
  for (const DataType cell_type : kCellTypes) {
    if (type == cell_type) return true;
  }
  return false;
}

}  // namespace kvd::kernels
