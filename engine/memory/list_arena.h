// ListArena: which units of the list region are free. Derived: rebuilt from the roots of all live
// records.
//
// Best fit (the smallest run that is long enough, lowest first), neighbours joined when freed. Not
// thread-safe. Invariant: free runs are not empty and do not touch each other, so equal sets of
// free units are equal arenas.
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
  // All free.
  explicit ListArena(std::uint32_t unit_count);

  std::uint32_t unit_count() const { return unit_count_; }
  std::uint32_t free_units() const { return free_units_; }
  std::uint32_t largest_run() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }

  // The first of `units` (> 0) units that are now taken; nullopt if no free run is that long.
  std::optional<std::uint32_t> Allocate(std::uint32_t units);
  // Takes [first, first + units) exactly; false, changing nothing, if one of them is not free.
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
