// The bytes of one block of each quantised weight type, as stored in a GGUF file.
//
// The layouts are those of ggml (ggml/src/ggml-common.h of llama.cpp). Fields are little-endian and
// unpadded, so a block may have any address. `f16` below is the bit pattern of an IEEE 754 half.
//
// Each block's comment gives the value of an element. d * scale * q has at most 24 significant bits
// for every type, so each element is the exact value rounded to f32 at most once, independent of
// the order in which an instruction set forms the product.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::kernels {

// Element j < 16 is the low half of qs[j], element 16 + j the high half; the value of an element is
// d * (q - 8).
struct [[gnu::packed]] BlockQ4_0 {
  std::uint16_t d;  // f16
  std::uint8_t qs[16];
};

// The elements are stored as in q4_0; the value of an element is d * q + m.
struct [[gnu::packed]] BlockQ4_1 {
  std::uint16_t d;  // f16
  std::uint16_t m;  // f16
  std::uint8_t qs[16];
};

// The low four bits of the elements are stored as in q4_0, and bit j of qh is the fifth bit of
// element j; the value of an element is d * (q - 16).
struct [[gnu::packed]] BlockQ5_0 {
  std::uint16_t d;  // f16
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// The elements are stored as in q5_0; the value of an element is d * q + m.
struct [[gnu::packed]] BlockQ5_1 {
  std::uint16_t d;  // f16
  std::uint16_t m;  // f16
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// d * q.
struct [[gnu::packed]] BlockQ8_0 {
  std::uint16_t d;  // f16
  std::int8_t qs[32];
};

// 256 elements in 8 parts of 32. Part s has a 6-bit scale and a 6-bit minimum. For s < 4 they are
// the low bits of scales[s] and scales[4 + s]. For s >= 4 they are the low and the high half of
// scales[4 + s], with the top 2 bits of scales[s - 4] and scales[s] as bits 4 and 5. Element j of
// part s is half (s & 1) of qs[(s / 2) * 32 + j]: (d * scale) * q - (dmin * minimum).
struct [[gnu::packed]] BlockQ4_K {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};

// The block is like that of q4_K; in addition, bit s of qh[j] is the fifth bit of element j of part
// s.
struct [[gnu::packed]] BlockQ5_K {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};

// 256 elements in 8 parts of 32; part p = 4 * h + s is in half h. Element j of part p has its low 4
// bits in half (s >> 1) of ql[64 * h + 32 * (s & 1) + j] and its high 2 bits at bit 2 * s of qh[32
// * h + j]: (d * scales[2 * p + j / 16]) * (q - 32).
struct [[gnu::packed]] BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};

// 256 elements in 8 parts of 32, each of two halves of 16. Byte 2 * p + j / 16 of scales has the
// scale of that half part in its low 4 bits and the minimum in its high 4 bits. Element j of part p
// = 4 * h + s is at bit 2 * s of qs[32 * h + j]: (d * scale) * q - (dmin * minimum).
struct [[gnu::packed]] BlockQ2_K {
  std::uint8_t scales[16];
  std::uint8_t qs[64];
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
};

// The block is like that of q2_K without minimums; in addition, bit p of hmask[j] is the third bit
// of element j of part p. The half part i = 2 * p + j / 16 has a scale of 6 bits: its low 4 are
// half i / 8 of scales[i % 8], its high 2 are at bit 2 * (i / 4) of scales[8 + i % 4]: (d * (scale
// - 32)) * (q - 4).
struct [[gnu::packed]] BlockQ3_K {
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];
  std::uint16_t d;  // f16
};

// The integers that a nibble of iq4_nl and iq4_xs stands for.
inline constexpr std::int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

// The elements are stored as in q4_0; the value of an element is d * kIQ4Values[q].
struct [[gnu::packed]] BlockIQ4_NL {
  std::uint16_t d;  // f16
  std::uint8_t qs[16];
};

