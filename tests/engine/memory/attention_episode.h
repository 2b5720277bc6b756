// A memory of attention alone, of random size and mostly so small that space runs out often, beside
// the naive reference, and random operations on both; for memory_model_test.
//
// An operation draws its arguments, asks the reference what should come of it, asks the memory, has
// the two judged, does to the reference what the memory has done, and has everything compared.
// Cells are told apart by the tags that MemoryInspector writes and reads. Now and then the bytes
// are copied at each moment of a commit, as a kill would leave them, and recovered.
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

// Of all episodes of a run.
struct Tally {
  std::uint64_t operations = 0, succeeded = 0, refused = 0, no_space = 0, conflicts = 0;
  std::uint64_t long_operations = 0;  // on a sequence of more than three blocks
  std::uint64_t probed_commits = 0;
  std::map<std::string, std::array<std::uint64_t, 3>> by_verb;  // done, refused, without space
};

// A memory, its reference, and the operations on both. REQUIRES: `tally` outlives it. Failures are
// those of the test in progress.
class AttentionEpisode {
 public:
  // A fresh memory; its room is drawn at random.
  AttentionEpisode(std::uint64_t seed, Tally* tally);

  // One operation and, if it is a step, those that interrupt it.
  void Operate();

 private:
  static constexpr int kProbeEvery = 40;  // operations, on average

  // ---- choosing arguments (attention_episode.cc)
  // A live sequence, long ones and those being computed more often; now and then a dead one's, or
  // nobody's. Notes how long it is.
  SequenceHandle AnyHandle();
  SequenceHandle DrawHandle();  // without the note
  SequenceOwner AnyOwner();
  PosRange AnyRange(SequenceHandle handle);
  // Of some extents side by side.
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
  // The memory's answer against the reference's. True if the reference should do it too.
  bool Judge(const char* verb, Code expected, const Status& actual, bool may_lack_space);
  // Compares everything: records, tables, cells, bytes. An operation that has not succeeded has
  // changed no record.
  void Check(bool succeeded);
  // A step reads its snapshot of the extents without the lock: whatever the verbs do, those blocks
  // are not handed out.
  void ExpectStepKeepsItsBlocks() const;
  // Every now and then the bytes are copied at each moment of the operation's commit, as a kill
  // would leave them.
  void ArmMoments();
  // Each copy recovers to the records before the operation or to those after it.
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
  // Removes it from the reference; its handle may be drawn later on.
  void Bury(SequenceHandle handle);

  // ---- rewriting cells (attention_episode_rewrites.cc)
  void Divide();
  void Settle();
  bool HasShifted(SequenceHandle handle) const;
  // Moves cells and changes nothing that anyone could see.
  void Defragment();
  using RewriteCall = std::function<Result<std::uint32_t>(CellRotator&)>;
  // Rewrites `cells` of the sequence by `call`; now and then the rotator fails, or other verbs come
  // in between. True if the reference should do it too.
  bool Rewrite(const char* verb, SequenceHandle handle, Code expected,
               std::vector<ReferenceCell> cells, std::int32_t divisor, const RewriteCall& call);
  // Other verbs while cells are rewritten. From a thread of their own, as a daemon would: the one
  // that rewrites holds the memory's growth mutex.
  Result<std::uint32_t> RewriteInSlices(const RewriteRequest& request, CellRotator& rotator);
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
  // Checks what was reserved, and writes the new cells' tags as a forward pass would.
  void WriteTags(Part* part, const StepSequence& reserved);
  // Commits or abandons it.
  void EndPart(const Part& part, std::size_t index);

  Random random_;
  Tally* tally_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<MemoryInspector> inspector_;
  ReferenceMemory reference_;
  StepPlan plan_;
  std::vector<SequenceHandle> dead_;
  std::vector<SequenceHandle> hot_;  // being computed
  std::vector<MetaCopy> moments_;
  bool has_several_commits_ = false;  // the operation in progress: one for each sequence
  std::uint32_t next_id_ = 1;
  std::uint32_t digest_ = 0;
  bool step_is_running_ = false;
  std::size_t longest_drawn_ = 0;  // cells of the sequences chosen for the operation
  const char* verb_ = "";
};

}  // namespace kvd::memory_model
