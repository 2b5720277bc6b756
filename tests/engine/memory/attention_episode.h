// AttentionEpisode: random operations on a memory with one full-attention group and on the naive
// reference; for memory_model_test. The size of the memory is random and mostly so small that space
// runs out often.
//
// An operation draws its arguments, computes the expected error code with the reference, calls the
// memory and compares the memory's error code with the expected one (Judge). If the memory has
// succeeded, the operation is applied to the reference, and the whole memory is compared with the
// reference (Check). Cells are identified by the tags that MemoryInspector writes and reads. For
// some operations the bytes of `meta` are copied at each moment of the commit, as a kill at that
// moment would leave them, and each copy is recovered.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/engine/memory/memory_inspector.h"
#include "tests/engine/memory/model_run.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd::memory_model {

// Counts of operations, summed over all episodes of a run.
struct Tally {
  std::uint64_t operations = 0, succeeded = 0, refused = 0, no_space = 0, conflicts = 0;
  std::uint64_t long_operations = 0;  // operations on a sequence of more than three blocks
  std::uint64_t probed_commits = 0;
  // counts: done, refused, without space
  std::map<std::string, std::array<std::uint64_t, 3>> by_verb;
};

// A memory, its reference, and the operations on both. Mismatches are reported as gtest failures of
// the running test.
class AttentionEpisode {
 public:
  // Creates a memory whose capacities are drawn at random. REQUIRES: `tally` outlives the episode.
  AttentionEpisode(std::uint64_t seed, Tally* tally);

  // Runs one random operation. A step, a rewrite or a defragmentation may be interrupted by further
  // verbs, which run inside this call.
  void Operate();

 private:
  // a commit is probed in one of kProbeEvery operations on average
  static constexpr int kProbeEvery = 40;

  // ---- choosing arguments (attention_episode.cc)
  // Returns a random handle: usually of a live sequence, with a preference for long sequences and
  // for those in `hot_`; sometimes of a dropped sequence, or one that never existed. Updates
  // `longest_drawn_`.
  SequenceHandle AnyHandle();
  SequenceHandle DrawHandle();  // the same without updating longest_drawn_
  SequenceOwner AnyOwner();
  PosRange AnyRange(SequenceHandle handle);
  // Returns the positions of one or more consecutive whole extents of the sequence.
  PosRange AnyWholeExtents(SequenceHandle handle);
  std::int32_t AnyDelta(PosRange range);
  std::size_t AnyTokenCount();
  std::string AnyName() { return "name" + std::to_string(random_.In(0, 3)); }

  // ---- after an operation (attention_episode_checks.cc)
  template <class T>
  static Status ToStatus(const Result<T>& result) {
    if (!result) return std::unexpected(result.error());
    return {};
  }
  // Expects the memory's error code to equal `expected`; kNoSpace for lack of cells or list room is
  // accepted if `may_lack_space`. Returns true if the memory has succeeded and the operation is to
  // be applied to the reference.
  bool Judge(const char* verb, Code expected, const Status& actual, bool may_lack_space);
  // Compares the records, tables, cells and bytes of the memory with the reference. Unless the
  // operation `succeeded`, expects the records to be unchanged.
  void Check(bool succeeded);
  // Expects that no block of the running step is free. A step reads its copy of the extents without
  // the lock, so verbs must not free blocks to which these extents refer.
  void ExpectStepKeepsItsBlocks() const;
  // In one of kProbeEvery operations, makes the commit log copy the bytes of `meta` at each moment
  // of the next commit, as a kill at that moment would leave them.
  void ArmMoments();
  // Expects each copy to recover either to the records before the operation or to those after it.
  void CheckMoments(std::uint32_t digest_after);

  // ---- verbs (attention_episode_verbs.cc)
  void Verb();
  void Create();
  void Fork();
  void CopyRange();
  void RemoveRange();
  void Clear();
  void Drop();
  void DropTwo();
  void Keep();
  void AddPositions();
  void Publish();
  void Unpublish();
  void SetOwner();
  // Removes the sequence from the reference and adds its handle to `dead_`, from which DrawHandle
  // may return it.
  void Bury(SequenceHandle handle);

  // ---- rewriting cells (attention_episode_rewrites.cc)
  void Divide();
  void Settle();
  bool HasShifted(SequenceHandle handle) const;
  // Moves cells to other blocks. Defragmentation does not change the content of any sequence.
  void Defragment();
  using RewriteCall = std::function<Result<std::uint32_t>(CellRotator&)>;
  // Calls `call`, which rewrites `cells` of the sequence. In some calls the rotator fails or other
  // verbs run during the rewrite. Returns true if the rewrite has succeeded and is to be applied to
  // the reference.
  bool Rewrite(const char* verb, SequenceHandle handle, Code expected,
               std::vector<ReferenceCell> cells, std::int32_t divisor, const RewriteCall& call);
  // Rewrites in slices of 1 to 40 cells and runs other verbs between some of the slices.
  Result<std::uint32_t> RewriteInSlices(const RewriteRequest& request, CellRotator& rotator);
  // Runs one or more verbs on another thread, because the rewriting thread holds the memory's
  // growth mutex. The verbs prefer the sequence `rewritten`.
  void Interrupt(SequenceHandle rewritten);

  // ---- steps (attention_episode_steps.cc)
  struct Part {
    SequenceHandle handle = SequenceHandle::kNone;
    std::vector<TokenId> tokens;
    Pos pos;
    std::uint32_t first_id = 0;
    std::uint64_t content_number = 0;
  };
  void Step();
  // Checks the reservation of the part and writes the tags of its new cells, as a forward pass
  // would write the cells.
  void WriteTags(Part* part, const StepSequence& reserved);
  // Commits or abandons the part.
  void EndPart(const Part& part, std::size_t index);

  Random random_;
  Tally* tally_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<MemoryInspector> inspector_;
  ReferenceMemory reference_;
  StepPlan plan_;
  std::vector<SequenceHandle> dead_;
  std::vector<SequenceHandle> hot_;  // sequences that the running step or rewrite changes
  std::vector<MetaCopy> moments_;
  // the operation in progress makes one commit for each sequence
  bool has_several_commits_ = false;
  std::uint32_t next_id_ = 1;
  std::uint32_t digest_ = 0;
  bool step_is_running_ = false;
  std::size_t longest_drawn_ = 0;  // largest cell count of the sequences chosen for the operation
  const char* verb_ = "";
};

}  // namespace kvd::memory_model
