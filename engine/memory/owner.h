// Owners: the parties for which the held resources of a memory count, and the amounts that one
// owner holds.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "shm/segment_layout.h"

namespace kvd {

// An opaque number that the code that uses the memory chooses; in the daemon, a uid or a tenant of
// a uid.
enum class OwnerId : std::uint64_t {};
inline constexpr OwnerId kNoOwner{~std::uint64_t{0}};
// The largest owner that a `meta` of an earlier process may contain. kOwnerMax is below kNoOwner
// and below the number that BlockTable uses for several owners.
inline constexpr std::uint64_t kOwnerMax = ~std::uint64_t{0} >> 1;
// The largest session id that a `meta` may contain, so that larger ids remain for new sessions.
inline constexpr std::uint64_t kSessionMax = ~std::uint64_t{0} >> 1;

// The resources that the sequences of one owner hold; evictable sequences are not counted. A block
// or slot that several sequences of the owner refer to counts once.
struct OwnerUse {
  std::uint64_t sequences = 0;
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};  // by block group
  std::uint64_t state_slots = 0;  // slots with the state after a sequence's last cell
  // Checkpoints are a cache: an owner at its limit gives up its own checkpoints, and its request is
  // not refused.
  std::uint64_t checkpoint_slots = 0;
  std::uint64_t list_units = 0;
  // Rows of logits are a cache, like checkpoints.
  std::uint64_t logits_rows = 0;
  friend bool operator==(const OwnerUse&, const OwnerUse&) = default;
};

// How the references of a sequence to blocks and slots are counted. is_held: they count for
// `owner`; otherwise the sequence is evictable (retained, neither pinned nor published).
struct Holder {
  bool is_held = true;
  OwnerId owner{};  // if is_held
  friend bool operator==(const Holder&, const Holder&) = default;
};
inline constexpr Holder kReclaimable{.is_held = false, .owner = OwnerId{}};

// Returns the holder of a live sequence whose record is `record`.
constexpr Holder HolderOf(const layout::SequenceRecord& record) {
  constexpr std::uint32_t kMask =
      layout::kSequenceRetained | layout::kSequencePinned | layout::kSequencePublished;
  if ((record.flags & kMask) == layout::kSequenceRetained) return kReclaimable;
  return {.is_held = true, .owner = OwnerId{record.owner}};
}

}  // namespace kvd
