// From a DataType to the decoder of an instruction set, and the sizes that a decoder implies.
#pragma once

#include <cstddef>

#include "kernels/data_type.h"
#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

// body(Decoder{}) for the type; nothing for a number that is no type.
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
    case DataType::kQ4_K: return body(typename Isa::Q4_K{});
    case DataType::kQ5_K: return body(typename Isa::Q5_K{});
    case DataType::kQ6_K: return body(typename Isa::Q6_K{});
  }
}

// body(Decoder{}) for a type that is not quantised; nothing for another.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithPlainDecoder(DataType type, const F& body) {
  switch (type) {
    case DataType::kF32: return body(typename Isa::F32{});
    case DataType::kF16: return body(typename Isa::F16{});
    case DataType::kBF16: return body(typename Isa::BF16{});
    default: return;
  }
}

// body(Quads{}) for a quantised type; nothing for another.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithQuads(DataType type, const F& body) {
  switch (type) {
    case DataType::kQ4_0: return body(typename Isa::QuadsQ4_0{});
    case DataType::kQ4_1: return body(typename Isa::QuadsQ4_1{});
    case DataType::kQ5_0: return body(typename Isa::QuadsQ5_0{});
    case DataType::kQ5_1: return body(typename Isa::QuadsQ5_1{});
    case DataType::kQ8_0: return body(typename Isa::QuadsQ8_0{});
    case DataType::kQ4_K: return body(typename Isa::QuadsQ4_K{});
    case DataType::kQ5_K: return body(typename Isa::QuadsQ5_K{});
    case DataType::kQ6_K: return body(typename Isa::QuadsQ6_K{});
    default: return;
  }
}

// The types that keys and values of the cache come in.
template <class Isa, class F>
KVD_ALWAYS_INLINE void WithCellDecoder(DataType type, const F& body) {
  switch (type) {
    case DataType::kF32: return body(typename Isa::F32{});
    case DataType::kF16: return body(typename Isa::F16{});
    case DataType::kBF16: return body(typename Isa::BF16{});
    case DataType::kQ8_0: return body(typename Isa::Q8_0{});
    default: return;
  }
}

// RowBytes (kernels/data_type.h) of a decoder's type. A template, because an inline function may
// not come from here.
template <class Decoder>
KVD_ALWAYS_INLINE std::size_t DecoderRowBytes(std::size_t element_count) {
  if constexpr (Decoder::kPlain) return element_count * Decoder::kElementBytes;
  return element_count / Decoder::kElements * Decoder::kBytes;
}

}  // namespace kvd::kernels
