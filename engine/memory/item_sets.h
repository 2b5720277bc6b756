// Sets of numbered items (blocks, slots): which are free, which have readers, and who owns them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/memory/owner.h"

namespace kvd {

// FreeSet: tracks which numbers of [0, capacity) are free; the lowest free number is taken first. A
// memory uses FreeSets for blocks, sequence records, snapshot records and session records.
//
// FreeSet is not thread-safe. Invariant: no free number is below 64 * hint_.
class FreeSet {
 public:
  FreeSet() = default;
  // Makes a set in which all numbers are free.
  explicit FreeSet(std::uint32_t capacity)
      : words_((std::size_t{capacity} + 63) / 64, ~0ull),
        capacity_(capacity),
        free_count_(capacity) {
    if (capacity % 64 != 0) words_.back() = (1ull << (capacity % 64)) - 1;
  }

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t free_count() const { return free_count_; }
  bool is_free(std::uint32_t number) const {
    return (words_[number / 64] >> (number % 64) & 1) != 0;
  }

  // Takes the lowest free number; nullopt: no number is free.
  std::optional<std::uint32_t> TakeLowest() {
    if (free_count_ == 0) return std::nullopt;
    while (words_[hint_] == 0) ++hint_;
    const auto number = static_cast<std::uint32_t>(
        hint_ * 64 + static_cast<unsigned>(std::countr_zero(words_[hint_])));
    words_[hint_] &= words_[hint_] - 1;
    --free_count_;
    return number;
  }
  // REQUIRES: is_free(number).
  void Take(std::uint32_t number) {
    KVD_ASSERT(number < capacity_ && is_free(number));
    words_[number / 64] &= ~(1ull << (number % 64));
    --free_count_;
  }
  // REQUIRES: !is_free(number).
  void Give(std::uint32_t number) {
    KVD_ASSERT(number < capacity_ && !is_free(number));
    words_[number / 64] |= 1ull << (number % 64);
    ++free_count_;
    if (number / 64 < hint_) hint_ = number / 64;
  }

  friend bool operator==(const FreeSet& a, const FreeSet& b) {
    return a.capacity_ == b.capacity_ && a.words_ == b.words_;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t hint_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t free_count_ = 0;
};

// LeftItems: tracks which numbered items (blocks, slots) have readers (a save, an export). An item
// is called left if its readers are the only remaining references to it. A left item counts for the
// first owner that one of its readers named, until its last reader ends. An owner therefore cannot
// lower its counted use by dropping a sequence while the sequence is being saved.
//
// LeftItems is not thread-safe. Beginning and ending a reader costs O(1); a left item also costs a
// search among the owners of left items.
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

// OwnedItems: records which owners refer to which numbered items, and how many items each owner
// refers to. Repeated references of one owner to one item are counted, but the item counts once for
// the owner.
//
// Most items have one owner. Further owners of an item are in a chain of nodes. The contents are
// derived from committed records. OwnedItems is not thread-safe.
class OwnedItems {
 public:
  OwnedItems() = default;
  explicit OwnedItems(std::uint32_t item_count) : items_(item_count), nodes_(1) {}

  // REQUIRES: item < item_count, times > 0.
  void Add(std::uint32_t item, OwnerId owner, std::uint32_t times = 1) {
    Reference& first = items_[item];
    if (first.owner == owner) {
      first.count += times;
    } else {
      AddSlow(item, owner, times);
    }
  }
  // REQUIRES: the reference was added.
  void Drop(std::uint32_t item, OwnerId owner) {
    Reference& first = items_[item];
    if (first.owner == owner && first.count > 1) {
      --first.count;
    } else {
      DropSlow(item, owner);
    }
  }
  bool Refers(std::uint32_t item, OwnerId owner) const { return Find(item, owner) != nullptr; }
  // The item's only owner; kNoOwner: the item has several owners or none.
  OwnerId SoleOf(std::uint32_t item) const {
    return items_[item].chain == 0 ? items_[item].owner : kNoOwner;
  }
  // Appends all owners of the item, sorted. REQUIRES: `owners` is empty.
  void ListOwners(std::uint32_t item, std::vector<OwnerId>* owners) const;
  // Drops all references to the item. REQUIRES: the item has one owner.
  void Clear(std::uint32_t item);
  // The number of items that the owner refers to.
  std::uint64_t CountOf(OwnerId owner) const;

  friend bool operator==(const OwnedItems& a, const OwnedItems& b);

 private:
  struct Reference {
    OwnerId owner = kNoOwner;
    std::uint32_t count = 0;
    std::uint32_t chain = 0;  // the item's next reference, an index into nodes_; 0: none
  };

  void AddSlow(std::uint32_t item, OwnerId owner, std::uint32_t times);
  void DropSlow(std::uint32_t item, OwnerId owner);
  const Reference* Find(std::uint32_t item, OwnerId owner) const;

  std::vector<Reference> items_;  // by item: the reference of its first owner
  std::vector<Reference> nodes_;  // [0] is unused
  std::vector<std::uint32_t> free_nodes_;
  std::map<OwnerId, std::uint64_t> counts_;  // no count is 0
};

}  // namespace kvd
