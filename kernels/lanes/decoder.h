// The base classes of the decoders of every instruction set (kernels/avx2/decoders.h).
//
// A decoder opens a block of kElements elements (the data that it reads once per block is its
// State) and returns the block as kElements / 32 pairs of sixteen lanes. Plain types (kPlain) have
// no blocks; they use 32 elements at a time, and Group decodes the remaining elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

// Base of a decoder of elements without blocks. D has static functions Group(from), which decodes
// 16 elements, and Group(from, n), which decodes the first n < 16, followed by zeros.
template <class D, class Lanes, std::size_t kBytesOfOne>
// The constructor is public, because the base has no state and decoders are aggregates.
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
struct PlainDecoder {
  using V = typename Lanes::V;
  static constexpr bool kPlain = true;
  static constexpr std::size_t kElementBytes = kBytesOfOne, kElements = 32,
                               kBytes = kElements * kElementBytes;
  struct State {
    const std::uint8_t* from;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* block) { return {block}; }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = D::Group(state.from);
    *b = D::Group(state.from + 16 * kElementBytes);
  }
};

// Base of a decoder of blocks of kElementCount elements, which adds State, Open and Pair. Lanes
// makes the symbols name the instruction set.
template <class Lanes, class Block, std::size_t kElementCount>
struct BlockDecoder {
  static constexpr bool kPlain = false;
  static constexpr std::size_t kElements = kElementCount, kBytes = sizeof(Block);
  static KVD_ALWAYS_INLINE const Block* At(const std::uint8_t* from) {
    return reinterpret_cast<const Block*>(from);
  }
};

}  // namespace kvd::kernels
