// Ahead prefetches the weights of the next panel in small parts while products with the current
// panel are computed, so that memory and arithmetic work at the same time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

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

}  // namespace kvd::kernels
