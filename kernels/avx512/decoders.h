// Decoders of the weight types into f32 lanes in AVX-512 registers; kernels/quant_blocks.h defines
// the formats.
//
// The 4- and 5-bit types look up each value in a table of all 16 or 32 values of the block. A
// permutation reads only the low 4 bits of each index, so the high bits of a byte need no clearing.
#pragma once

#include "kernels/avx512/lanes.h"
#include "kernels/data_type.h"
#include "kernels/lanes/block_bits.h"
#include "kernels/lanes/decoder.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels::avx512 {

using V = Lanes::V;

static_assert(sizeof(float) == 4);

struct Bytes {
  static KVD_ALWAYS_INLINE __m128i Load16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  static KVD_ALWAYS_INLINE __m256i Load32(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static KVD_ALWAYS_INLINE std::uint32_t LoadWord(const void* from) {
    std::uint32_t word = 0;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
  }
  static KVD_ALWAYS_INLINE V HalfEverywhere(std::uint16_t half) {
    return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(half)));
  }
  static KVD_ALWAYS_INLINE V Signed(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  // first, first + 1, ... first + 15.
  static KVD_ALWAYS_INLINE V Ramp(int first) {
    return _mm512_cvtepi32_ps(
        _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(first)));
  }
  static KVD_ALWAYS_INLINE V Lane(V v, int lane) {
    return _mm512_permutexvar_ps(_mm512_set1_epi32(lane), v);
  }
};

struct DecodeF32 : PlainDecoder<DecodeF32, Lanes, 4> {
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from) { return _mm512_loadu_ps(from); }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from, std::size_t n) {
    return _mm512_maskz_loadu_ps(Lanes::FirstLanes(n), from);
  }
};

struct DecodeF16 : PlainDecoder<DecodeF16, Lanes, 2> {
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from) {
    return _mm512_cvtph_ps(Bytes::Load32(from));
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from, std::size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(Lanes::FirstLanes(n), from));
  }
};

struct DecodeBF16 : PlainDecoder<DecodeBF16, Lanes, 2> {
  static KVD_ALWAYS_INLINE V Widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from) { return Widen(Bytes::Load32(from)); }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from, std::size_t n) {
    return Widen(_mm256_maskz_loadu_epi16(Lanes::FirstLanes(n), from));
  }
};

// Nibbles: the 16 nibbles in the low halves of 16 bytes and the 16 nibbles in their high halves, as
// indices into a table of 16 values.
struct Nibbles {
  __m512i low;
  __m512i high;
  static KVD_ALWAYS_INLINE Nibbles Of(const void* from) {
    const __m512i bytes = _mm512_cvtepu8_epi32(Bytes::Load16(from));
    return {bytes, _mm512_srli_epi32(bytes, 4)};
  }
};

struct DecodeQ4_0 : BlockDecoder<Lanes, BlockQ4_0, 32> {
  struct State {
    V table;
    Nibbles q;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {Lanes::Mul(Bytes::Ramp(-8), Bytes::HalfEverywhere(block->d)), Nibbles::Of(block->qs)};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = _mm512_permutexvar_ps(state.q.low, state.table);
    *b = _mm512_permutexvar_ps(state.q.high, state.table);
  }
};

struct DecodeQ4_1 : BlockDecoder<Lanes, BlockQ4_1, 32> {
  using State = DecodeQ4_0::State;
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    const V d = Bytes::HalfEverywhere(block->d), m = Bytes::HalfEverywhere(block->m);
    return {Lanes::Fma(Bytes::Ramp(0), d, m), Nibbles::Of(block->qs)};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    DecodeQ4_0::Pair<kPair>(state, a, b);
  }
};

// A table of 32 values, and the fifth bits of 32 elements, which select the half of the table.
struct Table32 {
  V low;
  V high;
  KVD_ALWAYS_INLINE V At(__m512i q, __mmask16 fifth_bits) const {
    return _mm512_mask_permutexvar_ps(_mm512_permutexvar_ps(q, low), fifth_bits, q, high);
  }
};

struct DecodeQ5_0 : BlockDecoder<Lanes, BlockQ5_0, 32> {
  struct State {
    Table32 table;
    Nibbles q;
    std::uint32_t fifth_bits;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    const V d = Bytes::HalfEverywhere(block->d);
    return {{Lanes::Mul(Bytes::Ramp(-16), d), Lanes::Mul(Bytes::Ramp(0), d)},
            Nibbles::Of(block->qs),
            Bytes::LoadWord(block->qh)};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = state.table.At(state.q.low, static_cast<__mmask16>(state.fifth_bits & 0xffff));
    *b = state.table.At(state.q.high, static_cast<__mmask16>(state.fifth_bits >> 16));
  }
};

