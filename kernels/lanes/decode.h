// Decodes rows of weights to f32 and encodes rows of f32 for the cache.
#pragma once

#include <immintrin.h>

#include "kernels/lanes/dispatch.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels {

// Writes group g of sixteen elements to destination + g * group_stride. The last group of a plain
// type may be incomplete; its remaining floats are zero if kPadded and not written otherwise.
template <class Isa, class D, bool kPadded>
KVD_ALWAYS_INLINE void DecodeGroups(const std::uint8_t* source, std::size_t n, float* destination,
                                    std::size_t group_stride) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  std::size_t j = 0;
  for (; j + D::kElements <= n; j += D::kElements, source += D::kBytes) {
    const typename D::State state = D::Open(source);
    StaticFor<D::kElements / 32>([&](auto pair) KVD_INLINE_LAMBDA {
      V a, b;
      D::template Pair<pair.value>(state, &a, &b);
      L::Store(destination, a);
      L::Store(destination + group_stride, b);
      destination += 2 * group_stride;
    });
  }
  if constexpr (D::kPlain) {
    if (j + 16 <= n) {
      L::Store(destination, D::Group(source));
      destination += group_stride;
      source += 16 * D::kElementBytes;
      j += 16;
    }
    if (j < n) {
      const V last = D::Group(source, n - j);
      if constexpr (kPadded) {
        L::Store(destination, last);
      } else {
        L::Store(destination, last, L::FirstLanes(n - j));
      }
    }
  }
}

template <class Isa>
void DecodeRow(DataType type, const void* source, float* destination, std::size_t element_count) {
  WithDecoder<Isa>(type, [&](auto decoder) KVD_INLINE_LAMBDA {
    DecodeGroups<Isa, decltype(decoder), false>(static_cast<const std::uint8_t*>(source),
                                                element_count, destination, 16);
  });
}

// Writes a block of q4_0 (kernels/scalar/decode.cc has its definition).
template <class Isa, class Encoder>
KVD_ALWAYS_INLINE bool EncodeQ4_0(const float* x, std::uint8_t* to) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  auto* block = reinterpret_cast<BlockQ4_0*>(to);
  const V a = L::Load(x), b = L::Load(x + 16);
  if ((L::NotFiniteBits(a) | L::NotFiniteBits(b)) != 0) {
    block->d = 0x7e00;
    __builtin_memset(block->qs, 0x88, sizeof block->qs);
    return false;
  }
  const V a_size = L::Max(a, L::Negate(a)), b_size = L::Max(b, L::Negate(b));
  const float largest = L::Largest(L::Max(a_size, b_size));
  const unsigned places =
      L::EqualBits(a_size, L::Set(largest)) | L::EqualBits(b_size, L::Set(largest)) << 16;
  const float extreme = largest == 0.0f ? 0.0f : x[__builtin_ctz(places)];
  const float d = extreme / -8.0f;
  const V inverse = L::Set(largest / 8.0f < 0x1p-126f ? 0.0f : 1.0f / d);
  const auto levels = [&](V v) KVD_INLINE_LAMBDA {
    const __m128i whole = Encoder::Truncated(L::Add(L::Mul(v, inverse), L::Set(8.5f)));
    return _mm_min_epu8(whole, _mm_set1_epi8(15));
  };
  const __m128i packed = _mm_or_si128(levels(a), _mm_slli_epi16(levels(b), 4));
  block->d = _cvtss_sh(d, _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(block->qs), packed);
  return (block->d & 0x7c00) != 0x7c00;
}

// Encoder has static functions F16(v, to) and BF16(v, to), which write 16 halves, and Q8_0(a, b,
// block), which writes a block. Each returns whether all numbers are finite. Truncated(v) gives the
// whole parts of sixteen small numbers as bytes.
template <class Isa, class Encoder>
KVD_ALWAYS_INLINE bool EncodeRowWith(DataType type, const float* source, void* destination,
                                     std::size_t element_count) {
  using L = typename Isa::Lanes;
  auto* bytes = static_cast<std::uint8_t*>(destination);
  bool finite = true;
  if (type == DataType::kQ8_0) {
    for (std::size_t j = 0; j + 32 <= element_count; j += 32, bytes += sizeof(BlockQ8_0)) {
      finite &= Encoder::Q8_0(L::Load(source + j), L::Load(source + j + 16), bytes);
    }
    return finite;
  }
  if (type == DataType::kQ4_0) {
    for (std::size_t j = 0; j + 32 <= element_count; j += 32, bytes += sizeof(BlockQ4_0)) {
      finite &= EncodeQ4_0<Isa, Encoder>(source + j, bytes);
    }
    return finite;
  }
  if (type != DataType::kF32 && type != DataType::kF16 && type != DataType::kBF16) return false;
  const std::size_t element_bytes = type == DataType::kF32 ? 4 : 2;
  for (std::size_t j = 0; j < element_count; j += 16, bytes += 16 * element_bytes) {
    const bool whole = j + 16 <= element_count;
    const std::size_t n = whole ? 16 : element_count - j;
    const auto v = whole ? L::Load(source + j) : L::Load(source + j, L::FirstLanes(n));
    alignas(64) float group[16];
    if (type == DataType::kF32) {
      finite &= L::NotFiniteBits(v) == 0;
      L::Store(group, v);
    } else if (type == DataType::kF16) {
      finite &= Encoder::F16(v, group);
    } else {
      finite &= Encoder::BF16(v, group);
    }
    __builtin_memcpy(bytes, group, n * element_bytes);
  }
  return finite;
}

}  // namespace kvd::kernels
