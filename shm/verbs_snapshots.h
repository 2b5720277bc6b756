// Arguments and replies of the verbs on snapshots. If a verb names a snapshot, its payload is the
// name.
#pragma once

#include "shm/verbs_sequences.h"

namespace kvd::wire {

struct SnapshotEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t sequence;
  std::uint32_t owner_uid;
  std::uint16_t is_public;
  std::uint16_t is_ephemeral;  // 1: no prompt reuses the snapshot's cells, except by a fork
  std::uint32_t cell_count;
  std::uint32_t expires_in_seconds;  // rounded up; 0: the snapshot does not expire
  std::uint64_t age_ms;
};
static_assert(sizeof(SnapshotEntry) == 96);

// Publishes a snapshot of the sequence. kFlagPublic: every uid may fork the snapshot. kFlagForce:
// replaces an existing snapshot of the same name. kFlagEphemeral: no prompt reuses the snapshot's
// cells, except forks of the snapshot.
struct PublishArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t ttl_seconds = 0;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &PublishArgs::sequence, Access::kRead),
                   TtlSeconds(&PublishArgs::ttl_seconds));
  }
};
struct PublishReply {
  SequenceHandle sequence = SequenceHandle::kNone;  // the snapshot's sequence
  std::uint64_t cells = 0;
  static constexpr auto Slots() {
    return Slotted(Made(&PublishReply::sequence), At(ReplySlot::kValue1, &PublishReply::cells));
  }
  static Result<PublishReply> Again(const PublishArgs&, const Remembered& done) {
    return PublishReply{.sequence = done.sequence, .cells = done.cells};
  }
};

struct UnpublishArgs {};

// Forks the snapshot. Reply: ForkedReply.
struct AttachArgs {};

// Lists the snapshots that the caller may see.
struct SnapshotsArgs {};

}  // namespace kvd::wire
