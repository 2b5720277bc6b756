// OwnedItems: records which owners refer to which numbered items, and how many items each owner
// refers to. Repeated references of one owner to one item are counted, but the item counts once for
// the owner.
//
// Most items have one owner. Further owners of an item are in a chain of nodes. The contents are
// derived from committed records. OwnedItems is not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/memory/owner.h"

namespace kvd {

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
