// ListArena: tracks which units of the list arena are free. The free units are derived from the
// list roots of all live records.
//
// Allocation is best fit: Allocate takes the smallest run of free units that is long enough, and
// the lowest such run among runs of equal length. Freed runs are merged with their neighbours.
// ListArena is not thread-safe. Invariant: free runs are not empty and not adjacent, so two arenas
// with the same free units are equal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace kvd {

class ListArena {
 public:
  ListArena() = default;
  // Makes an arena of unit_count units, all of which are free.
  explicit ListArena(std::uint32_t unit_count);

  std::uint32_t unit_count() const { return unit_count_; }
  std::uint32_t free_units() const { return free_units_; }
  std::uint32_t largest_run() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }

  // Takes `units` (> 0) consecutive units and returns the first one; nullopt: no free run is that
  // long.
  std::optional<std::uint32_t> Allocate(std::uint32_t units);
  // Takes exactly the units [first, first + units). Returns false and changes nothing if one of the
  // units is not free.
  bool Take(std::uint32_t first, std::uint32_t units);
  // REQUIRES: the units are taken.
  void Free(std::uint32_t first, std::uint32_t units);

  friend bool operator==(const ListArena& a, const ListArena& b) {
    return a.unit_count_ == b.unit_count_ && a.by_start_ == b.by_start_;
  }

 private:
  using Runs = std::map<std::uint32_t, std::uint32_t>;

  void Insert(std::uint32_t first, std::uint32_t units);
  void Erase(Runs::iterator run);

  Runs by_start_;                                                // start -> length
  std::set<std::pair<std::uint32_t, std::uint32_t>> by_length_;  // (length, start)
  std::uint32_t unit_count_ = 0;
  std::uint32_t free_units_ = 0;
};

}  // namespace kvd
