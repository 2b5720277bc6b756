// The layout of the shared segments, as plain structs, without the map's (shm/map_layout.h). The
// entries of the rings are in shm/wire_messages.h; the payloads and outputs of the verbs are in
// shm/verbs_*.h.
//
//   pool      K/V blocks, recurrent states and rows of logits; files, written by the daemon alone
//   meta      the committed records: sequences, their cell lists, snapshots, sessions, and the
//             commit record; a file in the directory of the pool, which it names
//   requests  one per client, written by the client: submission ring, payload arena
//   results   one per client, written by the daemon: completion ring, output arena
//   map       one per owner that asks for it, written by the daemon: the live map of the pool
//
// Rules: fields have a fixed width; offsets count from the segment's base; reserved bytes are zero;
// each byte has one writer; groups that different processes write lie on different cache lines.
// Numbers are little-endian. shm/README.md holds the numbered access rules.
//
// kLayoutVersion is raised whenever a struct of `meta` or `pool` changes its size, order or
// meaning:
//   1  first layout
//   2  recurrent state slots, checkpoints and rows of logits
//   3  a cell records which of the model's rotations its keys have
//   4  several block groups, windows, cells of an encoded text
//   5  sessions with a window of applied requests; sequences record the request that computes them
//   6  requests that have begun to change files
//   7  sequences keep their sampler; sessions keep the process of their client
//   8  owners are opaque; sequences keep their parent and their last edits; sessions keep a note
//   9  samplers have a chain, and numbers that change with each draw
//  10  owners may be tenants; sequences expire and may be ephemeral; sessions may outlive a process
//  11  `meta` names its pool and its model; the parts of a pool are files of their own
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shm/sampling_params.h"

