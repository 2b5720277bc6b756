// Whom what a memory holds is counted for, and how much of it one may hold.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "shm/segment_layout.h"

namespace kvd {

// An opaque number, given by the memory's user.
enum class OwnerId : std::uint64_t {};
inline constexpr OwnerId kNoOwner{~std::uint64_t{0}};
// The largest one that a `meta` of an earlier process may name: owners are uids now. Below the
// numbers that tables use for no owner and for several.
inline constexpr std::uint64_t kOwnerMax = 0xffff'ffff;
// The largest session: ids of later ones are above those that are known.
inline constexpr std::uint64_t kSessionMax = ~std::uint64_t{0} >> 1;

// What the sequences of one owner hold: all but retained ones that may be evicted. A block or slot that
// several of them refer to counts once.
struct OwnerUse {
  std::uint64_t sequences = 0;
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};  // by block group
  std::uint64_t state_slots = 0;                              // behind sequences' last cells
  std::uint64_t checkpoint_slots = 0;  // a cache: an owner at its limit gives up its own
  std::uint64_t list_units = 0;
  std::uint64_t logits_rows = 0;  // a cache, too
  friend bool operator==(const OwnerUse&, const OwnerUse&) = default;
};

// Who refers to a block or slot: a sequence that somebody wants, or one that may be evicted (retained,
// neither pinned nor published).
struct Holder {
  bool is_held = true;
  OwnerId owner{};  // of a held one
  friend bool operator==(const Holder&, const Holder&) = default;
};
inline constexpr Holder kReclaimable{.is_held = false, .owner = OwnerId{}};

// The holder that a live sequence with this record is.
constexpr Holder HolderOf(const layout::SequenceRecord& record) {
  constexpr std::uint32_t kMask =
      layout::kSequenceRetained | layout::kSequencePinned | layout::kSequencePublished;
  if ((record.flags & kMask) == layout::kSequenceRetained) return kReclaimable;
  return {.is_held = true, .owner = OwnerId{record.owner}};
}

}  // namespace kvd
