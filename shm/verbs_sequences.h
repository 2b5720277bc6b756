// The verbs on sequences: their positions, their ancestry and edits, and snapshots of them.
#pragma once

#include "shm/segment_layout.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

// What the request does that computes on a sequence.
enum RequestState : std::uint32_t {
  kRequestNone = 0,   // no request computes on the sequence
  kRequestWaits = 1,  // it has computed nothing yet, and waits for its turn or for a prefix
  kRequestComputes = 2,
  kRequestParked = 3,  // it waits for room in the pool
};

// Arguments and replies of the verbs on sequences and their positions.
struct SequenceEntry {
  std::uint64_t handle;
  std::uint64_t session;
  std::uint32_t owner_uid;
  std::uint32_t owner_pid;  // process that owns the sequence; 0: unknown
  std::uint32_t flags;      // layout::SequenceFlags
  std::uint32_t cell_count;
  std::uint32_t shared_cells;
  std::uint32_t extent_count;
  std::uint32_t delta_count;
  std::int32_t first_pos;
  std::int32_t next_pos;
  std::uint32_t expires_in_seconds;  // rounded up; 0: the sequence does not expire
  std::uint64_t age_ms;
  // The request that computes on the sequence. Its tokens are those of its prompt and its answer;
  // request_tokens: how many it wants in all; 0: unknown, or there is no request.
  std::uint32_t request_state;  // a RequestState
  std::uint32_t request_tokens_done;
  std::uint32_t request_tokens;
  std::uint32_t parked_ms;  // how long the request has waited for room; 0 if it is not parked
};
static_assert(sizeof(SequenceEntry) == 80);

// Returns the description of an argument in slot p1: the seconds after which a new sequence
// expires; 0: it does not expire.
template <class Args>
constexpr auto TtlSeconds(std::uint32_t Args::* member) {
  return Number("ttl_seconds", member, ArgumentSlot::kP1, 0, kTtlSecondsMax);
}

struct CreateArgs {
  std::uint64_t cache_salt = 0;  // salt of the sequence's namespace; 0: the session's salt
  std::uint32_t ttl_seconds = 0;
  static constexpr auto Slots() {
    return Slotted(Number("cache_salt", &CreateArgs::cache_salt, ArgumentSlot::kArgument, kInt64Min,
                          kInt64Max),
                   TtlSeconds(&CreateArgs::ttl_seconds));
  }
};
struct CreateReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() { return Slotted(Made(&CreateReply::sequence)); }
  static Result<CreateReply> Again(const CreateArgs&, const Remembered& done) {
    return CreateReply{.sequence = done.sequence};
  }
};

struct ForkArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  // Number of first cells that the forks share; nullopt: all cells.
  std::optional<std::uint32_t> cells{};
  std::uint32_t count = 1;  // number of forks
  std::uint32_t ttl_seconds = 0;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &ForkArgs::sequence, Access::kRead),
                   Number("cells", &ForkArgs::cells, ArgumentSlot::kP0, -1, kInt32Max),
                   Number("count", &ForkArgs::count, ArgumentSlot::kArgument, 1, layout::kForksMax),
                   TtlSeconds(&ForkArgs::ttl_seconds));
  }
};
struct ForkReply {
  SequenceHandle first = SequenceHandle::kNone;
  std::uint64_t nanoseconds = 0;  // time spent in the engine
  std::uint64_t cells = 0;        // number of cells of each fork
  // Number of tokens replayed, if a recurrent model has no checkpoint after `cells` cells.
  std::uint64_t replayed = 0;
  std::vector<SequenceHandle> handles{};
  static constexpr auto Slots() {
    return Slotted(Made(&ForkReply::first), At(ReplySlot::kValue0, &ForkReply::nanoseconds),
                   At(ReplySlot::kValue1, &ForkReply::cells),
                   At(ReplySlot::kValue2, &ForkReply::replayed));
  }
  static constexpr auto Output() { return &ForkReply::handles; }
  static Result<ForkReply> Again(const ForkArgs& args, const Remembered& done) {
    if (done.made.size() != args.count) {
      return Fail(Code::kConflict, "fork: the request was applied; of ", args.count, " forks, ",
                  done.made.size(), " are left");
    }
    return ForkReply{.first = done.made.front(),
                     .cells = args.cells.value_or(done.cells),
                     .replayed = done.replayed,
                     .handles = {done.made.begin(), done.made.end()}};
  }
};

