// BetweenLoads: writes of a peer at exact places inside a function that reads shared memory: before
// the n-th load that it makes from the segment.
//
// A file compiled with -fsanitize-coverage=trace-loads calls a hook before each load, and the hook
// makes the changes that are due. So a number that is read twice, once to be checked and once to be
// used, is a finding that the input alone determines; no second thread has to win a race. memcpy
// is no load: what it copies changes only before or after it.
//
// One object at a time, one thread.
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
    kEveryLoad,  // for code that maps the segment at an address of its own
  };
  // `segment`: what the peer may write at any time.
  explicit BetweenLoads(std::span<std::byte> segment, Counts counts = Counts::kLoadsFromSegment);
  BetweenLoads(const BetweenLoads&) = delete;
  BetweenLoads& operator=(const BetweenLoads&) = delete;
  ~BetweenLoads();

  // Before the load that comes `loads` after now, `value` is stored at `offset`, which is rounded
  // down to a multiple of 8. REQUIRES: offset + 8 <= segment.size() after that.
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
  std::uint64_t next_change_ = kNever;  // the first of changes_
  std::vector<PendingChange> changes_;
};

}  // namespace kvd::test
