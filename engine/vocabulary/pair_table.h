// PairTable maps pairs of 32-bit numbers to values, in an open-addressed hash table of fixed size.
//
// The table is at most half full, so that searches are short. Several threads may search a table
// that does not change.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvd {

// A default Value means that a pair has none.
template <class Value>
class PairTable {
 public:
  explicit PairTable(std::size_t pair_count_max)
      : slots_(std::bit_ceil(2 * pair_count_max + 2)),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // Keeps the existing value if the pair has one. REQUIRES: fewer than `pair_count_max` pairs have
  // been added; `left` and `right` are not both -1.
  void Add(std::int32_t left, std::int32_t right, Value value) {
    const std::uint64_t pair = PairOf(left, right);
    Slot& slot = slots_[SlotOf(pair)];
    if (slot.pair == kEmpty) slot = {pair, value};
  }

  // Brings the place of the pair into the cache: a following Add or Find waits less.
  void Prefetch(std::int32_t left, std::int32_t right) const {
    __builtin_prefetch(&slots_[FirstSlotOf(PairOf(left, right))]);
  }

  Value Find(std::int32_t left, std::int32_t right) const {
    return slots_[SlotOf(PairOf(left, right))].value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = kEmpty;
    Value value;
  };

  static std::uint64_t PairOf(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  std::size_t FirstSlotOf(std::uint64_t pair) const {
    return (pair * 0x9e3779b97f4a7c15u) >> shift_;
  }
  std::size_t SlotOf(std::uint64_t pair) const {
    std::size_t slot = FirstSlotOf(pair);
    while (slots_[slot].pair != pair && slots_[slot].pair != kEmpty)
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace kvd
