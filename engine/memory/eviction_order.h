// EvictionOrder: finds the retained sequence that is worth least, while sequences are used and
// change.
//
// The worth of a sequence is the number of tokens that would have to be computed again without it,
// plus one and rounded down to a power of two, divided by one plus the number of uses of any
// sequence since its own last use. Every use of a sequence therefore changes the worth of all
// sequences. But of the sequences with the same power of two, the least recently used sequence is
// always worth least. EvictionOrder therefore has one list, ordered by last use, for each power of
// two, and the sequence that is worth least is the first entry of one of these lists.
//
// A memory owns the order and calls it under the memory's mutex; the order is not thread-safe. Put
// and Erase cost O(log n); Least compares the first entries of 33 lists.
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
    std::uint64_t last_use = 0;  // number of its last use
    // Of two sequences that are worth the same, the older one is evicted first.
    std::uint64_t created = 0;
    std::uint32_t tokens = 0;  // number of tokens that only this sequence holds
    friend bool operator==(const Sequence&, const Sequence&) = default;
  };
  // Adds a sequence or replaces its entry. REQUIRES: index < sequence_capacity.
  void Put(std::uint32_t index, const Sequence& sequence);
  void Erase(std::uint32_t index);  // no effect if the sequence has no entry
  void Clear();
  bool contains(std::uint32_t index) const { return entries_[index].has_value(); }
  std::size_t size() const { return size_; }

  // The index of the sequence that is worth least at use `use_number`; nullopt: there is none.
  std::optional<std::uint32_t> Least(std::uint64_t use_number) const;

  // The worth by which Least compares sequences; public for tests.
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
