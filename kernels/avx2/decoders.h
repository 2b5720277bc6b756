// Decoders of the weight types into f32 lanes in AVX2 registers; kernels/quant_blocks.h defines the
// formats.
#pragma once

#include "kernels/avx2/lanes.h"
#include "kernels/data_type.h"
#include "kernels/lanes/block_bits.h"
#include "kernels/lanes/decoder.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels::avx2 {

using V = Lanes::V;

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
  // The first n < 16 elements of two bytes, followed by zeros.
  static KVD_ALWAYS_INLINE __m256i LoadHalves(const std::uint8_t* from, std::size_t n) {
    std::uint8_t padded[32] = {};
    __builtin_memcpy(padded, from, 2 * n);
    return Load32(padded);
  }
  static KVD_ALWAYS_INLINE __m256 HalfEverywhere(std::uint16_t half) {
    return _mm256_set1_ps(_cvtsh_ss(half));
  }
  static KVD_ALWAYS_INLINE V HalfLanes(std::uint16_t half) {
    return {HalfEverywhere(half), HalfEverywhere(half)};
  }
  static KVD_ALWAYS_INLINE __m256 Signed8(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static KVD_ALWAYS_INLINE V Signed(__m128i bytes) {
    return {Signed8(bytes), Signed8(_mm_srli_si128(bytes, 8))};
  }
  static KVD_ALWAYS_INLINE V Lane(__m256 v, int lane) {
    const __m256 everywhere = _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(lane));
    return {everywhere, everywhere};
  }
};

struct DecodeF32 : PlainDecoder<DecodeF32, Lanes, 4> {
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from) {
    return Lanes::Load(reinterpret_cast<const float*>(from));
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from, std::size_t n) {
    return Lanes::Load(reinterpret_cast<const float*>(from), Lanes::FirstLanes(n));
  }
};

struct DecodeF16 : PlainDecoder<DecodeF16, Lanes, 2> {
  static KVD_ALWAYS_INLINE V Widen(__m128i low, __m128i high) {
    return {_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)};
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from) {
    return Widen(Bytes::Load16(from), Bytes::Load16(from + 16));
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from, std::size_t n) {
    const __m256i halves = Bytes::LoadHalves(from, n);
    return Widen(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  }
};

struct DecodeBF16 : PlainDecoder<DecodeBF16, Lanes, 2> {
  static KVD_ALWAYS_INLINE __m256 Widen8(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static KVD_ALWAYS_INLINE V Widen(__m128i low, __m128i high) {
    return {Widen8(low), Widen8(high)};
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from) {
    return Widen(Bytes::Load16(from), Bytes::Load16(from + 16));
  }
  static KVD_ALWAYS_INLINE V Group(const std::uint8_t* from, std::size_t n) {
    const __m256i halves = Bytes::LoadHalves(from, n);
    return Widen(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  }
};

// Nibbles: the 16 nibbles in the low halves of 16 bytes, and the 16 nibbles in their high halves.
struct Nibbles {
  __m128i low;
  __m128i high;
  static KVD_ALWAYS_INLINE Nibbles Of(const void* from) {
    const __m128i bytes = Bytes::Load16(from), mask = _mm_set1_epi8(15);
    return {_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16(bytes, 4), mask)};
  }
};

// Returns for each of the 16 bits of the bytes first_byte and first_byte + 1 one byte, which is 16
// if the bit is set and 0 if not.
struct FifthBits {
  static KVD_ALWAYS_INLINE __m128i Of(std::uint32_t bits, int first_byte) {
    const __m128i spread =
        _mm_add_epi8(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                     _mm_set1_epi8(static_cast<char>(first_byte)));
    const __m128i bit = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    const __m128i bytes = _mm_shuffle_epi8(_mm_set1_epi32(static_cast<int>(bits)), spread);
    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(bytes, bit), bit), _mm_set1_epi8(16));
  }
};

struct DecodeQ4_0 : BlockDecoder<Lanes, BlockQ4_0, 32> {
  struct State {
    V d;
    Nibbles q;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    const __m128i eight = _mm_set1_epi8(8);
    const Nibbles q = Nibbles::Of(block->qs);
    return {Bytes::HalfLanes(block->d), {_mm_sub_epi8(q.low, eight), _mm_sub_epi8(q.high, eight)}};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = Lanes::Mul(Bytes::Signed(state.q.low), state.d);
    *b = Lanes::Mul(Bytes::Signed(state.q.high), state.d);
  }
};

struct DecodeQ4_1 : BlockDecoder<Lanes, BlockQ4_1, 32> {
  struct State {
    V d;
    V m;
    Nibbles q;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {Bytes::HalfLanes(block->d), Bytes::HalfLanes(block->m), Nibbles::Of(block->qs)};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = Lanes::Fma(Bytes::Signed(state.q.low), state.d, state.m);
    *b = Lanes::Fma(Bytes::Signed(state.q.high), state.d, state.m);
  }
};

struct DecodeQ5_0 : BlockDecoder<Lanes, BlockQ5_0, 32> {
  using State = DecodeQ4_0::State;
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    const __m128i sixteen = _mm_set1_epi8(16);
    const std::uint32_t bits = Bytes::LoadWord(block->qh);
    const Nibbles q = Nibbles::Of(block->qs);
    return {Bytes::HalfLanes(block->d),
            {_mm_sub_epi8(_mm_or_si128(q.low, FifthBits::Of(bits, 0)), sixteen),
             _mm_sub_epi8(_mm_or_si128(q.high, FifthBits::Of(bits, 2)), sixteen)}};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    DecodeQ4_0::Pair<kPair>(state, a, b);
  }
};

