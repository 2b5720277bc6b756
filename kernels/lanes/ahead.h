// The weights of the next panel, asked for little by little while products with this one are computed:
// memory and arithmetic then work at the same time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

class Ahead {
 public:
  // `bytes` from `from` on, in `step_count` steps, if there are any. They need not exist.
  KVD_ALWAYS_INLINE Ahead(const void* from, std::size_t bytes, std::size_t step_count)
      : at_(static_cast<const std::uint8_t*>(from)),
        lines_left_((bytes + 63) / 64),
        lines_at_once_(step_count == 0 ? 0 : (lines_left_ + step_count - 1) / step_count) {}

  KVD_ALWAYS_INLINE void Step() {
    if (lines_left_ < lines_at_once_) return;
    lines_left_ -= lines_at_once_;
    for (std::size_t line = 0; line < lines_at_once_; ++line, at_ += 64) {
      __builtin_prefetch(at_, 0, 2);  // to the second-level cache
    }
  }

 private:
  const std::uint8_t* at_;
  std::size_t lines_left_;
  std::size_t lines_at_once_;
};

}  // namespace kvd::kernels
