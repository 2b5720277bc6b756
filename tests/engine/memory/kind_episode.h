// KindEpisode: random operations on a memory of one kind (Kind lists them) and on the naive
// reference; for memory_kinds_model_test.
//
// The bytes of the pool identify their content: the K row of a cell holds the identity of the cell,
// a recurrent state holds a sum over the sequence's tokens, and a row of logits holds the same sum.
// An operation computes the expected error code with the reference, calls the memory and compares
// the memory's error code with the expected one (Judge). If the memory has succeeded, the operation
// is applied to the reference too, and the whole memory is compared with the reference (Check).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/memory/holds_and_restores.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/model_run.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd::memory_model {

// kLatent and kLatentHybrid: a cell has a K row and no V row. kOnlyWindow: no layer without a
// window has cells of its own, so the cells of group 0 have no bytes. A layer that reads the cells
// of another layer takes no part in the memory, so it needs no kind of its own.
enum class Kind {
  kAttention,
  kWindow,
  kRecurrent,
  kHybrid,
  kWindowHybrid,
  kEncoder,
  kLatent,
  kLatentHybrid,
  kOnlyWindow,
};
inline constexpr int kKindCount = 9;

// The content of a recurrent state in these tests: a sum over the tokens of the sequence.
using Sum = std::uint64_t;
inline constexpr Sum kSumOfNothing = 0x9e3779b97f4a7c15ull;
inline Sum AddToSum(Sum sum, TokenId token) {
  return (sum ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ull + 1;
}
inline Sum SumOf(std::span<const ReferenceCell> cells) {
  Sum sum = kSumOfNothing;
  for (const ReferenceCell& cell : cells) sum = AddToSum(sum, cell.token);
  return sum;
}

// Counts of operations, summed over all episodes of a run.
struct KindTally {
  std::uint64_t operations = 0, done = 0, refused = 0;
  std::map<std::string, std::uint64_t> codes;  // key: verb, a space, code name
};

// A memory, its reference, and the operations on both. Mismatches are reported as gtest failures of
// the running test.
class KindEpisode {
 public:
  // Creates a memory of the kind. The memory's capacities are drawn at random and often too small
  // for the operations. REQUIRES: `tally` outlives the episode.
  KindEpisode(std::uint64_t seed, Kind kind, KindTally* tally);

  // Runs one random operation. A step, a rewind, an encoding or a restore may be interrupted by
  // further operations, which run inside this call.
  void Operate();

 private:
  // ---- drawing (kind_episode.cc)
  std::int64_t In(std::int64_t least, std::int64_t most) { return random_.In(least, most); }
  bool OneIn(int chances) { return random_.OneIn(chances); }
  std::uint64_t Cells(std::int64_t least, std::int64_t most) {
    return static_cast<std::uint64_t>(In(least, most)) * layout::kBlockCells;
  }
  // Returns the handle of a random live sequence, or sometimes a handle that names no sequence.
  SequenceHandle Any();
  // Returns the position of a random cell of the sequence; 0 if the sequence has no cells.
  std::int32_t AnyPosition(SequenceHandle handle);
  PosRange AnyRange(SequenceHandle handle);

  // ---- what the bytes say (kind_episode_checks.cc)
  const layout::SequenceRecord& Record(SequenceHandle handle) const {
    return meta_.sequences()[IndexOf(handle)];
  }
  // Returns a checksum of the records of sequences, snapshots and sessions.
  std::uint32_t Digest() const;
  bool has_bytes(std::uint32_t group) const {
    return meta_.geometry().block_stride_bytes[group] != 0;
  }
  // Returns the address of a cell's K row, which holds the identity of the cell. REQUIRES:
  // has_bytes(group).
  std::uint32_t* Tag(std::uint32_t group, std::uint32_t block, std::uint32_t cell) const;
  Sum StateIn(std::uint32_t slot) const;
  void WriteState(std::uint32_t slot, Sum sum) const;
  bool HasCheckpoint(SequenceHandle handle, std::size_t cells) const;
  // Whether the window of a token at position `next` after `cells` contains a dropped cell.
  bool IsLost(const std::vector<ReferenceCell>& cells, std::int64_t next) const;
  bool IsLost(const ReferenceMemory& after, SequenceHandle handle) const;

  // ---- after an operation (kind_episode_checks.cc)
  // Expects the memory's error code to equal `expected`; kNoSpace is accepted where kOk or
  // kWindowLost is expected. Returns true if the memory has succeeded and the operation is to be
  // applied to the reference.
  bool Judge(const char* verb, Code expected, const Status& actual);
  template <class T>
  bool Judge(const char* verb, Code expected, const Result<T>& actual) {
    return Judge(verb, expected, actual ? Status{} : Status(std::unexpected(actual.error())));
  }
  // Compares the tables, cells, states and free resources of the memory with the reference. Unless
  // the operation `may_change` the records, expects them to be unchanged.
  void Check(bool may_change);
  void ExpectNothingLeaks() const;
  void ExpectCells(SequenceHandle handle, ReferenceSequence* sequence);
  // Marks the cells before `first_cell` as dropped in the reference. Expects that no dropped cell
  // has returned and that all dropped cells lie outside the window of the next token.
  void DropCells(std::uint32_t first_cell, ReferenceSequence* sequence) const;
  void ExpectState(SequenceHandle handle, const ReferenceSequence& sequence);
  // Expects that the blocks, cells and states of the hold have the content that the sequence had
  // when the hold began: `cells` and `text`.
  void ExpectHeld(const SequenceHold& hold, const std::vector<ReferenceCell>& cells,
                  const std::vector<std::uint32_t>& text) const;

  // ---- verbs (kind_episode_edits.cc)
  void Verb();
  void Create();
  void Fork();
  void Copy();
  static void DropBefore(ReferenceSequence* sequence);
  Code ExpectedRemoval(SequenceHandle handle, PosRange range);
  void Remove();
  void Drop();
  void Bury(SequenceHandle handle);
  void Add();
  void Publish();
  void Retain();
  void Keep();

  // ---- rewriting, packing (kind_episode_edits.cc)
  // One rewritten cell. Several cells of a sequence may share one K row, so a cell is identified by
  // its index `at` in the sequence and not by `old_id`.
  struct Rewritten {
    std::uint32_t at, old_id, new_id;
  };
  class TagRotator;
  void Rewrite();
  void Defragment();

  // ---- steps (kind_episode_decodes.cc)
  struct Part {
    SequenceHandle handle = SequenceHandle::kNone;
    std::vector<TokenId> tokens;
    std::uint32_t first_id = 0;
    std::uint64_t content_number = 0;
    Sum sum_before = 0;
  };
  Code ExpectedAppend(const Part& part, std::int64_t pos);
  void Step();
  // Checks the reservation of the part and writes its new cells and its state, as a forward pass
  // would.
  void Compute(Part* part, const StepSequence& step);
  // Commits or abandons the part.
  void EndPart(const Part& part, StepPlan* plan, std::size_t index);

  // ---- going back (kind_episode_decodes.cc)
  // Removes a range of a sequence that has a recurrent state by a rewind. Verbs and steps may run
  // between the slices of the replay.
  void GoBack();

  // ---- holds and restores (kind_episode_restores.cc)
  // Gives a sequence its encoded text. Other operations may run between the reservation and the
  // commit.
  void Encode();
  // Runs a random number of verbs, steps and defragmentation slices, possibly none.
  void Meanwhile();
  // Holds a sequence and restores its content into another sequence. Other operations run between
  // the steps of the hold and of the restore.
  void SaveAndRestore();
  void RestoreFrom(const SequenceHold& hold, const std::vector<ReferenceCell>& cells,
                   const std::vector<std::uint32_t>& text);
  void Fill(const Restore& restore, const std::vector<ReferenceCell>& cells,
            const std::vector<std::uint32_t>& text);

  Random random_;
  KindTally* tally_;
  const bool has_state_;
  const bool has_encoder_;
  std::uint32_t window_ = 0;
  std::unique_ptr<Memory> memory_;
  ConstMetaView meta_;
  ReferenceMemory reference_;
  std::map<SequenceHandle, std::vector<std::uint32_t>> texts_;  // K identities of the encoded cells
  std::uint32_t next_id_ = 1;
  std::uint32_t digest_ = 0;
  bool step_is_open_ = false;
  bool rewind_is_open_ = false;
  int lent_ = 0;  // number of open holds and restores
  const char* verb_ = "";
};

}  // namespace kvd::memory_model
