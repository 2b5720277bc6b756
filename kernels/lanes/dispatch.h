// Maps a DataType to the decoder of an instruction set, and gives the sizes of a decoder's rows.
#pragma once

#include <cstddef>

#include "kernels/data_type.h"
#include "kernels/lanes/static_for.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels {

// Calls body(Decoder{}) for the type; does nothing for a number that is not a type.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithDecoder(DataType type, const F& body) {
  switch (type) {
    case DataType::kF32: return body(typename Isa::F32{});
    case DataType::kF16: return body(typename Isa::F16{});
    case DataType::kBF16: return body(typename Isa::BF16{});
    case DataType::kQ4_0: return body(typename Isa::Q4_0{});
    case DataType::kQ4_1: return body(typename Isa::Q4_1{});
    case DataType::kQ5_0: return body(typename Isa::Q5_0{});
    case DataType::kQ5_1: return body(typename Isa::Q5_1{});
    case DataType::kQ8_0: return body(typename Isa::Q8_0{});
    case DataType::kQ2_K: return body(typename Isa::Parts::Q2_K{});
    case DataType::kQ3_K: return body(typename Isa::Parts::Q3_K{});
    case DataType::kQ4_K: return body(typename Isa::Q4_K{});
    case DataType::kQ5_K: return body(typename Isa::Q5_K{});
    case DataType::kQ6_K: return body(typename Isa::Q6_K{});
    case DataType::kIQ2_XXS:
      return body(typename Isa::Parts::template InGrid<DataType::kIQ2_XXS, BlockIQ2_XXS>{});
    case DataType::kIQ2_XS:
      return body(typename Isa::Parts::template InGrid<DataType::kIQ2_XS, BlockIQ2_XS>{});
    case DataType::kIQ2_S:
      return body(typename Isa::Parts::template InGrid<DataType::kIQ2_S, BlockIQ2_S>{});
    case DataType::kIQ3_XXS:
      return body(typename Isa::Parts::template InGrid<DataType::kIQ3_XXS, BlockIQ3_XXS>{});
    case DataType::kIQ3_S:
      return body(typename Isa::Parts::template InGrid<DataType::kIQ3_S, BlockIQ3_S>{});
    case DataType::kIQ4_NL: return body(typename Isa::Parts::IQ4_NL{});
    case DataType::kIQ4_XS: return body(typename Isa::Parts::IQ4_XS{});
    case DataType::kMXFP4: return body(typename Isa::Parts::MXFP4{});
  }
}

// Calls body(Decoder{}) for a type that is not quantised; does nothing for other types.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithPlainDecoder(DataType type, const F& body) {
  switch (type) {
    case DataType::kF32: return body(typename Isa::F32{});
    case DataType::kF16: return body(typename Isa::F16{});
    case DataType::kBF16: return body(typename Isa::BF16{});
    default: return;
  }
}

// Calls body(Quads{}) for a quantised type; does nothing for other types.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithQuads(DataType type, const F& body) {
  switch (type) {
    case DataType::kQ4_0: return body(typename Isa::QuadsQ4_0{});
    case DataType::kQ4_1: return body(typename Isa::QuadsQ4_1{});
    case DataType::kQ5_0: return body(typename Isa::QuadsQ5_0{});
    case DataType::kQ5_1: return body(typename Isa::QuadsQ5_1{});
    case DataType::kQ8_0: return body(typename Isa::QuadsQ8_0{});
    case DataType::kQ2_K: return body(typename Isa::QuadsQ2_K{});
    case DataType::kQ3_K: return body(typename Isa::QuadsQ3_K{});
    case DataType::kQ4_K: return body(typename Isa::QuadsQ4_K{});
    case DataType::kQ5_K: return body(typename Isa::QuadsQ5_K{});
    case DataType::kQ6_K: return body(typename Isa::QuadsQ6_K{});
    case DataType::kIQ2_XXS:
      return body(typename Isa::template QuadsInGrid<DataType::kIQ2_XXS, BlockIQ2_XXS>{});
    case DataType::kIQ2_XS:
      return body(typename Isa::template QuadsInGrid<DataType::kIQ2_XS, BlockIQ2_XS>{});
    case DataType::kIQ2_S:
      return body(typename Isa::template QuadsInGrid<DataType::kIQ2_S, BlockIQ2_S>{});
    case DataType::kIQ3_XXS:
      return body(typename Isa::template QuadsInGrid<DataType::kIQ3_XXS, BlockIQ3_XXS>{});
    case DataType::kIQ3_S:
      return body(typename Isa::template QuadsInGrid<DataType::kIQ3_S, BlockIQ3_S>{});
    case DataType::kIQ4_NL: return body(typename Isa::QuadsIQ4_NL{});
    case DataType::kIQ4_XS: return body(typename Isa::QuadsIQ4_XS{});
    case DataType::kMXFP4: return body(typename Isa::QuadsMXFP4{});
    default: return;
  }
}

// Calls body(Decoder{}) for a type of cached keys and values; does nothing for other types.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithCellDecoder(DataType type, const F& body) {
  switch (type) {
    case DataType::kF32: return body(typename Isa::F32{});
    case DataType::kF16: return body(typename Isa::F16{});
    case DataType::kBF16: return body(typename Isa::BF16{});
    case DataType::kQ8_0: return body(typename Isa::Q8_0{});
    case DataType::kQ4_0: return body(typename Isa::Q4_0{});
    default: return;
  }
}

// RowBytes (kernels/data_type.h) of a decoder's type. The function is a template because this file
// must not define inline functions (kernels/lanes/static_for.h).
template <class Decoder>
KVD_ALWAYS_INLINE std::size_t DecoderRowBytes(std::size_t element_count) {
  if constexpr (Decoder::kPlain) return element_count * Decoder::kElementBytes;
  return element_count / Decoder::kElements * Decoder::kBytes;
}

}  // namespace kvd::kernels
