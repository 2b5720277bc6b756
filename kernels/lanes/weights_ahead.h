// Prefetching the weights of products: of the next panel, and of products with few rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

// Ahead prefetches the weights of the next panel in small parts while products with the current
// panel are computed, so that memory and arithmetic work at the same time.
class Ahead {
 public:
  // Prefetches `bytes` from `from` during the last of `step_count` steps. Cache lines that are
  // loaded before the last step would be evicted from the cache before their use. The addresses may
  // be outside of any mapping, because a prefetch does not fault.
  KVD_ALWAYS_INLINE Ahead(const void* from, std::size_t bytes, std::size_t step_count)
      : at_(static_cast<const std::uint8_t*>(from)) {
    const std::size_t lines = (bytes + 63) / 64;
    if (lines == 0 || step_count == 0) return;
    lines_at_once_ = (lines + step_count - 1) / step_count;
    steps_before_ = step_count - (lines + lines_at_once_ - 1) / lines_at_once_;
  }

  KVD_ALWAYS_INLINE void Step() {
    if (steps_before_ != 0) {
      --steps_before_;
      return;
    }
    for (std::size_t line = 0; line < lines_at_once_; ++line, at_ += 64) {
      __builtin_prefetch(at_, 0, 2);  // to the second-level cache
    }
  }

 private:
  const std::uint8_t* at_;
  std::size_t steps_before_ = 0;
  std::size_t lines_at_once_ = 0;
};

// WeightsAhead prefetches the weights of a product with few rows in the order in which they are
// stored, while the product reads several weight rows at a time.
//
// Each cache line is requested twice: from memory into the second-level cache, and a little before
// its use into the first-level cache. The first-level cache of a core waits for about 24 lines at a
// time, so requests from memory into the first-level cache read at most 24 lines per latency of the
// memory; the second-level cache waits for more lines. A request into the second-level cache does
// nothing on Zen 4 if the translation of its page is not cached, so the first line of each page is
// requested into the first-level cache, which loads the translation. Memory serves one stream
// faster than several, so the lines are requested in stored order (docs/decisions/0014).
class WeightsAhead {
 public:
  // first: the first byte of weights that the product reads. row_bytes: the bytes of a weight row,
  // of which the product reads row_count at a time. far_bytes: the distance of requests from
  // memory, beyond those rows; 0: kFarBytes. Until the lines of the whole distance are
  // requested, two lines are requested for each line that the product reads. Lines after the end of
  // the weights are requested too; such requests are useless and harmless, since a prefetch cannot
  // fault.
  KVD_ALWAYS_INLINE WeightsAhead(const std::uint8_t* first, std::size_t row_bytes,
                                 std::size_t row_count, std::size_t far_bytes)
      : next_(first) {
    // While the first row of a group of rows is read at its start, the last row is, too.
    const std::size_t span = Least((row_count - 1) * row_bytes, kSpanBytesMax);
    near_bytes_ = Least(span + kNearBytes, kNearBytesMax);
    lead_bytes_ = span + (far_bytes == 0 ? kFarBytes : far_bytes) - near_bytes_;
    wanted_ = first + near_bytes_;
  }

  // The product reads the weights from `at` on next. Corrects what Advance has counted too much or
  // too little.
  KVD_ALWAYS_INLINE void MoveTo(const std::uint8_t* at) { wanted_ = at + near_bytes_; }
  // Requests the lines for the next `bytes` bytes of weights.
  KVD_ALWAYS_INLINE void Advance(std::size_t bytes) {
    wanted_ += bytes;
    for (; next_ < wanted_; next_ += kLineBytes) {
      __builtin_prefetch(next_, 0, 3);
      FromMemory(next_ + lead_);
      if (lead_ < lead_bytes_) {
        lead_ += kLineBytes;
        FromMemory(next_ + lead_);
      }
    }
  }

 private:
  static constexpr std::size_t kLineBytes = 64, kPageBytes = 4096;
  static constexpr std::size_t kNearBytes = 4096, kFarBytes = 16384;
  static constexpr std::size_t kNearBytesMax = 16384;   // half of a first-level cache
  static constexpr std::size_t kSpanBytesMax = 131072;  // far less than a second-level cache

  static KVD_ALWAYS_INLINE std::size_t Least(std::size_t a, std::size_t b) { return a < b ? a : b; }
  static KVD_ALWAYS_INLINE void FromMemory(const std::uint8_t* line) {
    if (reinterpret_cast<std::uintptr_t>(line) % kPageBytes < kLineBytes) {
      __builtin_prefetch(line, 0, 3);
    } else {
      __builtin_prefetch(line, 0, 2);
    }
  }

  const std::uint8_t* next_;    // the next line to request into the first-level cache
  const std::uint8_t* wanted_;  // the end of the lines that are due
  std::size_t near_bytes_;      // from the reads to wanted_
  std::size_t lead_bytes_;      // from next_ to the next line to request from memory, in the end
  std::size_t lead_ = 0;        // the same now
};

}  // namespace kvd::kernels
