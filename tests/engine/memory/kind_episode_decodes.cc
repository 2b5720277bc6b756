// Operations of an episode that compute: steps, and the replays of rewinds.
#include "tests/engine/memory/kind_episode.h"
#include "tests/support/into.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace kvd::memory_model {

Code KindEpisode::ExpectedAppend(const Part& part, std::int64_t pos) {
  if (const Code code = reference_.CheckMutable(part.handle); code != Code::kOk) return code;
  if (has_encoder_ && texts_[part.handle].empty()) return Code::kInvalidArgument;
  return reference_.CheckAppend(part.handle, pos, part.tokens.size());
}

void KindEpisode::Step() {
  std::vector<Part> parts(OneIn(3) ? 2 : 1);
  std::vector<AppendRequest> requests;
  std::set<SequenceHandle> taken;
  Code expected = Code::kOk;
  for (Part& part : parts) {
    part.handle = Any();
    const bool is_taken = !taken.insert(part.handle).second;
    part.tokens.resize(static_cast<std::size_t>(OneIn(3) ? In(30, 150) : In(1, 12)));
    for (TokenId& token : part.tokens) token = static_cast<TokenId>(In(0, 999));
    const ReferenceSequence* sequence = reference_.Find(part.handle);
    const std::int64_t pos = sequence == nullptr ? 0 : sequence->next_pos();
    requests.push_back(
        {.handle = part.handle, .pos = Pos{static_cast<std::int32_t>(pos)}, .tokens = part.tokens});
    if (expected != Code::kOk) continue;
    expected = ExpectedAppend(part, pos);
    if (expected != Code::kNotFound && expected != Code::kPermission && is_taken) {
      expected = Code::kInvalidArgument;
    }
  }
  for (auto at = texts_.begin(); at != texts_.end();) {
    at = reference_.Find(at->first) == nullptr ? texts_.erase(at) : std::next(at);
  }
  StepPlan plan;
  const bool reserved = Judge("reserve", expected, memory_->steps().Reserve(requests, plan));
  if (!reserved) {
    EXPECT_LT(plan.failed, parts.size());
    return Check(false);
  }
  step_is_open_ = true;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    Compute(&parts[index], plan.sequences[index]);
  }
  Check(has_state_);
  while (OneIn(3) && !testing::Test::HasFatalFailure()) Verb();
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (testing::Test::HasFatalFailure()) return;
    EndPart(parts[index], &plan, index);
  }
  memory_->steps().EndStep(plan);
  step_is_open_ = false;
  verb_ = "end step";
  Check(true);
}

void KindEpisode::Compute(Part* part, const StepSequence& step) {
  const ReferenceSequence& sequence = *reference_.Find(part->handle);
  part->content_number = sequence.content_number;
  part->first_id = next_id_;
  next_id_ += static_cast<std::uint32_t>(part->tokens.size());
  part->sum_before = SumOf(sequence.cells);
  for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
    const GroupPart& cells = step.groups[group];
    const bool is_cross = group == meta_.geometry().cross_group;
    const std::size_t past = is_cross ? texts_[part->handle].size() : sequence.cells.size();
    ASSERT_EQ(cells.cell_count, past + (is_cross ? 0 : part->tokens.size()));
    ASSERT_EQ(cells.first_cell, cells.view().first_cell());
    if (is_cross) {
      ASSERT_EQ(cells.first_new_extent, cells.extents.size());
    }
    for (std::uint32_t at = cells.first_cell; at < cells.cell_count; ++at) {
      const std::size_t e = FindExtent(cells.view(), at);
      const layout::Extent& extent = cells.extents[e];
      ASSERT_FALSE(memory_->is_free_block(group, extent.block));
      if (!has_bytes(group)) continue;
      std::uint32_t* const tag = Tag(group, extent.block, extent.first + (at - extent.start));
      if (at >= past) {
        ASSERT_GE(e, cells.first_new_extent);
        *tag = part->first_id + (at - static_cast<std::uint32_t>(past));
      } else {
        ASSERT_EQ(*tag, is_cross ? texts_[part->handle][at] : sequence.cells[at].k_id);
      }
    }
  }
  if (!has_state_) return;
  ASSERT_EQ(StateIn(step.state_from), part->sum_before);
  Sum sum = part->sum_before;
  for (const TokenId token : part->tokens) sum = AddToSum(sum, token);
  WriteState(step.state_to, sum);
}

