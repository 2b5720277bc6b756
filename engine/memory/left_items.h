// LeftItems: tracks which numbered items (blocks, slots) have readers (a save, an export). An item
// is called left if its readers are the only remaining references to it. A left item counts for the
// first owner that one of its readers named, until its last reader ends. An owner therefore cannot
// lower its counted use by dropping a sequence while the sequence is being saved.
//
// LeftItems is not thread-safe. Beginning and ending a reader costs O(1); a left item also costs a
// search among the owners of left items.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/memory/owner.h"

namespace kvd {

class LeftItems {
 public:
  explicit LeftItems(std::uint32_t item_count) : items_(item_count) {}

  // Adds a reader. The first owner that a reader names becomes the item's owner; kNoOwner (a brief
  // reader): the reader names no owner. REQUIRES, for all functions: item < item_count.
  void BeginRead(std::uint32_t item, OwnerId owner) {
    Item& read = items_[item];
    ++read.readers;
    if (read.owner == kNoOwner) read.owner = owner;
  }
  // Ends one reader. Returns true if it was the item's last reader. REQUIRES: BeginRead was called
  // for this reader.
  bool EndRead(std::uint32_t item) {
    Item& read = items_[item];
    KVD_ASSERT(read.readers != 0);
    if (--read.readers != 0) return false;
    if (read.is_left) Uncount(read.owner);
    read = {};
    return true;
  }
  bool is_read(std::uint32_t item) const { return items_[item].readers != 0; }
  // Marks the item as left, if it has a reader that named an owner. REQUIRES: only readers refer to
  // the item, and no other reference is added until the last reader has ended.
  void Leave(std::uint32_t item) {
    Item& read = items_[item];
    if (read.readers == 0 || read.is_left || read.owner == kNoOwner) return;
    read.is_left = true;
    Count(read.owner);
  }

  std::uint64_t CountOf(OwnerId owner) const {
    if (counts_.empty()) return 0;
    const auto known = std::ranges::find(counts_, owner, &OwnerCount::first);
    return known == counts_.end() ? 0 : known->second;
  }
  // The number of left items of all owners.
  std::uint64_t count() const { return count_; }

 private:
  struct Item {
    OwnerId owner = kNoOwner;
    std::uint32_t readers = 0;
    bool is_left = false;
  };
  using OwnerCount = std::pair<OwnerId, std::uint64_t>;

  void Count(OwnerId owner) {
    ++count_;
    const auto known = std::ranges::find(counts_, owner, &OwnerCount::first);
    if (known == counts_.end()) {
      counts_.emplace_back(owner, 1);
    } else {
      ++known->second;
    }
  }
  void Uncount(OwnerId owner) {
    --count_;
    const auto known = std::ranges::find(counts_, owner, &OwnerCount::first);
    if (--known->second == 0) counts_.erase(known);
  }

  std::vector<Item> items_;
  std::vector<OwnerCount> counts_;  // no count is 0; in no order
  std::uint64_t count_ = 0;
};

}  // namespace kvd
