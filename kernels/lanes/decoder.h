// The base classes of decoders, and the decoders that every instruction set shares.
#pragma once

#include <immintrin.h>
#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"
#include "kernels/quant_blocks.h"
#include "kernels/quant_grids.h"

namespace kvd::kernels {

// The base classes of the decoders of every instruction set (kernels/avx2/decoders.h).
//
// A decoder opens a block of kElements elements (the data that it reads once per block is its
// State) and returns the block as kElements / 32 pairs of sixteen lanes. Plain types (kPlain) have
// no blocks; they use 32 elements at a time, and Group decodes the remaining elements.

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

// Decoders of the weight types whose elements every instruction set unpacks from sixteen bytes at a
// time with the same operations: q2_K, q3_K, iq4_nl, iq4_xs, mxfp4 (kernels/quant_blocks.h), and
// those of kernels/quant_grids.h.

// A table of sixteen bytes for nibbles: each of kValues plus an offset. The parameter Lanes puts
// the instruction set into the mangled names, so that the linker does not merge functions that are
// compiled for different instruction sets. kValues is a template argument whose elements are
// constants, so that no object file refers to the array.
template <class Lanes, const std::int8_t (&kValues)[16]>
struct NibbleTable {
  static KVD_ALWAYS_INLINE __m128i Plus(int offset) {
    const auto at = [&](int value) KVD_INLINE_LAMBDA { return static_cast<char>(value + offset); };
    return _mm_setr_epi8(at(kValues[0]), at(kValues[1]), at(kValues[2]), at(kValues[3]),
                         at(kValues[4]), at(kValues[5]), at(kValues[6]), at(kValues[7]),
                         at(kValues[8]), at(kValues[9]), at(kValues[10]), at(kValues[11]),
                         at(kValues[12]), at(kValues[13]), at(kValues[14]), at(kValues[15]));
  }
};

// Lanes and Bytes: the set's types (kernels/avx2/decoders.h).
template <class Lanes, class Bytes>
struct PartDecoders {
  using V = typename Lanes::V;

  static KVD_ALWAYS_INLINE __m128i Load(const void* from) { return Bytes::Load16(from); }
  static KVD_ALWAYS_INLINE __m128i And(__m128i bytes, char mask) {
    return _mm_and_si128(bytes, _mm_set1_epi8(mask));
  }
  static KVD_ALWAYS_INLINE V Scaled(__m128i q, float scale) {
    return Lanes::Mul(Bytes::Signed(q), Lanes::Set(scale));
  }
  // 2^(e - 128).
  static KVD_ALWAYS_INLINE float PowerOfTwo(std::uint8_t e) {
    const std::uint32_t bits = e < 2 ? 0x00200000u << e : (std::uint32_t{e} - 1) << 23;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  // The integers of a block of nibbles: elements 0..15 and 16..31.
  struct Looked {
    __m128i low;
    __m128i high;
    template <const std::int8_t (&kValues)[16]>
    static KVD_ALWAYS_INLINE Looked Up(const std::uint8_t* qs) {
      const __m128i table = NibbleTable<Lanes, kValues>::Plus(0), bytes = Load(qs);
      return {_mm_shuffle_epi8(table, And(bytes, 15)),
              _mm_shuffle_epi8(table, And(_mm_srli_epi16(bytes, 4), 15))};
    }
  };

  struct IQ4_NL : BlockDecoder<Lanes, BlockIQ4_NL, 32> {
    struct State {
      float scale;
      Looked q;
    };
    static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
      const auto* block = IQ4_NL::At(from);
      return {_cvtsh_ss(block->d), Looked::template Up<kIQ4Values>(block->qs)};
    }
    template <int kPair>
    static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
      *a = Scaled(state.q.low, state.scale);
      *b = Scaled(state.q.high, state.scale);
    }
  };

