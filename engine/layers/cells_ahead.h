// CellsAhead: keys and values that are read next, asked for part by part.
//
// A core has some two dozen lines under way and drops what is asked for beyond them, so what a run
// of attention reads is asked for between the kernels of the run before it.
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

  // Bytes that are read next, behind those put before. Twice kRunCells at most.
  void Put(const std::byte* rows, std::size_t byte_count) {
    ranges_[count_++] = {rows, byte_count};
    byte_count_ += byte_count;
  }

  // Asks for one of the `parts` that what is left is cut into.
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
  std::size_t byte_count_ = 0;  // of the ranges from next_ on
};

}  // namespace kvd
