// Four weight rows that are read together, with substitutes for rows after the last one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/lanes/static_for.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels {

struct NoState {};

// Whether a type has a minimum for each half of a block (q2_K). Such a type declares HalfMinimums.
template <class Q>
inline constexpr bool kHasHalfMinimums = requires { typename Q::HalfMinimums; };

struct WeightRows {
  const std::uint8_t* at[4];  // the position of each row at the current step

  // Rows out, out + apart, ...; a row >= last_out is replaced by row last_out - 1.
  static KVD_ALWAYS_INLINE WeightRows Of(const void* weights, std::size_t row_bytes,
                                         std::size_t out, std::size_t last_out,
                                         std::size_t apart = 1) {
    WeightRows rows;
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const std::size_t wanted = out + apart * o.value;
      rows.at[o.value] = static_cast<const std::uint8_t*>(weights) +
                         (wanted < last_out ? wanted : last_out - 1) * row_bytes;
    });
    return rows;
  }
  KVD_ALWAYS_INLINE void Advance(std::size_t bytes) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA { at[o.value] += bytes; });
  }
  // Copies the remaining `bytes` of each row to `to`, appends zeros, and makes the row pointers
  // refer to the copies.
  template <std::size_t kStepBytes>
  KVD_ALWAYS_INLINE void Pad(std::size_t bytes, std::uint8_t (*to)[kStepBytes]) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      __builtin_memset(to[o.value], 0, kStepBytes);
      __builtin_memcpy(to[o.value], at[o.value], bytes);
      at[o.value] = to[o.value];
    });
  }
};

// Bytes of a weight row of n elements for the type that Q reads.
template <class Q>
KVD_ALWAYS_INLINE std::size_t QuadRowBytes(std::size_t n) {
  const std::size_t block_count = n / kQuantizedBlock;
  if constexpr (Q::kGroups == 1) return block_count * (Q::kBytes / 4);
  return block_count / (4 * Q::kGroups) * Q::kBytes;
}

// What a tile of a product needs to know about a weight type whose elements a panel has already
// unpacked. Weight types of the same form share the code of their tiles, which takes most of the
// time of compiling products of many rows.

// The constants are those of a reader (quads.h of each set); with kHasHalfMinimumsOfForm, the type
// has a minimum for each half of a block.
template <int kOffsetOfForm, int kBitsOfForm, bool kSignedForm, bool kMinimumsOfForm,
          bool kHalvesOfForm, bool kHasHalfMinimumsOfForm>
struct PanelForm {
  static constexpr int kOffset = kOffsetOfForm, kBits = kBitsOfForm;
  static constexpr bool kSigned = kSignedForm, kMinimums = kMinimumsOfForm;
  static constexpr bool kHalves = kHalvesOfForm;
};

template <int kOffset, int kBits, bool kSigned, bool kMinimums, bool kHalves, bool kHasThem>
inline constexpr bool
    kHasHalfMinimums<PanelForm<kOffset, kBits, kSigned, kMinimums, kHalves, kHasThem>> = kHasThem;

}  // namespace kvd::kernels