// kFlagForce: also drops a sequence of another session of the same uid.
struct DropArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &DropArgs::sequence, Access::kChange));
  }
};

// The result of an edit.
struct EditReply {
  std::uint64_t cells = 0;     // number of cells copied or removed
  std::uint64_t replayed = 0;  // number of tokens that a recurrent model replayed for the edit
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kValue0, &EditReply::cells),
                   At(ReplySlot::kValue1, &EditReply::replayed));
  }
  template <class Args>
  static Result<EditReply> Again(const Args&, const Remembered& done) {
    return EditReply{.cells = done.cells, .replayed = done.replayed};
  }
};

struct CopyRangeArgs {
  SequenceHandle source = SequenceHandle::kNone;
  SequenceHandle destination = SequenceHandle::kNone;
  PosRange range{};
  static constexpr auto Slots() {
    return Slotted(
        Handle("sequence", &CopyRangeArgs::source, Access::kRead),
        Handle("sequence2", &CopyRangeArgs::destination, Access::kEdit, ArgumentSlot::kSequence2),
        Range(&CopyRangeArgs::range));
  }
};

struct RemoveRangeArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  PosRange range{};
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &RemoveRangeArgs::sequence, Access::kEdit),
                   Range(&RemoveRangeArgs::range));
  }
};

// Drops all sequences of the session except `sequence`.
struct KeepArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &KeepArgs::sequence, Access::kOwn));
  }
};

struct ClearArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &ClearArgs::sequence, Access::kEdit));
  }
};

struct AddArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  PosRange range{};
  std::int32_t delta = 0;
  static constexpr auto Slots() {
    return Slotted(
        Handle("sequence", &AddArgs::sequence, Access::kEdit), Range(&AddArgs::range),
        Number("delta", &AddArgs::delta, ArgumentSlot::kArgument, -kInt32Max, kInt32Max));
  }
};

struct DivideArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  PosRange range{};
  std::int32_t divisor = 1;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &DivideArgs::sequence, Access::kEdit),
                   Range(&DivideArgs::range),
                   Number("divisor", &DivideArgs::divisor, ArgumentSlot::kArgument, 1, kInt32Max));
  }
};
struct DivideReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t cells = 0;  // number of rewritten cells
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &DivideReply::sequence),
                   At(ReplySlot::kValue0, &DivideReply::cells));
  }
  static Result<DivideReply> Again(const DivideArgs&, const Remembered& done) {
    return DivideReply{.sequence = done.sequence, .cells = done.cells};
  }
};

struct QueryArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &QueryArgs::sequence, Access::kRead));
  }
};
struct QueryReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  SequenceEntry entry{};
  static constexpr auto Slots() { return Slotted(At(ReplySlot::kSequence, &QueryReply::sequence)); }
  static constexpr auto Output() { return &QueryReply::entry; }
};

struct TokenAndPosition {
  TokenId token;
  std::int32_t pos;
};
static_assert(sizeof(TokenAndPosition) == 8);

struct ReadTokensArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::int32_t first_cell = 0;
  std::optional<std::uint32_t> count{};  // number of cells; nullopt: all cells from first_cell on
  static constexpr auto Slots() {
    return Slotted(
        Handle("sequence", &ReadTokensArgs::sequence, Access::kRead),
        Number("first_cell", &ReadTokensArgs::first_cell, ArgumentSlot::kP0, 0, kInt32Max),
        Number("count", &ReadTokensArgs::count, ArgumentSlot::kArgument, -1, kInt32Max));
  }
};
struct ReadTokensReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t count = 0;
  std::vector<TokenAndPosition> cells{};  // the tokens and positions, sent in pieces
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &ReadTokensReply::sequence),
                   At(ReplySlot::kValue0, &ReadTokensReply::count));
  }
  static constexpr auto Output() { return &ReadTokensReply::cells; }
};

