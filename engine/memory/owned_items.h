// OwnedItems: which owners refer to which of many numbered items, and to how many items each of them
// refers. References of one owner to one item are counted, and the item counts once.
//
// Most items have one owner. Further ones lie in chains of nodes. Derived; not thread-safe.
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
  // REQUIRES: that reference was added.
  void Drop(std::uint32_t item, OwnerId owner) {
    Reference& first = items_[item];
    if (first.owner == owner && first.count > 1) {
      --first.count;
    } else {
      DropSlow(item, owner);
    }
  }
  bool Refers(std::uint32_t item, OwnerId owner) const { return Find(item, owner) != nullptr; }
  // The item's only owner; kNoOwner: there are several, or none.
  OwnerId SoleOf(std::uint32_t item) const {
    return items_[item].chain == 0 ? items_[item].owner : kNoOwner;
  }
  // All of its owners, sorted.
  std::vector<OwnerId> OwnersOf(std::uint32_t item) const;
  // Drops all references to an item that has one owner.
  void Clear(std::uint32_t item);
  // Items that the owner refers to.
  std::uint64_t CountOf(OwnerId owner) const;

  friend bool operator==(const OwnedItems& a, const OwnedItems& b);

 private:
  struct Reference {
    OwnerId owner = kNoOwner;
    std::uint32_t count = 0;
    std::uint32_t chain = 0;  // the next one of the same item, in nodes_; 0: none
  };

  void AddSlow(std::uint32_t item, OwnerId owner, std::uint32_t times);
  void DropSlow(std::uint32_t item, OwnerId owner);
  const Reference* Find(std::uint32_t item, OwnerId owner) const;

  std::vector<Reference> items_;  // by item: its first owner
  std::vector<Reference> nodes_;  // [0] is none
  std::vector<std::uint32_t> free_nodes_;
  std::map<OwnerId, std::uint64_t> counts_;  // none that is 0
};

}  // namespace kvd