struct DecodeQ5_1 : BlockDecoder<Lanes, BlockQ5_1, 32> {
  using State = DecodeQ5_0::State;
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    const V d = Bytes::HalfEverywhere(block->d), m = Bytes::HalfEverywhere(block->m);
    return {{Lanes::Fma(Bytes::Ramp(0), d, m), Lanes::Fma(Bytes::Ramp(16), d, m)},
            Nibbles::Of(block->qs),
            Bytes::LoadWord(block->qh)};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    DecodeQ5_0::Pair<kPair>(state, a, b);
  }
};

struct DecodeQ8_0 : BlockDecoder<Lanes, BlockQ8_0, 32> {
  struct State {
    V d;
    const std::int8_t* qs;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {Bytes::HalfEverywhere(block->d), block->qs};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = Lanes::Mul(Bytes::Signed(Bytes::Load16(state.qs)), state.d);
    *b = Lanes::Mul(Bytes::Signed(Bytes::Load16(state.qs + 16)), state.d);
  }
};

using KBits = BlockBits<Bytes>;

// d * scale of the 8 parts of a q4_K or q5_K block in lanes 0..7, -(dmin * minimum) in lanes 8..15.
struct PartScales {
  static KVD_ALWAYS_INLINE V Of(std::uint16_t d, std::uint16_t dmin, const std::uint8_t* scales) {
    const __m128i bytes = KBits::PartScales(scales);
    const V factors = _mm512_mask_blend_ps(0xff00, Bytes::HalfEverywhere(d),
                                           Lanes::Negate(Bytes::HalfEverywhere(dmin)));
    return Lanes::Mul(Bytes::Signed(bytes), factors);
  }
};

struct DecodeQ4_K : BlockDecoder<Lanes, BlockQ4_K, 256> {
  struct State {
    V scales;
    const BlockQ4_K* block;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {PartScales::Of(block->d, block->dmin, block->scales), block};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    const V table = Lanes::Fma(Bytes::Ramp(0), Bytes::Lane(state.scales, kPair),
                               Bytes::Lane(state.scales, kPair + 8));
    const std::uint8_t* qs = state.block->qs + kPair / 2 * 32;
    const Nibbles q0 = Nibbles::Of(qs), q1 = Nibbles::Of(qs + 16);
    *a = _mm512_permutexvar_ps(kPair % 2 == 0 ? q0.low : q0.high, table);
    *b = _mm512_permutexvar_ps(kPair % 2 == 0 ? q1.low : q1.high, table);
  }
};

struct DecodeQ5_K : BlockDecoder<Lanes, BlockQ5_K, 256> {
  struct State {
    V scales;
    const BlockQ5_K* block;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {PartScales::Of(block->d, block->dmin, block->scales), block};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    const V scale = Bytes::Lane(state.scales, kPair),
            minimum = Bytes::Lane(state.scales, kPair + 8);
    const Table32 table = {Lanes::Fma(Bytes::Ramp(0), scale, minimum),
                           Lanes::Fma(Bytes::Ramp(16), scale, minimum)};
    const std::uint8_t* qs = state.block->qs + kPair / 2 * 32;
    const Nibbles q0 = Nibbles::Of(qs), q1 = Nibbles::Of(qs + 16);
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1u << kPair));
    const __mmask32 fifth_bits = _mm256_test_epi8_mask(Bytes::Load32(state.block->qh), bit);
    *a = table.At(kPair % 2 == 0 ? q0.low : q0.high, static_cast<__mmask16>(fifth_bits & 0xffff));
    *b = table.At(kPair % 2 == 0 ? q1.low : q1.high, static_cast<__mmask16>(fifth_bits >> 16));
  }
};

struct DecodeQ6_K : BlockDecoder<Lanes, BlockQ6_K, 256> {
  struct State {
    V scales;  // d * scale of the 16 half parts
    const BlockQ6_K* block;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {
        Lanes::Mul(Bytes::Signed(Bytes::Load16(block->scales)), Bytes::HalfEverywhere(block->d)),
        block};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    const __m256i q = KBits::Six<kPair>(*state.block);
    *a = Lanes::Mul(Bytes::Signed(_mm256_castsi256_si128(q)), Bytes::Lane(state.scales, 2 * kPair));
    *b = Lanes::Mul(Bytes::Signed(_mm256_extracti128_si256(q, 1)),
                    Bytes::Lane(state.scales, 2 * kPair + 1));
  }
};

// The types by which kernels/lanes/dispatch.h selects a decoder.
struct Isa {
  using Lanes = avx512::Lanes;
  using F32 = DecodeF32;
  using F16 = DecodeF16;
  using BF16 = DecodeBF16;
  using Q4_0 = DecodeQ4_0;
  using Q4_1 = DecodeQ4_1;
  using Q5_0 = DecodeQ5_0;
  using Q5_1 = DecodeQ5_1;
  using Q8_0 = DecodeQ8_0;
  using Q4_K = DecodeQ4_K;
  using Q5_K = DecodeQ5_K;
  using Q6_K = DecodeQ6_K;
  using Parts = PartDecoders<Lanes, Bytes>;
};

}  // namespace kvd::kernels::avx512
