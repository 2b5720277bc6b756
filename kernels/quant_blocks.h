// The bytes of one block of each quantised weight type, as a GGUF file holds them.
//
// Layouts are those of ggml (block_q4_0 ... block_q6_K in ggml/src/ggml-common.h of llama.cpp),
// fields little-endian and unpadded, so a block may lie at any address. `f16` below is the bit
// pattern of an IEEE 754 half.
//
// The value of an element is given with each block. d * scale * q has at most 24 significant bits
// for every type, so each element is the exact value rounded to f32 at most once, in whatever order
// an instruction set forms the product.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::kernels {

// Element j < 16 is the low half of qs[j], element 16 + j the high half: d * (q - 8).
struct [[gnu::packed]] BlockQ4_0 {
  std::uint16_t d;  // f16
  std::uint8_t qs[16];
};

// As q4_0, but d * q + m.
struct [[gnu::packed]] BlockQ4_1 {
  std::uint16_t d;  // f16
  std::uint16_t m;  // f16
  std::uint8_t qs[16];
};

// As q4_0 with bit j of qh as the fifth bit of element j: d * (q - 16).
struct [[gnu::packed]] BlockQ5_0 {
  std::uint16_t d;  // f16
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// As q5_0, but d * q + m.
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

// 256 elements in 8 parts of 32. Part s has a 6-bit scale and a 6-bit minimum: for s < 4 the low
// bits of scales[s] and scales[4 + s]; for s >= 4 the low and high half of scales[4 + s], with the
// top 2 bits of scales[s - 4] and scales[s] above them. Element j of part s is half (s & 1) of
// qs[(s / 2) * 32 + j]: (d * scale) * q - (dmin * minimum).
struct [[gnu::packed]] BlockQ4_K {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};

// As q4_K with bit s of qh[j] as the fifth bit of element j of part s.
struct [[gnu::packed]] BlockQ5_K {
  std::uint16_t d;     // f16
  std::uint16_t dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};

// 256 elements in 8 parts of 32; part p = 4 * h + s lies in half h. Element j of it has its low 4
// bits in half (s >> 1) of ql[64 * h + 32 * (s & 1) + j] and its high 2 bits at bit 2 * s of qh[32
// * h + j]: (d * scales[2 * p + j / 16]) * (q - 32).
struct [[gnu::packed]] BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};

static_assert(sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && offsetof(BlockQ6_K, d) == 208);

}  // namespace kvd::kernels
