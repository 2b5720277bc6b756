// Every byte that lies in a shared segment, as plain structs: this file, shm/wire_messages.h and the
// struct that both embed, shm/sampling_params.h, are the whole format.
//
//   pool      K/V blocks and recurrent state; a file, written by the daemon alone
//   meta      what is committed: sequences, their cell lists, snapshots, and the commit record; a
//   file beside it
//   requests  one per client, written by the client: submission ring, payload arena
//   results   one per client, written by the daemon: completion ring, output arena
//   map       one per uid that looks, written by the daemon: who holds which cells, in figures
//
// Rules: fixed-width fields, offsets from the segment's base, reserved bytes are zero, one writer
// per byte, groups written by different sides on different cache lines. Little-endian.
// shm/README.md holds the access rules by number.
//
// kLayoutVersion is raised whenever a struct of `meta` or `pool` changes its size, order or
// meaning:
//   1  first layout
//   2  recurrent state slots, checkpoints and rows of logits
//   3  a cell says by which of the model's rotations its keys are rotated
//   4  several block groups, windows, cells of an encoded text
//   5  sessions with a window of applied requests; sequences say which request computes them
//   6  requests that have begun to change files
//   7  sequences keep their sampler; sessions the process of their client
//   8  owners are opaque; sequences keep their parent and their last edits; sessions a note
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shm/sampling_params.h"