// 256 elements in 8 parts of 32. Part p has a scale of 6 bits: its low 4 are half p % 2 of
// scales_l[p / 2], its high 2 are at bit 2 * p of scales_h. Element j < 16 of part p is the low
// half of qs[16 * p + j], element 16 + j the high half: (d * (scale - 32)) * kIQ4Values[q].
struct [[gnu::packed]] BlockIQ4_XS {
  std::uint16_t d;  // f16
  std::uint16_t scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];
};

// Twice the numbers of the format E2M1 (OCP Microscaling Formats), so that they are integers.
inline constexpr std::int8_t kMXFP4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                 0, -1, -2, -3, -4, -6, -8, -12};

// The elements are stored as in q4_0; the value of an element is 2^(e - 128) * kMXFP4Values[q].
// Every e stands for a finite number, as in ggml.
struct [[gnu::packed]] BlockMXFP4 {
  std::uint8_t e;
  std::uint8_t qs[16];
};

// The types below look up points of 8 or 4 magnitudes in a grid (kernels/quant_grids.h). A block
// has 256 elements in 8 parts of 32. A scale s of 4 bits stands for the factor d * (2 * s + 1) / 8
// of the iq2 types, d * (2 * s + 1) / 4 of iq3_xxs and d * (2 * s + 1) of iq3_s. Bit i of a byte of
// signs is the sign of element i of eight elements. If only 7 signs are stored, the eighth sign is
// the bit that makes the number of ones even.

// Part p has 8 bytes of qs: the indices of four points, then a word with four times 7 signs in its
// low bits and s in its high 4 bits.
struct [[gnu::packed]] BlockIQ2_XXS {
  std::uint16_t d;  // f16
  std::uint8_t qs[64];
};

// Each of qs has the index of a point in its low 9 bits and 7 signs above. The low half of
// scales[p] is the scale s of elements 0..15 of part p, the high half the scale s of elements
// 16..31.
struct [[gnu::packed]] BlockIQ2_XS {
  std::uint16_t d;  // f16
  std::uint16_t qs[32];
  std::uint8_t scales[8];
};

// Point i of part p has index qs[4 * p + i], with bits 2 * i and 2 * i + 1 of qh[p] as bits 8 and
// 9. The scales are stored as in iq2_xs.
struct [[gnu::packed]] BlockIQ2_S {
  std::uint16_t d;  // f16
  std::uint8_t qs[32];
  std::uint8_t signs[32];
  std::uint8_t qh[8];
  std::uint8_t scales[8];
};

// Part p has the indices of eight points of 4 magnitudes in qs. Bytes 4 * p to 4 * p + 3 of signs
// are a word as in iq2_xxs.
struct [[gnu::packed]] BlockIQ3_XXS {
  std::uint16_t d;  // f16
  std::uint8_t qs[64];
  std::uint8_t signs[32];
};

// Point i of part p has index qs[8 * p + i] with bit i of qh[p] as bit 8. Half p % 2 of scales[p /
// 2] is the s of part p.
struct [[gnu::packed]] BlockIQ3_S {
  std::uint16_t d;  // f16
  std::uint8_t qs[64];
  std::uint8_t qh[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];
};

static_assert(sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockQ2_K) == 84 && offsetof(BlockQ2_K, d) == 80);
static_assert(sizeof(BlockQ3_K) == 110 && offsetof(BlockQ3_K, d) == 108);
static_assert(sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && offsetof(BlockQ6_K, d) == 208);
static_assert(sizeof(BlockIQ2_XXS) == 66);
static_assert(sizeof(BlockIQ2_XS) == 74);
static_assert(sizeof(BlockIQ2_S) == 82);
static_assert(sizeof(BlockIQ3_XXS) == 98);
static_assert(sizeof(BlockIQ3_S) == 110);
static_assert(sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockIQ4_XS) == 136);
static_assert(sizeof(BlockMXFP4) == 17);

}  // namespace kvd::kernels
