// Decoding rows of weights to f32, and encoding rows of f32 for the cache.
#pragma once

#include "kernels/lanes/dispatch.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels {

// Group g of sixteen elements goes to destination + g * group_stride. The last group of a plain
// type may be short: its rest is zeros if kPadded, else not written.
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
KVD_ALWAYS_INLINE void DecodeRowWith(DataType type, const void* source, float* destination,
                                     std::size_t element_count) {
  WithDecoder<Isa>(type, [&](auto decoder) KVD_INLINE_LAMBDA {
    DecodeGroups<Isa, decltype(decoder), false>(static_cast<const std::uint8_t*>(source),
                                                element_count, destination, 16);
  });
}

// Encoder: static V-taking functions F16(V) and BF16(V), which give 16 halves, and Q8_0(a, b,
// block), which writes a block.
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