namespace kvd::layout {

inline constexpr std::uint32_t kLayoutVersion = 11;
inline constexpr std::uint64_t kMetaMagic = 0x3154454d5f44564bull;  // "KVD_MET1"
inline constexpr std::uint32_t kBlockCells = 32;                    // number of cells in a block
// Largest number of block groups of one model.
inline constexpr std::uint32_t kGroupsMax = 4;
// Largest number of key rotations of one model.
inline constexpr std::uint32_t kKeyFormsMax = 2;
inline constexpr std::uint32_t kNoSlot = 0xffffffffu;
// The allocation unit of the list arena: 16 extents.
inline constexpr std::uint32_t kListUnitBytes = 256;
// Size of the redo record with its header.
inline constexpr std::uint32_t kCommitRecordBytes = 1u << 20;
// Largest number of forks of one request, chosen so that the forks fit into one commit record.
inline constexpr std::uint32_t kForksMax = 1024;
inline constexpr std::uint32_t kNameBytesMax = 64;
// A session records its last kAppliedMax requests that changed state.
inline constexpr std::uint32_t kAppliedMax = 62;
// Number of edits kept for each sequence; divides 2^32.
inline constexpr std::uint32_t kEditsKept = 32;
inline constexpr std::uint32_t kSessionNoteBytes = 64;
inline constexpr std::uint32_t kModelNameBytes = 64;

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
// Only reachable data is committed: live SequenceRecords and SnapshotRecords, and everything that
// they refer to. Of a sequence's history, the last min(edit_count, kEditsKept) edits are committed.
// Bytes of `meta` that are not committed are undefined.

// Block group 0 holds every token of a sequence. A block group with a window holds only the most
// recent tokens. The cross group holds the cells of an encoded text.
struct MetaGeometry {
  std::uint32_t block_cells;  // kBlockCells
  std::uint32_t group_count;  // 1..kGroupsMax
  std::uint32_t block_count[kGroupsMax];
  // Window of the group: a query at position p reads cells at positions > p - window; 0: the group
  // has no window.
  std::uint32_t window[kGroupsMax];
  // Index of the cross group, 1..group_count-1; kNoSlot: the model has no cross group.
  std::uint32_t cross_group;
  std::uint32_t sequence_capacity;
  std::uint32_t snapshot_capacity;
  std::uint32_t session_capacity;
  std::uint32_t state_slot_count;
  std::uint32_t list_unit_count;
  std::uint32_t logits_row_count;
  std::uint8_t k_type;  // kernels::DataType numbers
  std::uint8_t v_type;
  std::uint8_t reserved[2];
  // Bytes of one block in `pool`, rounded up to pages. 0 for a group whose layers have no K and V:
  // the group's cells then hold only tokens and positions.
  std::uint64_t block_stride_bytes[kGroupsMax];
  // Bytes of one state slot, rounded up to pages.
  std::uint64_t state_slot_bytes;
  // Bytes of one row of logits, rounded up to pages.
  std::uint64_t logits_row_bytes;
  friend bool operator==(const MetaGeometry&, const MetaGeometry&) = default;
};
static_assert(sizeof(MetaGeometry) == 120 && std::is_standard_layout_v<MetaGeometry>);

struct MetaHeader {
  std::uint64_t magic;             // kMetaMagic
  std::uint32_t version;           // kLayoutVersion
  std::uint32_t header_bytes;      // sizeof(MetaHeader)
  std::uint64_t layout_signature;  // LayoutSignature(): changes when the size of a struct changes
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
  // Number of the pool: its files are in the directory of `meta`, and their names have the number
  // (PoolFileName). Renaming a `meta` therefore replaces `meta` and pool together.
  std::uint64_t pool_number;
  char model_name[kModelNameBytes];  // name of the model, for people; zero padded, may be cut
  // The generation with which new records of sequences begin, above the generation of every record
  // that an earlier, larger `meta` of the same sequences had.
  std::uint32_t first_generation;
  std::uint32_t reserved;
  std::uint32_t header_crc;  // CRC32C of the header's bytes before this field
  // The NumericForm with which all cells and states were computed. A daemon without --deterministic
  // sets this field to 0 when it attaches, so header_crc does not cover numeric_form.
  std::uint32_t numeric_form;
  // The commit word, which is the commit point of all changes: the number of the published redo
  // record, or 0 if no record is being applied. A release store of a nonzero number commits the
  // record in the commit area. A process that attaches and finds a nonzero number applies that
  // record again.
  alignas(64) std::atomic<std::uint64_t> commit_word;
};
static_assert(sizeof(MetaHeader) <= 4096 && std::is_standard_layout_v<MetaHeader>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The header of the redo record. entry_count times {CommitEntry, payload padded to 8 bytes} follow.
struct CommitHeader {
  std::uint64_t number;  // number of the record; equal to commit_word while the record is published
  std::uint32_t entry_count;
  std::uint32_t body_bytes;  // number of bytes of the entries and payloads
  std::uint32_t crc;         // CRC32C of number, entry_count, body_bytes and the body
  std::uint32_t reserved;
};
static_assert(sizeof(CommitHeader) == 24);
struct CommitEntry {
  // Place in `meta` that the payload overwrites: a multiple of 8 within [sequences_offset,
  // lists_offset).
  std::uint64_t offset;
  std::uint32_t payload_bytes;  // number of bytes of the payload, a multiple of 8
  std::uint32_t reserved;
};
static_assert(sizeof(CommitEntry) == 16);

// A list in the arena: entry_count entries starting at unit first_unit, with room for
// capacity_units units. Entries of a list after its first entry_count entries are not committed.
struct ListRoot {
  // First unit of the list in the list arena; kNoSlot if capacity_units is 0.
  std::uint32_t first_unit;
  std::uint32_t capacity_units;
  std::uint32_t entry_count;
  std::uint32_t crc;  // CRC32C of the entries
  friend bool operator==(const ListRoot&, const ListRoot&) = default;
};
static_assert(sizeof(ListRoot) == 16);

// A run of cells in one block as one sequence sees it. The extent covers the sequence's cells
// [start, start of the next extent); the last extent ends at the sequence's cell count in that
// group. Appending a cell to the tail of a block therefore changes only the sequence's cell count.
// Effective position = stored position + delta. The cells of an extent are adjacent: block cells
// first, first + 1, …
struct Extent {
  std::uint32_t block;
  std::uint32_t start;  // ordinal of the extent's first cell in the sequence's list of this group
  std::uint16_t first;  // 0..kBlockCells-1
  std::uint16_t reserved;
  std::int32_t delta;
  friend bool operator==(const Extent&, const Extent&) = default;
};
static_assert(sizeof(Extent) == 16);

// The recurrent state of a sequence after its first cell_count cells.
struct Checkpoint {
  std::uint32_t cell_count;
  std::uint32_t state_slot;
  std::uint32_t reserved[2];
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};
// Extents and checkpoints are entries of the list arena.
static_assert(sizeof(Checkpoint) == sizeof(Extent));

enum SequenceFlags : std::uint32_t {
  kSequenceLive = 1u << 0,
  kSequenceRetained = 1u << 1,
  kSequencePinned = 1u << 2,
  kSequencePublished = 1u << 3,  // the sequence belongs to a snapshot and is immutable
  kSequenceEdited = 1u << 4,     // some cells of the sequence are not pristine
  // No prompt reuses the sequence's cells, and the sequence is dropped when it is released. A copy
  // of cells of an ephemeral sequence is ephemeral too.
  kSequenceEphemeral = 1u << 5,
};

enum SamplerFlags : std::uint32_t {
  // The record holds a sampler; without this flag the whole SamplerRecord is zero.
  kSamplerKept = 1u << 0,
  kSamplerIgnoresEos = 1u << 1,
  kSamplerBiased = 1u << 2,  // the sampler had token biases, which are not stored
  // DRY had other breakers than the default ones; they are not stored.
  kSamplerOwnBreakers = 1u << 3,
  // The sampler draws as llama.cpp does. The next two flags are numbers of 2 bits: how many of the
  // draw_count, and of the xtc_draw_count, the last token has taken.
  kSamplerLlamaDraws = 1u << 4,
  kSamplerDrawLast = 3u << 5,
  kSamplerXtcDrawLast = 3u << 7,
};
inline constexpr std::uint32_t kSamplerDrawLastShift = 5;
inline constexpr std::uint32_t kSamplerXtcDrawLastShift = 7;

// The sampler that drew a sequence's last tokens. A later generation can resume with the sampler
// that a SamplerRecord describes.
struct SamplerRecord {
  std::uint64_t seed;
  std::uint64_t draw_count;
  SamplingParams sampling;
  SamplerAdaptation adaptation;
  // The adaptation before the last draw, for a generation whose last token was removed to compute
  // its logits again.
  SamplerAdaptation adaptation_before;
  std::uint32_t cell_count;  // cells of the sequence including the cell of the last drawn token
  std::uint32_t flags;       // SamplerFlags
  // Number of the sequence's cells before the first token that the grammar read; 0 without a
  // grammar. At most the sequence's cell count.
  std::uint32_t grammar_begin;
  std::uint32_t xtc_draw_count;  // draws of XTC with kSamplerLlamaDraws; otherwise 0
  std::uint64_t grammar_hash;    // wire::GenerateRequest::grammar_hash of the last draw; 0: none
};
static_assert(sizeof(SamplerRecord) == 168 && offsetof(SamplerRecord, sampling) == 16 &&
              offsetof(SamplerRecord, adaptation) == 120);

struct SequenceRecord {
  std::uint32_t generation;  // generation of the handle; raised when the record is freed; never 0
  std::uint32_t flags;       // SequenceFlags; 0: the record is free
  // Edits of the sequence's cells; the next edit is stored at edit_count % kEditsKept.
  std::uint32_t edit_count;
  // Ordinal of the first token that `request` computed. kNoSlot: the sequence was edited after that
  // request computed. 0 if `request` is 0.
  std::uint32_t request_first_cell;
  // The last request that computed tokens of this sequence, and the session of that request. If
  // that request is retried after a restart, it resumes after the tokens that it has computed. 0:
  // no request is recorded.
  std::uint64_t request;
  std::uint64_t request_session;
  // Owner of the sequence: a number that the memory does not interpret; the daemon stores a uid or
  // the number of a tenant.
  std::uint64_t owner;
  std::uint64_t owner_session;   // SessionId
  std::uint64_t namespace_salt;  // salt of the sequence's namespace; 0: the owner's own namespace
  std::uint64_t created_unix_ms;
  // Every commit that changes a SequenceRecord raises its edit_number, except a commit that only
  // moves the sequence's cells to other places.
  std::uint64_t edit_number;
  std::uint32_t cell_count;  // number of cells of group 0, one for each token
  // Number of the sequence's first cells that were computed from position 0 in order.
  std::uint32_t pristine_cells;
  // Position of the next token: the last effective position + 1; 0 for an empty sequence.
  std::int32_t next_pos;
  // Slot with the recurrent state after all cells; kNoSlot: no state is stored, or the state is all
  // zeros.
  std::uint32_t state_slot;
  // Slot with the row of logits of the sequence's last token; kNoSlot: no row is kept.
  std::uint32_t logits_slot;
  // Number of the sequence's cells in the cross group; 0: no text is encoded.
  std::uint32_t cross_cells;
  ListRoot extents[kGroupsMax];
  // Checkpoint entries ordered by cell_count, each at most the record's cell_count.
  ListRoot checkpoints;
  std::uint32_t first_cell[kGroupsMax];  // ordinal of the first cell that a window group holds
  // The request of the session owner_session that created this sequence. 0: not recorded.
  std::uint64_t created_by;
  std::uint64_t parent;        // SequenceHandle of the fork's source; 0: not a fork
  std::uint32_t parent_cells;  // number of the parent's first cells that the fork shares
  // Tokens whose cells the sequence has given back for lack of room, and that the request computes
  // again: the tokens at the ordinals given_from, given_from + 1, … As i32 in the list `given`; of
  // an empty list, given_from is 0. The sequence ends inside the list (given_from <= cell_count),
  // and the commit of the list's last token frees the list.
  std::uint32_t given_from;
  // The time at which the daemon drops the sequence; 0: none.
  std::uint64_t expires_unix_ms;
  ListRoot given;
  SamplerRecord sampler;
};
static_assert(sizeof(SequenceRecord) == 408 && std::is_standard_layout_v<SequenceRecord>);

enum EditKind : std::uint16_t {
  kEditRemoved = 1,
  kEditCopied = 2,  // cells were copied from another sequence into this sequence
  kEditShifted = 3,
  kEditDivided = 4,
};

// One edit of a sequence's cells.
struct EditRecord {
  std::uint64_t unix_ms;
  // Positions [first, end) of the cells before the edit; for kEditCopied, the copied positions.
  std::int32_t first;
  std::int32_t end;
  std::int32_t delta;  // kEditShifted: the shift; kEditDivided: the divisor; else 0
  std::uint16_t kind;  // EditKind
  std::uint16_t verb;  // RequestTag::kind of the request that made the edit; 0: no request
};
static_assert(sizeof(EditRecord) == 24);

struct SnapshotRecord {
  char name[kNameBytesMax];  // name of the snapshot, zero padded; all zero: the record is free
  std::uint64_t sequence;    // SequenceHandle of the published sequence
  std::uint64_t published_unix_ms;
  std::uint64_t owner;      // opaque
  std::uint32_t is_public;  // 1: every owner can fork the snapshot
  std::uint8_t reserved[36];
};
static_assert(sizeof(SnapshotRecord) == 128);

enum AppliedState : std::uint32_t {
  kAppliedEnded = 0,
  kAppliedBegun = 1,  // the request's changes outside `meta` may or may not have happened
};

// An applied request and the numbers of its answer, stored by the commit that makes its change.
struct AppliedRecord {
  std::uint64_t request;  // RequestId; 0: free
  // SequenceHandle of the first sequence that the request created, or of the changed one.
  std::uint64_t sequence;
  std::uint32_t cells;     // the cell count of the verb's answer
  std::uint32_t replayed;  // number of tokens that were replayed
  std::uint16_t verb;
  std::uint16_t created;  // number of created sequences
  std::uint32_t state;    // AppliedState
};
static_assert(sizeof(AppliedRecord) == 32);

// The session of a client that may reconnect. When `applied` is full, the record of a new request
// overwrites the record with the lowest request id.
struct SessionRecord {
  std::uint64_t session;  // SessionId; 0: the record is free
  std::uint64_t owner;    // opaque
  // Data about the client, which the daemon writes and the memory does not interpret.
  std::byte note[kSessionNoteBytes];
  AppliedRecord applied[kAppliedMax];
};
static_assert(sizeof(SessionRecord) == 2064);

// One record per cell of a group. A CellRecord is written before the commit that makes its cell
// reachable, and does not change while the cell is reachable.
struct CellRecord {
  std::int32_t token;
  std::int32_t stored_pos;
  std::uint32_t check;     // CRC32C of token, stored_pos, group, block, cell number and key_form
  std::uint32_t key_form;  // index of the rotation that the cell's keys have, below kKeyFormsMax
};
static_assert(sizeof(CellRecord) == 16);

// Returns a number that changes when any struct of `meta` changes its size. A process that attaches
// to `meta` compares LayoutSignature() with MetaHeader::layout_signature.
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
// Cursors count from 0 and never wrap. An entry's index is cursor % entries; an output's position
// is cursor % arena bytes.

struct RequestsHeader {
  std::uint64_t magic;  // kRequestsMagic, which the daemon writes when it creates the segment
  // Number of ring entries, a power of two; the daemon trusts only its own copy of this number.
  std::uint32_t submission_entries;
  std::uint32_t reserved0;
  std::uint64_t arena_offset;
  std::uint64_t arena_bytes;
  alignas(64) std::atomic<std::uint64_t> submission_tail;  // entries written
  alignas(64) std::atomic<std::uint64_t> completion_head;  // completions read
  // Number of bytes of the output arena that the client has released.
  std::atomic<std::uint64_t> output_released;
  // 1: the daemon rings the doorbell when it writes a completion.
  alignas(64) std::atomic<std::uint32_t> client_sleeps;
};
static_assert(std::is_standard_layout_v<RequestsHeader> && sizeof(RequestsHeader) == 256);

// Values of ResultsHeader::daemon_sleeps. With kDaemonSleeps, the client makes no system call for a
// release, because the daemon does not wait for releases.
enum DaemonSleep : std::uint32_t {
  kDaemonAwake = 0,   // the daemon polls the rings, so the client need not ring the doorbell
  kDaemonSleeps = 1,  // the client must ring the doorbell after a submission
  // An answer waits for room: the client must ring the doorbell also after reading completions or
  // releasing output.
  kDaemonStalled = 2,
};

struct ResultsHeader {
  std::uint64_t magic;               // kResultsMagic
  std::uint32_t completion_entries;  // number of ring entries, a power of two
  std::uint32_t reserved0;
  std::uint64_t arena_offset;
  std::uint64_t arena_bytes;
  // Number of submissions copied by the daemon; the client may reuse their entries and payloads.
  alignas(64) std::atomic<std::uint64_t> submission_head;
  alignas(64) std::atomic<std::uint64_t> completion_tail;  // number of completions written
  alignas(64) std::atomic<std::uint32_t> daemon_sleeps;    // DaemonSleep
};
static_assert(std::is_standard_layout_v<ResultsHeader> && sizeof(ResultsHeader) == 256);

inline constexpr std::uint64_t kRequestsMagic = 0x315145525f44564bull;  // "KVD_REQ1"
inline constexpr std::uint64_t kResultsMagic = 0x315345525f44564bull;   // "KVD_RES1"

}  // namespace kvd::layout