  struct MXFP4 : BlockDecoder<Lanes, BlockMXFP4, 32> {
    using State = typename IQ4_NL::State;
    static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
      const auto* block = MXFP4::At(from);
      return {PowerOfTwo(block->e), Looked::template Up<kMXFP4Values>(block->qs)};
    }
    template <int kPair>
    static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
      IQ4_NL::template Pair<kPair>(state, a, b);
    }
  };

  struct IQ4_XS : BlockDecoder<Lanes, BlockIQ4_XS, 256> {
    struct State {
      float d;
      const BlockIQ4_XS* block;
    };
    static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
      const auto* block = IQ4_XS::At(from);
      return {_cvtsh_ss(block->d), block};
    }
    template <int kPair>
    static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
      const BlockIQ4_XS& block = *state.block;
      const int low = (block.scales_l[kPair / 2] >> (kPair % 2 * 4)) & 15;
      const int high = (block.scales_h >> (2 * kPair)) & 3;
      const float scale = state.d * static_cast<float>((low | high << 4) - 32);
      const Looked q = Looked::template Up<kIQ4Values>(block.qs + 16 * kPair);
      *a = Scaled(q.low, scale);
      *b = Scaled(q.high, scale);
    }
  };

  template <DataType kType, class Block>
  struct InGrid : BlockDecoder<Lanes, Block, 256> {
    using State = GridBlock;
    static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
      State state;
      UnpackGridBlock(kType, from, &state);
      return state;
    }
    template <int kPair>
    static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
      const std::int8_t* scales = state.half_scales + 2 * kPair;
      *a = Scaled(Load(state.q + 32 * kPair), state.scale * static_cast<float>(scales[0]));
      *b = Scaled(Load(state.q + 32 * kPair + 16), state.scale * static_cast<float>(scales[1]));
    }
  };

  struct Q2_K : BlockDecoder<Lanes, BlockQ2_K, 256> {
    struct State {
      float d;
      float dmin;
      const BlockQ2_K* block;
    };
    static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
      const auto* block = Q2_K::At(from);
      return {_cvtsh_ss(block->d), _cvtsh_ss(block->dmin), block};
    }
    template <int kPair>
    static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
      const auto half = [&](int i) KVD_INLINE_LAMBDA {
        const std::uint8_t* qs = state.block->qs + kPair / 4 * 32 + 16 * i;
        const std::uint8_t scale = state.block->scales[2 * kPair + i];
        return Lanes::Fma(Bytes::Signed(And(_mm_srli_epi16(Load(qs), 2 * (kPair % 4)), 3)),
                          Lanes::Set(state.d * static_cast<float>(scale & 15)),
                          Lanes::Set(-(state.dmin * static_cast<float>(scale >> 4))));
      };
      *a = half(0);
      *b = half(1);
    }
  };

  struct Q3_K : BlockDecoder<Lanes, BlockQ3_K, 256> {
    struct State {
      float d;
      const BlockQ3_K* block;
    };
    static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
      const auto* block = Q3_K::At(from);
      return {_cvtsh_ss(block->d), block};
    }
    template <int kPair>
    static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
      const auto half = [&](int h) KVD_INLINE_LAMBDA {
        const BlockQ3_K& block = *state.block;
        const int i = 2 * kPair + h;
        const int low = (block.scales[i % 8] >> (i / 8 * 4)) & 15;
        const int high = (block.scales[8 + i % 4] >> (2 * (i / 4))) & 3;
        const float scale = state.d * static_cast<float>((low | high << 4) - 32);
        const __m128i two =
            And(_mm_srli_epi16(Load(block.qs + kPair / 4 * 32 + 16 * h), 2 * (kPair % 4)), 3);
        const __m128i third = And(Load(block.hmask + 16 * h), static_cast<char>(1u << kPair));
        const __m128i four_without =
            And(_mm_cmpeq_epi8(third, _mm_setzero_si128()), 4);  // 4 where the third bit is not set
        return Scaled(_mm_sub_epi8(two, four_without), scale);
      };
      *a = half(0);
      *b = half(1);
    }
  };
};

}  // namespace kvd::kernels