namespace kvd::layout {

inline constexpr std::uint32_t kLayoutVersion = 8;
inline constexpr std::uint64_t kMetaMagic = 0x3154454d5f44564bull;  // "KVD_MET1"
inline constexpr std::uint32_t kBlockCells = 32;                    // cells of one block
inline constexpr std::uint32_t kGroupsMax = 4;                      // block groups of one model
inline constexpr std::uint32_t kKeyFormsMax = 2;                    // rotations of one model
inline constexpr std::uint32_t kNoSlot = 0xffffffffu;
inline constexpr std::uint32_t kListUnitBytes =
    256;  // unit of allocation of the list arena: 16 extents
inline constexpr std::uint32_t kCommitRecordBytes = 1u << 20;  // redo record, header included
inline constexpr std::uint32_t kForksMax =
    1024;  // forks of one request, so that one commit holds them
inline constexpr std::uint32_t kNameBytesMax = 64;
inline constexpr std::uint32_t kAppliedMax = 62;  // requests that a session's window remembers
inline constexpr std::uint32_t kEditsKept = 32;   // of each sequence; divides 2^32
inline constexpr std::uint32_t kSessionNoteBytes = 48;

// ------------------------------------------------------------------------------------------ meta
//
//   0              MetaHeader                     one page
//   commit_offset  CommitHeader, entries          kCommitRecordBytes
//   sequences      SequenceRecord[sequence_capacity]
//   snapshots      SnapshotRecord[snapshot_capacity]
//   sessions       SessionRecord[session_capacity]
//   histories      EditRecord[sequence_capacity][kEditsKept]
//   lists          list arena: units of kListUnitBytes
//   cells[g]       CellRecord[block_count[g]][kBlockCells]
//
// A value is committed if it is reachable from a live SequenceRecord or SnapshotRecord (or is one).
// Of a history the last min(edit_count, kEditsKept) edits are.
// All else does not exist.

// Group 0 holds every token of a sequence. A group with a window keeps the last of the same cells;
// the cross group holds the cells of an encoded text.
struct MetaGeometry {
  std::uint32_t block_cells;  // kBlockCells
  std::uint32_t group_count;  // 1..kGroupsMax; group 0 holds every token
  std::uint32_t block_count[kGroupsMax];
  std::uint32_t window[kGroupsMax];  // a query at p reaches positions above p - window; 0: all
  std::uint32_t cross_group;         // 1..group_count-1, or kNoSlot
  std::uint32_t sequence_capacity;
  std::uint32_t snapshot_capacity;
  std::uint32_t session_capacity;
  std::uint32_t state_slot_count;
  std::uint32_t list_unit_count;
  std::uint32_t logits_row_count;
  std::uint8_t k_type;  // kernels::DataType numbers
  std::uint8_t v_type;
  std::uint8_t reserved[2];
  // Bytes of one block in `pool`, page rounded; 0 where no layer has K and V: its cells are tokens
  // and positions alone.
  std::uint64_t block_stride_bytes[kGroupsMax];
  std::uint64_t state_slot_bytes;  // in `pool`, behind the blocks, page rounded
  std::uint64_t logits_row_bytes;  // in `pool`, behind the state slots, page rounded
  friend bool operator==(const MetaGeometry&, const MetaGeometry&) = default;
};
static_assert(sizeof(MetaGeometry) == 120 && std::is_standard_layout_v<MetaGeometry>);

struct MetaHeader {
  std::uint64_t magic;             // kMetaMagic
  std::uint32_t version;           // kLayoutVersion
  std::uint32_t header_bytes;      // sizeof(MetaHeader)
  std::uint64_t layout_signature;  // LayoutSignature(): changes when a struct's size does
  std::uint64_t total_bytes;       // of the segment
  std::uint8_t model_fingerprint[32];
  std::uint8_t boot_id[16];  // /proc/sys/kernel/random/boot_id at creation
  MetaGeometry geometry;
  std::uint64_t commit_offset;
  std::uint64_t sequences_offset;
  std::uint64_t snapshots_offset;
  std::uint64_t sessions_offset;
  std::uint64_t histories_offset;
  std::uint64_t lists_offset;
  std::uint64_t cells_offset[kGroupsMax];
  std::uint32_t header_crc;  // CRC32C of the bytes above
  // NumericForm of all cells and states: what computed them. A daemon without --deterministic that
  // attaches sets it to 0, so it lies behind the CRC.
  std::uint32_t numeric_form;
  // The commit point of everything: 0 while no record is being applied, else the number of the
  // published record. A release store of a number makes the record in the commit area true; whoever
  // finds it set applies the record again.
  alignas(64) std::atomic<std::uint64_t> commit_word;
};
static_assert(sizeof(MetaHeader) <= 4096 && std::is_standard_layout_v<MetaHeader>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The redo record: header, then entry_count times {CommitEntry, payload padded to 8 bytes}.
struct CommitHeader {
  std::uint64_t number;  // equals commit_word while published
  std::uint32_t entry_count;
  std::uint32_t body_bytes;  // entries and payloads
  std::uint32_t crc;         // CRC32C of number, entry_count, body_bytes and the body
  std::uint32_t reserved;
};
static_assert(sizeof(CommitHeader) == 24);
struct CommitEntry {
  std::uint64_t offset;         // in meta, a multiple of 8, inside sequences to histories
  std::uint32_t payload_bytes;  // a multiple of 8
  std::uint32_t reserved;
};
static_assert(sizeof(CommitEntry) == 16);

// A list in the arena: entry_count entries from unit first_unit on, room for capacity_units units,
// CRC32C of the entries. Entries behind entry_count are not committed.
struct ListRoot {
  std::uint32_t first_unit;  // kNoSlot where capacity_units is 0
  std::uint32_t capacity_units;
  std::uint32_t entry_count;
  std::uint32_t crc;
  friend bool operator==(const ListRoot&, const ListRoot&) = default;
};
static_assert(sizeof(ListRoot) == 16);

// A run of cells in one block as one sequence sees it. It covers the sequence's cells [start, start
// of the next extent), the last one up to the sequence's cell count in that group: so appending to
// a block's tail changes the count alone. Effective position = stored position + delta. Cells of an
// extent lie side by side: block cells first, first + 1, …
struct Extent {
  std::uint32_t block;
  std::uint32_t start;  // ordinal of its first cell in the sequence's list of this group
  std::uint16_t first;  // 0..kBlockCells-1
  std::uint16_t reserved;
  std::int32_t delta;
  friend bool operator==(const Extent&, const Extent&) = default;
};
static_assert(sizeof(Extent) == 16);

// The recurrent state of a sequence as it was behind its first cell_count cells.
struct Checkpoint {
  std::uint32_t cell_count;
  std::uint32_t state_slot;
  std::uint32_t reserved[2];
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};
static_assert(sizeof(Checkpoint) == sizeof(Extent));  // both are entries of the list arena

enum SequenceFlags : std::uint32_t {
  kSequenceLive = 1u << 0,
  kSequenceRetained = 1u << 1,
  kSequencePinned = 1u << 2,
  kSequencePublished = 1u << 3,  // belongs to a snapshot: immutable
  kSequenceEdited = 1u << 4,     // some cell is not as computed from position 0 in order
};

enum SamplerFlags : std::uint32_t {
  kSamplerKept = 1u << 0,  // else all of it is zero
  kSamplerIgnoresEos = 1u << 1,
  kSamplerBiased = 1u << 2,  // with biases of tokens, which are not kept here
};

// The sampler that drew a sequence's last tokens; a generation can go on with it.
struct SamplerRecord {
  std::uint64_t seed;
  std::uint64_t draw_count;
  SamplingParams sampling;
  std::uint32_t cell_count;  // of the sequence behind the token of its last draw
  std::uint32_t flags;       // SamplerFlags
  std::uint32_t reserved;
};
static_assert(sizeof(SamplerRecord) == 64 && offsetof(SamplerRecord, sampling) == 16);

struct SequenceRecord {
  std::uint32_t generation;  // of the handle; raised when the record is freed, never 0
  std::uint32_t flags;       // SequenceFlags; 0 when free
  std::uint32_t edit_count;  // edits of its cells; the next one is at edit_count % kEditsKept
  // The last request that computed tokens of it, and its first one: a request that is sent again
  // after a restart goes on from there. 0: none.
  std::uint32_t request_first_cell;  // ordinal; kNoSlot: cells were edited since; 0 without request
  std::uint64_t request;
  std::uint64_t request_session;
  std::uint64_t owner;           // opaque: given by the memory's user
  std::uint64_t owner_session;   // SessionId
  std::uint64_t namespace_salt;  // 0: the owner's own namespace
  std::uint64_t created_unix_ms;
  std::uint64_t edit_number;     // raised by every commit that changes this record
  std::uint32_t cell_count;      // cells of group 0 (all tokens it holds)
  std::uint32_t pristine_cells;  // leading cells computed from position 0 in order
  std::int32_t next_pos;         // last effective position + 1; 0 when empty
  std::uint32_t state_slot;      // recurrent state behind all its cells; kNoSlot: none or zeros
  std::uint32_t logits_slot;     // row of logits of its last token, or kNoSlot
  std::uint32_t cross_cells;     // cells of the cross group; 0: no text is encoded
  ListRoot extents[kGroupsMax];
  ListRoot checkpoints;  // of Checkpoint, by cell_count, each at most the record's
  std::uint32_t
      first_cell[kGroupsMax];  // ordinal of the first cell that a window group still holds
  std::uint64_t created_by;    // request of the owner's session that made it; 0: none it waits for
  std::uint64_t parent;        // SequenceHandle that it was forked from; 0: not a fork
  std::uint32_t parent_cells;  // that it took from there
  std::uint32_t reserved;
  SamplerRecord sampler;
};
static_assert(sizeof(SequenceRecord) == 280 && std::is_standard_layout_v<SequenceRecord>);

enum EditKind : std::uint16_t {
  kEditRemoved = 1,
  kEditCopied = 2,  // from another sequence into this one
  kEditShifted = 3,
  kEditDivided = 4,
};

// One edit of a sequence's cells.
struct EditRecord {
  std::uint64_t unix_ms;
  // Positions [first, end) of the cells, as they were before it; of copied ones, as they are.
  std::int32_t first;
  std::int32_t end;
  std::int32_t delta;  // of a shift; of a division, the divisor; else 0
  std::uint16_t kind;  // EditKind
  std::uint16_t verb;  // on behalf of which kind of request: RequestTag::kind; 0: of none
};
static_assert(sizeof(EditRecord) == 24);

struct SnapshotRecord {
  char name[kNameBytesMax];  // zero padded; all zero when free
  std::uint64_t sequence;    // SequenceHandle of a published sequence
  std::uint64_t published_unix_ms;
  std::uint64_t owner;      // opaque
  std::uint32_t is_public;  // 1: every owner can fork it
  std::uint8_t reserved[36];
};
static_assert(sizeof(SnapshotRecord) == 128);

enum AppliedState : std::uint32_t {
  kAppliedEnded = 0,
  kAppliedBegun = 1,  // what it changes outside `meta` may be changed or not
};

// A request that was applied, in the same commit as its change, and what its answer says.
struct AppliedRecord {
  std::uint64_t request;   // RequestId; 0: free
  std::uint64_t sequence;  // SequenceHandle: the first that it made, or the one that it changed
  std::uint32_t cells;     // as its verb counts them
  std::uint32_t replayed;  // tokens computed again
  std::uint16_t verb;
  std::uint16_t created;  // sequences that it made
  std::uint32_t state;    // AppliedState
};
static_assert(sizeof(AppliedRecord) == 32);

// A client that may come back. The window's place of the lowest request id is used again first.
struct SessionRecord {
  std::uint64_t session;              // SessionId; 0 when free
  std::uint64_t owner;                // opaque
  std::byte note[kSessionNoteBytes];  // what the memory's user knows of its client; opaque
  AppliedRecord applied[kAppliedMax];
};
static_assert(sizeof(SessionRecord) == 2048);

// One per cell of a group, written before the commit that makes the cell reachable and not changed
// while it is.
struct CellRecord {
  std::int32_t token;
  std::int32_t stored_pos;
  std::uint32_t check;     // CRC32C of token, stored_pos, group, block, cell number and key_form
  std::uint32_t key_form;  // which of the model's rotations its keys have, below kKeyFormsMax; 0
                           // where there is one
};
static_assert(sizeof(CellRecord) == 16);

// A number that changes when any struct above changes its size, to be compared on attach.
constexpr std::uint64_t LayoutSignature() {
  std::uint64_t signature = kLayoutVersion;
  for (std::uint64_t part :
       {sizeof(MetaHeader), sizeof(CommitHeader), sizeof(CommitEntry), sizeof(SequenceRecord),
        sizeof(SnapshotRecord), sizeof(SessionRecord), sizeof(AppliedRecord), sizeof(CellRecord),
        sizeof(Extent), sizeof(EditRecord), std::size_t{kEditsKept}, std::size_t{kBlockCells},
        std::size_t{kListUnitBytes}}) {
    signature = (signature ^ part) * 0x100000001b3ull;
  }
  return signature;
}

// -------------------------------------------------------------------------- requests and results
//
//   requests: RequestsHeader | wire::Submission[submission_entries] | payload arena
//   results:  ResultsHeader  | wire::Completion[completion_entries] | output arena
//
// Cursors count from 0 for ever; an index is cursor % entries, an output position is cursor % arena
// bytes.

struct RequestsHeader {
  std::uint64_t magic;  // kRequestsMagic, written by the daemon at creation, then left alone
  std::uint32_t submission_entries;  // a power of two; the daemon trusts its own copy only
  std::uint32_t reserved0;
  std::uint64_t arena_offset;
  std::uint64_t arena_bytes;
  alignas(64) std::atomic<std::uint64_t> submission_tail;  // entries written
  alignas(64) std::atomic<std::uint64_t> completion_head;  // completions read
  std::atomic<std::uint64_t> output_released;              // output arena bytes given back
  alignas(64) std::atomic<std::uint32_t> client_sleeps;  // 1: ring me when a completion is written
};
static_assert(std::is_standard_layout_v<RequestsHeader> && sizeof(RequestsHeader) == 256);

// What ResultsHeader::daemon_sleeps says. A release that the daemon does not wait for costs no
// system call.
enum DaemonSleep : std::uint32_t {
  kDaemonAwake = 0,   // it looks by itself
  kDaemonSleeps = 1,  // ring it when something is submitted
  kDaemonStalled =
      2,  // ring it also when completions are read or output is released: an answer waits for room
};

struct ResultsHeader {
  std::uint64_t magic;               // kResultsMagic
  std::uint32_t completion_entries;  // a power of two
  std::uint32_t reserved0;
  std::uint64_t arena_offset;
  std::uint64_t arena_bytes;
  alignas(64) std::atomic<
      std::uint64_t> submission_head;  // submissions copied out: entry and payload may be reused
  alignas(64) std::atomic<std::uint64_t> completion_tail;  // completions written
  alignas(64) std::atomic<std::uint32_t> daemon_sleeps;    // DaemonSleep
};
static_assert(std::is_standard_layout_v<ResultsHeader> && sizeof(ResultsHeader) == 256);

inline constexpr std::uint64_t kRequestsMagic = 0x315145525f44564bull;  // "KVD_REQ1"
inline constexpr std::uint64_t kResultsMagic = 0x315345525f44564bull;   // "KVD_RES1"

// ------------------------------------------------------------------------------------------- map
//
//   0              MapHeader                    one page
//   kMapPageBytes  std::atomic<u64> locks[]     one per shard, page rounded
//   then           shards of kMapPageBytes:
//     1            MapTotals
//     sessions     MapSession[64] each          those of the viewer's uid, by age; 0: none
//     blocks       MapBlock[512] each           by block of group 0
//     sequences    MapSequence[64] each         by index of the handle; those the viewer may see
//
// One map per uid that looks; it holds no tokens and no names. A lock is odd while its shard is
// being written and 0 while it never was. The daemon holds an open-file-description lock (F_OFD) on
// the memfd as long as it lives: the kernel takes it away at its death.

inline constexpr std::uint64_t kMapMagic = 0x3150414d5f44564bull;  // "KVD_MAP1"
inline constexpr std::uint32_t kMapVersion = 1;
inline constexpr std::uint32_t kMapPageBytes = 4096;

struct MapHeader {
  std::uint64_t magic;  // kMapMagic
  std::uint32_t version;
  std::uint32_t header_bytes;  // sizeof(MapHeader)
  std::uint64_t total_bytes;   // of the segment
  std::uint64_t created_unix_ms;
  std::uint32_t daemon_pid;
  std::uint32_t viewer_uid;
  std::uint32_t block_count;
  std::uint32_t sequence_capacity;
  std::uint32_t session_capacity;
  std::uint32_t reserved;
  alignas(64) std::atomic<std::uint64_t> is_over;  // 1: nothing will be written any more
};
static_assert(std::is_standard_layout_v<MapHeader> && sizeof(MapHeader) == 128);

struct MapTotals {             // of all uids
  std::uint64_t pass;          // publications so far; 0: the first one is not complete
  std::uint64_t published_ms;  // monotonic clock
  std::uint64_t live_cells;
  std::uint64_t tokens_computed;
  std::uint64_t tokens_sampled;
  std::uint64_t steps;
  std::uint32_t total_blocks;
  std::uint32_t free_blocks;
  std::uint32_t reclaimable_blocks;
  std::uint32_t live_sequences;
  std::uint32_t sequence_capacity;
  std::uint32_t sessions;
  std::uint32_t state_slots;
  std::uint32_t free_state_slots;
  std::uint32_t checkpoint_slots;
  std::uint32_t logits_rows;
  std::uint32_t free_logits_rows;
  std::uint32_t reserved;
  friend bool operator==(const MapTotals&, const MapTotals&) = default;
};
static_assert(sizeof(MapTotals) == 96);

struct MapSession {
  std::uint64_t session;  // 0: none
  std::uint32_t uid;
  std::uint32_t pid;
  std::uint64_t tokens_computed;
  std::uint64_t tokens_sampled;
  std::uint64_t reserved[4];
};
static_assert(sizeof(MapSession) == 64);

struct MapBlock {
  std::uint32_t sequence;     // the first sequence that the viewer may see, by index, + 1; 0: none
  std::uint8_t used_cells;    // that sequences of this map refer to
  std::uint8_t shared_cells;  // that they refer to more than once
  std::uint16_t reserved;
};
static_assert(sizeof(MapBlock) == 8);

struct MapSequence {
  std::uint64_t handle;  // 0: none
  std::uint64_t session;
  std::uint32_t owner_uid;
  std::uint32_t flags;  // SequenceFlags
  std::uint32_t cell_count;
  std::uint32_t shared_cells;
  std::uint32_t checkpoint_count;
  std::int32_t next_pos;
  std::uint64_t reserved[3];
};
static_assert(sizeof(MapSequence) == 64);

}  // namespace kvd::layout
