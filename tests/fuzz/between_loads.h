// BetweenLoads: simulates a peer that writes to a segment while a function reads it. A write
// happens immediately before the n-th load that the function makes from the segment.
//
// A file compiled with -fsanitize-coverage=trace-loads calls a hook before each load, and the hook
// makes the changes that are due. If a function reads a number twice, once to check it and once to
// use it, an input therefore reproduces the failure without a second thread and without a race.
// memcpy does not call the hook: the bytes that it copies change only before or after the copy.
//
// At most one object exists at a time; it is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvd::test {

class BetweenLoads {
 public:
  enum class Counts : std::uint8_t {
    kLoadsFromSegment,
    kEveryLoad,  // for code that maps the segment at another address
  };
  // `segment`: the bytes that the peer may write at any time.
  explicit BetweenLoads(std::span<std::byte> segment, Counts counts = Counts::kLoadsFromSegment);
  BetweenLoads(const BetweenLoads&) = delete;
  BetweenLoads& operator=(const BetweenLoads&) = delete;
  ~BetweenLoads();

  // Stores `value` at `offset` after `loads` more loads, immediately before the next one. `offset`
  // is rounded down to a multiple of 8. REQUIRES: the rounded offset + 8 <= segment.size().
  void Store(std::uint32_t loads, std::size_t offset, std::uint64_t value);

  void OnLoad(const void* address);

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  struct PendingChange {
    std::uint64_t load;
    std::uint64_t* place;
    std::uint64_t value;
  };

  void Change();

  const std::span<std::byte> segment_;
  const Counts counts_;
  std::uint64_t loads_ = 0;
  std::uint64_t next_change_ = kNever;  // the smallest `load` of changes_
  std::vector<PendingChange> changes_;
};

}  // namespace kvd::test
