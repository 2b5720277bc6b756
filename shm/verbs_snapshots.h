// Arguments and replies of the verbs on snapshots. The payload of those that name one is the name.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

struct SnapshotEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t sequence;
  std::uint32_t owner_uid;
  std::uint32_t is_public;
  std::uint32_t cell_count;
  std::uint32_t reserved;
  std::uint64_t age_ms;
};
static_assert(sizeof(SnapshotEntry) == 96);

struct PublishArgs {  // kFlagPublic; kFlagForce: replaces that name
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &PublishArgs::sequence, Access::kRead)};
  }
};
struct PublishReply {
  SequenceHandle sequence = SequenceHandle::kNone;  // of the snapshot
  std::uint64_t cells = 0;
  static constexpr auto Slots() {
    return std::tuple{Made(&PublishReply::sequence), At(ReplySlot::kValue1, &PublishReply::cells)};
  }
  static Result<PublishReply> Again(const PublishArgs&, const Remembered& done) {
    return PublishReply{.sequence = done.sequence, .cells = done.cells};
  }
};

struct UnpublishArgs {};

// Forks the snapshot: ForkedReply.
struct AttachArgs {};

// Those that the caller may see.
struct SnapshotsArgs {};

}  // namespace kvd::wire