// Lists the sequences that the caller may see; the answer comes in pieces.
struct ListArgs {};

// Releases a sequence as at the end of its session: the sequence is retained as prefix cache or
// dropped.
struct RetainArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &RetainArgs::sequence, Access::kEdit));
  }
};
struct RetainReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  bool stays = false;  // true: the sequence was retained; false: it was dropped
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &RetainReply::sequence),
                   At(ReplySlot::kValue0, &RetainReply::stays));
  }
  static Result<RetainReply> Again(const RetainArgs& args, const Remembered& done) {
    return RetainReply{.sequence = args.sequence, .stays = done.sequence != SequenceHandle::kNone};
  }
};

// Sets the time after which a sequence expires; 0: it does not expire. kFlagEphemeral: the sequence
// becomes ephemeral; without the flag it stays as it is. The daemon drops an expired sequence also
// while a request computes on it, and also if it is retained or pinned.
struct SetLifeArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t ttl_seconds = 0;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &SetLifeArgs::sequence, Access::kChange),
                   TtlSeconds(&SetLifeArgs::ttl_seconds));
  }
};

struct PinArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  // True: the sequence is never evicted. False: the sequence may be evicted while it is retained.
  bool is_pinned = false;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &PinArgs::sequence, Access::kChange),
                   Number("is_pinned", &PinArgs::is_pinned, ArgumentSlot::kArgument, 0, 1));
  }
};
struct PinReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() { return Slotted(At(ReplySlot::kSequence, &PinReply::sequence)); }
  static Result<PinReply> Again(const PinArgs&, const Remembered& done) {
    return PinReply{.sequence = done.sequence};
  }
};

// Drops the retained sequences of the caller's uid. kFlagForce: also drops pinned ones.
struct DropRetainedArgs {};
struct DropRetainedReply {
  std::uint64_t count = 0;
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kValue0, &DropRetainedReply::count));
  }
  static Result<DropRetainedReply> Again(const DropRetainedArgs&, const Remembered& done) {
    return DropRetainedReply{.count = done.cells};
  }
};

// Arguments and replies of the verbs on snapshots. If a verb names a snapshot, its payload is the
// name.
struct SnapshotEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t sequence;
  std::uint32_t owner_uid;
  std::uint8_t is_public;
  std::uint8_t is_own;         // 1: of the caller; the tenants of a uid have the same owner_uid
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

// Arguments and reply of the verb that reports a sequence's ancestry and edits.

inline constexpr std::size_t kLogSequencesMax = 64;  // largest number of records in one reply

struct LogArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &LogArgs::sequence, Access::kRead));
  }
};

// One record of the log reply. The reply has a record for the sequence, for its parent, for the
// parent's parent and so on, up to the first sequence that no longer exists or that the caller may
// not read.
struct LogRecord {
  std::uint64_t sequence;
  // Handle of the sequence from which this sequence was forked; 0: this sequence is no fork, or its
  // parent belongs to another uid and the caller may not read the parent.
  std::uint64_t parent;
  std::uint64_t created_unix_ms;
  std::uint32_t parent_cells;  // number of cells taken from the parent
  std::uint32_t owner_uid;
  std::uint32_t cell_count;
  // The number of edits of the sequence. `edits` holds the last min(edit_count, kEditsKept) edits,
  // oldest first.
  std::uint32_t edit_count;
  // EditRecord::verb is a wire::Verb; 0: the edit was not made by a request.
  layout::EditRecord edits[layout::kEditsKept];
};
static_assert(sizeof(LogRecord) == 808 && std::is_standard_layout_v<LogRecord>);

}  // namespace kvd::wire