void KindEpisode::EndPart(const Part& part, StepPlan* plan, std::size_t index) {
  const StepSequence& step = plan->sequences[index];
  if (has_state_) {  // verbs must not have reused the slot that the step reads
    ASSERT_EQ(StateIn(step.state_from), part.sum_before);
  }
  if (OneIn(5)) {  // like a step after an error of a kernel or a cancellation
    memory_->steps().Abandon(*plan, index);
    verb_ = "abandon";
    return Check(false);
  }
  const ReferenceSequence* sequence = reference_.Find(part.handle);
  const bool conflicts = sequence == nullptr || sequence->content_number != part.content_number;
  const bool done = Judge("commit", conflicts ? Code::kConflict : Code::kOk,
                          memory_->steps().Commit(*plan, index));
  if (done) reference_.Append(part.handle, part.tokens, part.first_id);
  Check(done);
  if (!done || !has_state_) return;
  if (OneIn(3)) Keep();
  if (OneIn(3)) {
    const Sum sum = SumOf(reference_.Find(part.handle)->cells);
    float row[2];
    std::memcpy(row, &sum, sizeof sum);
    Check(Judge("keep logits", Code::kOk, memory_->states().KeepLogits(part.handle, row)));
  }
}

void KindEpisode::GoBack() {
  const SequenceHandle handle = Any();
  const PosRange range = AnyRange(handle);
  Code expected = reference_.CheckRemove(handle, range);
  if (expected == Code::kOk && reference_.CountIn(handle, range) == 0) {
    expected = Code::kInvalidArgument;
  }
  Rewind rewind;
  std::vector<ReferenceCell> cells;
  if (expected == Code::kOk) {
    ReferenceMemory after = reference_;
    after.Remove(handle, range);
    cells = after.Find(handle)->cells;
  }
  const Status begun = Into(memory_->states().BeginRewind(handle, range), &rewind);
  // kWindowLost depends on the checkpoint at which the replay starts, which the reference does not
  // model.
  if (expected == Code::kOk && !begun && begun.error().code == Code::kWindowLost) {
    EXPECT_NE(window_, 0u);
    expected = Code::kWindowLost;
  }
  if (!Judge("begin rewind", expected, begun)) return Check(false);
  rewind_is_open_ = true;
  ASSERT_EQ(rewind.cell_count, cells.size());
  ASSERT_EQ(rewind.tokens.size(), cells.size() - rewind.replay_from);
  const std::uint64_t content_number = reference_.Find(handle)->content_number;
  if (!rewind.tokens.empty()) {
    EXPECT_FALSE(IsLost(cells, rewind.positions[0].value));
  }
  Check(true);
  Sum sum = SumOf(std::span(cells).first(rewind.replay_from));
  while (rewind.done < rewind.tokens.size() && !testing::Test::HasFatalFailure()) {
    if (OneIn(3)) {
      if (OneIn(2))
        Verb();
      else
        Step();
    }
    // The verbs and steps in between have not changed the state of the replay.
    ASSERT_EQ(StateIn(rewind.done == 0 ? rewind.state_from : rewind.last_slot), sum);
    const std::size_t end = std::min<std::size_t>(rewind.tokens.size(), rewind.done + 20);
    for (; rewind.done < end; ++rewind.done) sum = AddToSum(sum, rewind.tokens[rewind.done]);
    rewind.last_slot = rewind.last_slot == rewind.slots[0] ? rewind.slots[1] : rewind.slots[0];
    WriteState(rewind.last_slot, sum);
  }
  if (testing::Test::HasFatalFailure()) return;
  rewind_is_open_ = false;
  if (OneIn(6)) {
    rewind.reservation.End();
    verb_ = "abandon rewind";
    return Check(false);
  }
  const ReferenceSequence* sequence = reference_.Find(handle);
  const bool conflicts = sequence == nullptr || sequence->content_number != content_number;
  expected = conflicts ? Code::kConflict : Code::kOk;
  if (!conflicts && IsLost(cells, cells.empty() ? 0 : cells.back().position + 1)) {
    expected = Code::kWindowLost;
  }
  const bool done = Judge("commit rewind", expected, memory_->states().CommitRewind(rewind));
  if (done) reference_.Remove(handle, range);
  Check(done);
}

}  // namespace kvd::memory_model
