// Four weight rows that are read together, and rows past the last that exist.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/lanes/static_for.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels {

struct NoState {};

struct WeightRows {
  const std::uint8_t* at[4];  // each at the current step

  // Rows out, out + apart, ...; those from last_out on are copies of the one before it.
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
  // Copies the `bytes` that are left of each row to `to`, and points there: the rest is zeros.
  template <std::size_t kStepBytes>
  KVD_ALWAYS_INLINE void Pad(std::size_t bytes, std::uint8_t (*to)[kStepBytes]) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      __builtin_memset(to[o.value], 0, kStepBytes);
      __builtin_memcpy(to[o.value], at[o.value], bytes);
      at[o.value] = to[o.value];
    });
  }
};

// Bytes of a weight row of n elements, whose steps are Q::kBytes.
template <class Q>
KVD_ALWAYS_INLINE std::size_t QuadRowBytes(std::size_t n) {
  const std::size_t block_count = n / kQuantizedBlock;
  if constexpr (Q::kGroups == 1) return block_count * (Q::kBytes / 4);
  return block_count / (4 * Q::kGroups) * Q::kBytes;
}

}  // namespace kvd::kernels
