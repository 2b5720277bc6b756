// One memory of a kind (attention, window, recurrent, both, with an encoder) beside the naive
// reference, and random operations on both; for memory_kinds_model_test.
//
// Truth lies in the bytes: a cell's K row holds its identity, a state is a sum over the tokens that
// it has seen, a row of logits repeats that sum. An operation asks the reference what should come
// of it (its code, and the sequence behind it), asks the memory, has the two judged, does to the
// reference what the memory has done, and has everything compared.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/memory/hold_and_restore.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/model_run.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd::memory_model {

enum class Kind { kAttention, kWindow, kRecurrent, kHybrid, kWindowHybrid, kEncoder };
inline constexpr int kKindCount = 6;

// What a state is: a sum over the tokens that it has seen.
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

// Of all episodes of a run.
struct KindTally {
  std::uint64_t operations = 0, done = 0, refused = 0;
  std::map<std::string, std::uint64_t> codes;  // "verb code"
};

// A memory, its reference, and the operations on both. REQUIRES: `tally` outlives it. Failures are
// those of the test in progress.
class KindEpisode {
 public:
  // A fresh memory of that kind, its room drawn at random and often short.
  KindEpisode(std::uint64_t seed, Kind kind, KindTally* tally);

  // One operation and, if it is a step, a replay or a restore, those that interrupt it.
  void Operate();

 private:
  // ---- drawing (kind_episode.cc)
  std::int64_t In(std::int64_t least, std::int64_t most) { return random_.In(least, most); }
  bool OneIn(int chances) { return random_.OneIn(chances); }
  std::uint64_t Cells(std::int64_t least, std::int64_t most) {
    return static_cast<std::uint64_t>(In(least, most)) * layout::kBlockCells;
  }
  // A live sequence; now and then a handle of none.
  SequenceHandle Any();
  // Of one of its cells; 0 if it has none.
  std::int32_t AnyPosition(SequenceHandle handle);
  PosRange AnyRange(SequenceHandle handle);

  // ---- what the bytes say (kind_episode_checks.cc)
  const layout::SequenceRecord& Record(SequenceHandle handle) const {
    return meta_.sequences()[IndexOf(handle)];
  }
  // Of the records of sequences, snapshots and sessions.
  std::uint32_t Digest() const;
  bool has_bytes(std::uint32_t group) const {
    return meta_.geometry().block_stride_bytes[group] != 0;
  }
  // The identity that a cell's K row holds. REQUIRES: the group has_bytes.
  std::uint32_t* Tag(std::uint32_t group, std::uint32_t block, std::uint32_t cell) const;
  Sum StateIn(std::uint32_t slot) const;
  void WriteState(std::uint32_t slot, Sum sum) const;
  bool HasCheckpoint(SequenceHandle handle, std::size_t cells) const;
  // Whether a token behind these cells reaches a dropped one, or one before a dropped one.
  bool IsLost(const std::vector<ReferenceCell>& cells, std::int64_t next) const;
  bool IsLost(const ReferenceMemory& after, SequenceHandle handle) const;

  // ---- after an operation (kind_episode_checks.cc)
  // The memory's answer against the reference's; want of room excuses a refusal. True if the
  // reference should do it too.
  bool Judge(const char* verb, Code expected, const Status& actual);
  template <class T>
  bool Judge(const char* verb, Code expected, const Result<T>& actual) {
    return Judge(verb, expected, actual ? Status{} : Status(std::unexpected(actual.error())));
  }
  // Compares everything: tables, cells, states, what is free. Unless the operation `may_change`
  // the records, they are as they were.
  void Check(bool may_change);
  void ExpectNothingLeaks() const;
  void ExpectCells(SequenceHandle handle, ReferenceSequence* sequence);
  // What is dropped stays so, and nothing in reach goes.
  void DropCells(std::uint32_t first_cell, ReferenceSequence* sequence) const;
  void ExpectState(SequenceHandle handle, const ReferenceSequence& sequence);
  // The blocks, cells and states that a hold keeps are those of the sequence as it was.
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
  // A cell that is rewritten: the same K may lie behind several cells of a sequence, so what a cell
  // becomes goes by its place.
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
  // Checks what was reserved, and writes the cells and the state as a forward pass would.
  void Compute(Part* part, const StepSequence& step);
  // Commits or abandons it.
  void EndPart(const Part& part, StepPlan* plan, std::size_t index);

  // ---- going back (kind_episode_decodes.cc)
  // Removes a range of a sequence with a state by a replay, others in between.
  void GoBack();

  // ---- holds and restores (kind_episode_restores.cc)
  // Gives a sequence the text that it attends to, others in between.
  void Encode();
  // Random verbs, steps and packing, none or some.
  void Meanwhile();
  // Holds a sequence, brings what the hold says back as another one, others in between.
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
  std::map<SequenceHandle, std::vector<std::uint32_t>> texts_;  // ids of the encoded cells
  std::uint32_t next_id_ = 1;
  std::uint32_t digest_ = 0;
  bool step_is_open_ = false;
  bool rewind_is_open_ = false;
  int lent_ = 0;  // holds and restores that are open
  const char* verb_ = "";
};

}  // namespace kvd::memory_model
