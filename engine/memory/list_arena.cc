#include "engine/memory/list_arena.h"

#include "base/check.h"

namespace kvd {

ListArena::ListArena(std::uint32_t unit_count) : unit_count_(unit_count) {
  if (unit_count > 0) Insert(0, unit_count);
}

void ListArena::Insert(std::uint32_t first, std::uint32_t units) {
  by_start_.emplace(first, units);
  by_length_.emplace(units, first);
  free_units_ += units;
}

void ListArena::Erase(Runs::iterator run) {
  by_length_.erase({run->second, run->first});
  free_units_ -= run->second;
  by_start_.erase(run);
}

std::optional<std::uint32_t> ListArena::Allocate(std::uint32_t units) {
  KVD_ASSERT(units > 0);
  const auto fit = by_length_.lower_bound({units, 0});
  if (fit == by_length_.end()) return std::nullopt;
  const auto [length, first] = *fit;
  Erase(by_start_.find(first));
  if (length > units) Insert(first + units, length - units);
  return first;
}

bool ListArena::Take(std::uint32_t first, std::uint32_t units) {
  auto run = by_start_.upper_bound(first);
  if (units == 0 || run == by_start_.begin()) return false;
  --run;
  const auto [start, length] = *run;
  if (first - start > length || units > length - (first - start)) return false;
  Erase(run);
  if (first > start) Insert(start, first - start);
  if (first + units < start + length) Insert(first + units, start + length - first - units);
  return true;
}

void ListArena::Free(std::uint32_t first, std::uint32_t units) {
  KVD_ASSERT(units > 0 && first < unit_count_ && units <= unit_count_ - first);
  std::uint32_t start = first;
  std::uint32_t length = units;
  auto after = by_start_.lower_bound(first);
  KVD_ASSERT(after == by_start_.end() || after->first >= first + units);
  if (after != by_start_.end() && after->first == first + units) {
    length += after->second;
    Erase(after);
    after = by_start_.lower_bound(first);
  }
  if (after != by_start_.begin()) {
    const auto before = std::prev(after);
    KVD_ASSERT(before->first + before->second <= first);
    if (before->first + before->second == first) {
      start = before->first;
      length += before->second;
      Erase(before);
    }
  }
  Insert(start, length);
}

}  // namespace kvd