struct DecodeQ5_1 : BlockDecoder<Lanes, BlockQ5_1, 32> {
  using State = DecodeQ4_1::State;
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    const std::uint32_t bits = Bytes::LoadWord(block->qh);
    const Nibbles q = Nibbles::Of(block->qs);
    return {Bytes::HalfLanes(block->d),
            Bytes::HalfLanes(block->m),
            {_mm_or_si128(q.low, FifthBits::Of(bits, 0)),
             _mm_or_si128(q.high, FifthBits::Of(bits, 2))}};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    DecodeQ4_1::Pair<kPair>(state, a, b);
  }
};

struct DecodeQ8_0 : BlockDecoder<Lanes, BlockQ8_0, 32> {
  struct State {
    V d;
    const std::int8_t* qs;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {Bytes::HalfLanes(block->d), block->qs};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    *a = Lanes::Mul(Bytes::Signed(Bytes::Load16(state.qs)), state.d);
    *b = Lanes::Mul(Bytes::Signed(Bytes::Load16(state.qs + 16)), state.d);
  }
};

using KBits = BlockBits<Bytes>;

// d * scale of the 8 parts of a q4_K or q5_K block, and -(dmin * minimum).
struct PartScales {
  __m256 scales;
  __m256 minima;
  static KVD_ALWAYS_INLINE PartScales Of(std::uint16_t d, std::uint16_t dmin,
                                         const std::uint8_t* scales) {
    const __m128i bytes = KBits::PartScales(scales);
    const __m256 negative_dmin = _mm256_xor_ps(Bytes::HalfEverywhere(dmin), _mm256_set1_ps(-0.0f));
    return {_mm256_mul_ps(Bytes::Signed8(bytes), Bytes::HalfEverywhere(d)),
            _mm256_mul_ps(Bytes::Signed8(_mm_srli_si128(bytes, 8)), negative_dmin)};
  }
};

struct DecodeQ4_K : BlockDecoder<Lanes, BlockQ4_K, 256> {
  struct State {
    PartScales parts;
    const BlockQ4_K* block;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {PartScales::Of(block->d, block->dmin, block->scales), block};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    const V scale = Bytes::Lane(state.parts.scales, kPair);
    const V minimum = Bytes::Lane(state.parts.minima, kPair);
    const std::uint8_t* qs = state.block->qs + kPair / 2 * 32;
    const Nibbles q0 = Nibbles::Of(qs), q1 = Nibbles::Of(qs + 16);
    *a = Lanes::Fma(Bytes::Signed(kPair % 2 == 0 ? q0.low : q0.high), scale, minimum);
    *b = Lanes::Fma(Bytes::Signed(kPair % 2 == 0 ? q1.low : q1.high), scale, minimum);
  }
};

struct DecodeQ5_K : BlockDecoder<Lanes, BlockQ5_K, 256> {
  struct State {
    PartScales parts;
    const BlockQ5_K* block;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {PartScales::Of(block->d, block->dmin, block->scales), block};
  }
  // Bit kPair of each byte, moved to bit 4.
  template <int kPair>
  static KVD_ALWAYS_INLINE __m128i Fifth(__m128i qh) {
    const __m128i moved = kPair < 4 ? _mm_slli_epi16(qh, kPair < 4 ? 4 - kPair : 0)
                                    : _mm_srli_epi16(qh, kPair < 4 ? 0 : kPair - 4);
    return _mm_and_si128(moved, _mm_set1_epi8(16));
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    const V scale = Bytes::Lane(state.parts.scales, kPair);
    const V minimum = Bytes::Lane(state.parts.minima, kPair);
    const std::uint8_t* qs = state.block->qs + kPair / 2 * 32;
    const Nibbles q0 = Nibbles::Of(qs), q1 = Nibbles::Of(qs + 16);
    const __m128i h0 = Fifth<kPair>(Bytes::Load16(state.block->qh));
    const __m128i h1 = Fifth<kPair>(Bytes::Load16(state.block->qh + 16));
    const __m128i a8 = _mm_or_si128(kPair % 2 == 0 ? q0.low : q0.high, h0);
    const __m128i b8 = _mm_or_si128(kPair % 2 == 0 ? q1.low : q1.high, h1);
    *a = Lanes::Fma(Bytes::Signed(a8), scale, minimum);
    *b = Lanes::Fma(Bytes::Signed(b8), scale, minimum);
  }
};

struct DecodeQ6_K : BlockDecoder<Lanes, BlockQ6_K, 256> {
  struct State {
    V scales;  // d * scale of the 16 half parts
    const BlockQ6_K* block;
  };
  static KVD_ALWAYS_INLINE State Open(const std::uint8_t* from) {
    const auto* block = At(from);
    return {Lanes::Mul(Bytes::Signed(Bytes::Load16(block->scales)), Bytes::HalfLanes(block->d)),
            block};
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE void Pair(const State& state, V* a, V* b) {
    const __m256i q = KBits::Six<kPair>(*state.block);
    const __m256 scales = kPair < 4 ? state.scales.low : state.scales.high;
    *a = Lanes::Mul(Bytes::Signed(_mm256_castsi256_si128(q)), Bytes::Lane(scales, 2 * kPair % 8));
    *b = Lanes::Mul(Bytes::Signed(_mm256_extracti128_si256(q, 1)),
                    Bytes::Lane(scales, 2 * kPair % 8 + 1));
  }
};

// The types by which kernels/lanes/dispatch.h selects a decoder.
struct Isa {
  using Lanes = avx2::Lanes;
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

}  // namespace kvd::kernels::avx2
