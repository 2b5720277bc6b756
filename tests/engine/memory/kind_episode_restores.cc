// Operations of an episode that save, restore and encode while other operations run.
#include "tests/engine/memory/kind_episode.h"
#include "tests/support/into.h"

#include <cstring>
#include <iterator>

namespace kvd::memory_model {

void KindEpisode::Meanwhile() {
  while (OneIn(2) && !testing::Test::HasFatalFailure()) {
    if (step_is_open_ || OneIn(2)) {
      Verb();
    } else if (OneIn(4)) {
      Defragment();
    } else {
      Step();
    }
  }
}

void KindEpisode::SaveAndRestore() {
  const SequenceHandle source = Any();
  const ReferenceSequence* found = reference_.Find(source);
  SequenceHold hold;
  const Code expected = found == nullptr ? Code::kNotFound : Code::kOk;
  if (!Judge("hold", expected, memory_->holds().Begin(source, &hold))) return Check(false);
  ++lent_;
  const std::vector<ReferenceCell> cells = found->cells;
  const std::vector<std::uint32_t> text = texts_[source];
  ASSERT_NO_FATAL_FAILURE(ExpectHeld(hold, cells, text));
  ASSERT_NO_FATAL_FAILURE(Check(false));
  ASSERT_NO_FATAL_FAILURE(Meanwhile());
  ASSERT_NO_FATAL_FAILURE(ExpectHeld(hold, cells, text));
  ASSERT_NO_FATAL_FAILURE(RestoreFrom(hold, cells, text));
  ASSERT_NO_FATAL_FAILURE(ExpectHeld(hold, cells, text));
  memory_->holds().Release(hold);
  --lent_;
  verb_ = "release hold";
  Check(false);
}

void KindEpisode::RestoreFrom(const SequenceHold& hold, const std::vector<ReferenceCell>& cells,
                              const std::vector<std::uint32_t>& text) {
  const Result<SequenceHandle> fresh =
      memory_->sequences().Create({OwnerId{1000}, SessionId{1}, 0});
  const bool is_created = Judge("create", reference_.CheckRoom(1), fresh);
  if (is_created) reference_.sequences[*fresh] = {};
  Check(is_created);
  if (!is_created) return;
  const SequenceHandle handle = OneIn(10) ? Any() : *fresh;
  std::vector<TokenId> tokens, cross_tokens(text.size(), 7);
  std::vector<Pos> positions;
  for (const ReferenceCell& cell : cells) {
    tokens.push_back(cell.token);
    positions.push_back(Pos{static_cast<std::int32_t>(cell.position)});
  }
  std::vector<std::uint32_t> checkpoints;
  for (const layout::Checkpoint& at : hold.checkpoints) checkpoints.push_back(at.cell_count);
  RestoreRequest request{.handle = handle,
                         .tokens = tokens,
                         .positions = positions,
                         .cross_tokens = cross_tokens,
                         .has_state = has_state_ && !cells.empty(),
                         .checkpoint_cells = checkpoints,
                         .has_logits = hold.logits_slot != layout::kNoSlot};
  for (std::uint32_t group = 1; group < hold.group_count; ++group) {
    if (group != hold.cross_group) request.first_cell[group] = hold.parts[group].first_cell;
  }
  const ReferenceSequence* target = reference_.Find(handle);
  Code expected = reference_.CheckMutable(handle);
  if (expected == Code::kOk && !(target->cells.empty() && texts_[handle].empty())) {
    expected = Code::kExists;
  }
  Restore restore;
  const bool has_begun =
      Judge("begin restore", expected, Into(memory_->restores().Begin(request), &restore));
  for (auto at = texts_.begin(); at != texts_.end();) {
    at = reference_.Find(at->first) == nullptr ? texts_.erase(at) : std::next(at);
  }
  Check(has_state_);  // Begin may give up checkpoints and rows of logits even if it fails
  if (!has_begun) return;
  ++lent_;
  const std::uint64_t content_number = target->content_number;
  std::vector<ReferenceCell> restored = cells;
  std::vector<std::uint32_t> restored_text;
  for (ReferenceCell& cell : restored) {
    cell.shift = 0;
    cell.k_id = next_id_++;
  }
  for (std::size_t at = 0; at < text.size(); ++at) restored_text.push_back(next_id_++);
  Fill(restore, restored, restored_text);
  ASSERT_NO_FATAL_FAILURE(Meanwhile());
  --lent_;
  if (OneIn(4)) {
    restore.reservation.End();
    ++lent_;  // the caller's hold is still open, so Check does not look for leaks
    verb_ = "abandon restore";
    Check(false);
    --lent_;
    return;
  }
  target = reference_.Find(handle);
  const bool conflicts = target == nullptr || target->content_number != content_number ||
                         !target->cells.empty() || !texts_[handle].empty() || target->is_published;
  if (target == nullptr) texts_.erase(handle);
  const bool done = Judge("commit restore", conflicts ? Code::kConflict : Code::kOk,
                          memory_->restores().Commit(restore));
  if (done) {
    ReferenceSequence& sequence = reference_.sequences.at(handle);
    sequence.cells = restored;
    ++sequence.content_number;
    texts_[handle] = restored_text;
  }
  Check(done);
}

void KindEpisode::Encode() {
  SequenceHandle handle = Any();
  // Most sequences have an encoded text already, so half of the calls use a new sequence.
  if (OneIn(2)) {
    const Result<SequenceHandle> fresh =
        memory_->sequences().Create({OwnerId{1000}, SessionId{1}, 0});
    const bool is_created = Judge("create", reference_.CheckRoom(1), fresh);
    if (is_created) {
      reference_.sequences[*fresh] = {};
      handle = *fresh;
    }
    Check(is_created);
  }
  const std::vector<TokenId> text(static_cast<std::size_t>(In(1, 60)), 7);
  const ReferenceSequence* target = reference_.Find(handle);
  Code expected = has_encoder_ ? reference_.CheckMutable(handle) : Code::kUnsupported;
  if (expected == Code::kOk && !(target->cells.empty() && texts_[handle].empty()))
    expected = Code::kExists;
  Restore restore;
  const bool has_begun = Judge(
      "begin encode", expected,
      Into(memory_->restores().Begin({.handle = handle, .cross_tokens = text, .grows_later = true}),
           &restore));
  if (has_begun) ++lent_;
  Check(false);
  if (!has_begun) return;
  const std::uint64_t content_number = target->content_number;
  std::vector<std::uint32_t> ids;
  for (std::size_t at = 0; at < text.size(); ++at) ids.push_back(next_id_++);
  const std::uint32_t group = meta_.geometry().cross_group;
  for (const layout::Extent& extent : restore.parts[group].extents)
    ASSERT_TRUE(memory_->GrowBlock(group, static_cast<BlockId>(extent.block)));
  Fill(restore, {}, ids);
  ASSERT_NO_FATAL_FAILURE(Meanwhile());
  --lent_;
  if (OneIn(4)) {
    restore.reservation.End();
    verb_ = "abandon encode";
    return Check(false);
  }
  target = reference_.Find(handle);
  const bool conflicts = target == nullptr || target->content_number != content_number ||
                         !target->cells.empty() || !texts_[handle].empty() || target->is_published;
  if (target == nullptr) texts_.erase(handle);
  const bool done = Judge("commit encode", conflicts ? Code::kConflict : Code::kOk,
                          memory_->restores().Commit(restore));
  if (done) {
    ++reference_.sequences.at(handle).content_number;
    texts_[handle] = ids;
  }
  Check(done);
}

void KindEpisode::Fill(const Restore& restore, const std::vector<ReferenceCell>& cells,
                       const std::vector<std::uint32_t>& text) {
  for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
    const GroupPart& part = restore.parts[group];
    const bool is_cross = group == meta_.geometry().cross_group;
    if (!has_bytes(group)) continue;
    for (std::uint32_t at = part.first_cell; at < part.cell_count; ++at) {
      const layout::Extent& extent = part.extents[FindExtent(part.view(), at)];
      *Tag(group, extent.block, at - extent.start) = is_cross ? text[at] : cells[at].k_id;
    }
  }
  const Sum sum = SumOf(cells);
  if (restore.state_slot != layout::kNoSlot) WriteState(restore.state_slot, sum);
  if (restore.logits_slot != layout::kNoSlot) {
    std::memcpy(memory_->LogitsBytes(restore.logits_slot), &sum, sizeof sum);
  }
  for (const layout::Checkpoint& checkpoint : restore.checkpoints) {
    WriteState(checkpoint.state_slot, SumOf(std::span(cells).first(checkpoint.cell_count)));
  }
}

}  // namespace kvd::memory_model
