// CellsAhead: prefetches the keys and values that are read next, part by part.
//
// A core can have about two dozen cache lines in flight and drops prefetches beyond that number.
// The keys and values of a run of cells are therefore prefetched in parts, between the kernels of
// the previous run.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "kernels/kernel_table.h"

namespace kvd {

class CellsAhead {
 public:
  void Clear() { next_ = count_ = byte_count_ = 0; }

  // Adds bytes to be read after the bytes that earlier calls of Put added. REQUIRES: at most 2 *
  // kRunCells calls of Put after a Clear.
  void Put(const std::byte* rows, std::size_t byte_count) {
    ranges_[count_++] = {rows, byte_count};
    byte_count_ += byte_count;
  }

  // Prefetches 1 / `parts` of the remaining bytes.
  void Ask(std::size_t parts) {
    std::size_t byte_count = byte_count_ / parts;
    byte_count_ -= byte_count;
    while (byte_count != 0) {
      std::span<const std::byte>& rows = ranges_[next_];
      const std::size_t take = std::min(byte_count, rows.size());
      for (std::size_t at = 0; at < take; at += kLineBytes) __builtin_prefetch(rows.data() + at);
      rows = rows.subspan(take);
      byte_count -= take;
      if (rows.empty()) ++next_;
    }
  }

 private:
  static constexpr std::size_t kLineBytes = 64;

  std::array<std::span<const std::byte>, 2 * kernels::kRunCells> ranges_;
  std::size_t next_ = 0, count_ = 0;
  std::size_t byte_count_ = 0;  // bytes of the ranges from next_ on
};

}  // namespace kvd
