#include "engine/memory/item_sets.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvd {

const OwnedItems::Reference* OwnedItems::Find(std::uint32_t item, OwnerId owner) const {
  const Reference* at = &items_[item];
  while (at->owner != owner && at->chain != 0) at = &nodes_[at->chain];
  return at->owner == owner ? at : nullptr;
}

void OwnedItems::AddSlow(std::uint32_t item, OwnerId owner, std::uint32_t times) {
  if (auto* known = const_cast<Reference*>(Find(item, owner))) {
    known->count += times;
    return;
  }
  ++counts_[owner];
  if (items_[item].owner == kNoOwner) {
    items_[item] = {owner, times, 0};
    return;
  }
  std::uint32_t node = static_cast<std::uint32_t>(nodes_.size());
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
  } else {
    node = free_nodes_.back();
    free_nodes_.pop_back();
  }
  nodes_[node] = {owner, times, std::exchange(items_[item].chain, node)};
}

void OwnedItems::DropSlow(std::uint32_t item, OwnerId owner) {
  auto* const known = const_cast<Reference*>(Find(item, owner));
  KVD_ASSERT(known != nullptr && known->count != 0);
  if (--known->count != 0) return;
  const auto count = counts_.find(owner);
  if (--count->second == 0) counts_.erase(count);
  Reference& first = items_[item];
  if (known == &first && first.chain == 0) {
    first = {};
    return;
  }
  // If the dropped reference is the item's first one, the next node of the chain moves to its place
  // and is freed; otherwise the node of the dropped reference is freed.
  std::uint32_t freed = first.chain;
  if (known == &first) {
    first = nodes_[freed];
  } else {
    Reference* before = &first;
    while (&nodes_[before->chain] != known) before = &nodes_[before->chain];
    freed = std::exchange(before->chain, known->chain);
  }
  nodes_[freed] = {};
  free_nodes_.push_back(freed);
}

void OwnedItems::ListOwners(std::uint32_t item, std::vector<OwnerId>* owners) const {
  for (const Reference* at = &items_[item];; at = &nodes_[at->chain]) {
    if (at->owner != kNoOwner) owners->push_back(at->owner);
    if (at->chain == 0) break;
  }
  std::ranges::sort(*owners);
}

void OwnedItems::Clear(std::uint32_t item) {
  Reference& sole = items_[item];
  KVD_ASSERT(sole.owner != kNoOwner && sole.chain == 0);
  sole.count = 1;
  DropSlow(item, sole.owner);
}

std::uint64_t OwnedItems::CountOf(OwnerId owner) const {
  const auto count = counts_.find(owner);
  return count == counts_.end() ? 0 : count->second;
}

bool operator==(const OwnedItems& a, const OwnedItems& b) {
  if (a.counts_ != b.counts_ || a.items_.size() != b.items_.size()) return false;
  // The order of an item's owners depends on the order of calls, which is not part of the state, so
  // the owners are sorted before they are compared.
  const auto owners_of = [](const OwnedItems& items, std::size_t item) {
    std::vector<std::pair<OwnerId, std::uint32_t>> owners;
    const OwnedItems::Reference* at = &items.items_[item];
    for (;; at = &items.nodes_[at->chain]) {
      if (at->owner != kNoOwner) owners.emplace_back(at->owner, at->count);
      if (at->chain == 0) break;
    }
    std::ranges::sort(owners);
    return owners;
  };
  for (std::size_t item = 0; item < a.items_.size(); ++item) {
    if (owners_of(a, item) != owners_of(b, item)) return false;
  }
  return true;
}

}  // namespace kvd
