// EvictionOrder: which retained sequence is worth least, kept in order while they are used and
// change.
//
// A sequence is worth the tokens that would have to be computed again without it, rounded down to a
// power of two, divided by how many uses of others lie since its own last one. That changes with
// every use, for all of them; but of sequences with the same power of two the one that was used
// last is always worth most. So there is a list by last use for each power, and the least of all is
// the first of one of the lists.
//
// Owner: a memory, under its mutex; not thread-safe. Costs: O(log n) for Put and Erase, a look at
// 33 lists for Least.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace kvd {

class EvictionOrder {
 public:
  explicit EvictionOrder(std::uint32_t sequence_capacity) : entries_(sequence_capacity) {}

  struct Sequence {
    std::uint64_t last_use = 0;  // number of the use
    std::uint64_t created = 0;   // of two that are worth the same the older one goes first
    std::uint32_t tokens = 0;    // that nothing else holds
    friend bool operator==(const Sequence&, const Sequence&) = default;
  };
  // Also if it is in the order already. REQUIRES: index < sequence_capacity.
  void Put(std::uint32_t index, const Sequence& sequence);
  void Erase(std::uint32_t index);  // none there: nothing
  void Clear();
  bool contains(std::uint32_t index) const { return entries_[index].has_value(); }
  std::size_t size() const { return size_; }

  // The index of the one that is worth least after that many uses; nullopt: there is none.
  std::optional<std::uint32_t> Least(std::uint64_t use_number) const;

  // The rounded worth, for Least and for whoever checks it.
  static double WorthOf(const Sequence& sequence, std::uint64_t use_number);

 private:
  struct Place {
    std::uint64_t last_use = 0;
    std::uint64_t created = 0;
    std::uint32_t index = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::set<Place>& ListOf(std::uint32_t tokens);

  std::array<std::set<Place>, 33> lists_;         // by the power of two
  std::vector<std::optional<Sequence>> entries_;  // by index
  std::size_t size_ = 0;
};

}  // namespace kvd
