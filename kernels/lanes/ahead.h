// The weights of the next panel, asked for little by little while products with this one are computed:
// memory and arithmetic then work at the same time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

class Ahead {
 public:
  // `bytes` from `from` on, in the last of `step_count` steps, if there are any: what came too early
  // would have left the cache again. They need not exist.
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
