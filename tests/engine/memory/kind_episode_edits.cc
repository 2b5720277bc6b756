// Operations of an episode that edit: verbs, rewrites of cells and defragmentation.
#include "tests/engine/memory/kind_episode.h"
#include "tests/engine/memory/rewrite_all.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace kvd::memory_model {

void KindEpisode::Verb() {
  switch (In(0, 11)) {
    case 0: return Create();
    case 1:
    case 2: return Fork();
    case 3:
    case 4: return Copy();
    case 5:
    case 6:
    case 7: return Remove();
    case 8: return Drop();
    case 9: return Add();
    case 10: return OneIn(2) ? Publish() : Retain();
    default: return Keep();
  }
}

void KindEpisode::Create() {
  const Result<SequenceHandle> handle =
      memory_->sequences().Create({OwnerId{1000}, SessionId{1}, 0});
  const bool done = Judge("create", reference_.CheckRoom(1), handle);
  if (done) reference_.sequences[*handle] = {};
  Check(done);
}

void KindEpisode::Fork() {
  const SequenceHandle source = Any();
  const ReferenceSequence* sequence = reference_.Find(source);
  std::optional<std::uint32_t> cells;
  if (sequence != nullptr && OneIn(2)) {
    cells = static_cast<std::uint32_t>(In(0, static_cast<std::int64_t>(sequence->cells.size())));
    const auto checkpoints = meta_.checkpoints(Record(source).checkpoints);
    if (!checkpoints.empty() && OneIn(2)) cells = checkpoints.front().cell_count;
  }
  Code expected = Code::kNotFound;
  ReferenceMemory after = reference_;
  const SequenceHandle unborn = MakeHandle(0, 0);
  if (sequence != nullptr) {
    expected = reference_.CheckFork(source, 1, cells);
    if (has_state_ && cells && !HasCheckpoint(source, *cells)) expected = Code::kNeedsReplay;
    if (expected == Code::kOk || expected == Code::kNoSpace) {
      after.Fork(source, unborn, 1000, 1, 0, cells);
      if (IsLost(after, unborn)) expected = Code::kWindowLost;
    }
  }
  SequenceHandle fork{};
  const bool done =
      Judge("fork", expected,
            memory_->sequences().Fork(source, {OwnerId{1000}, SessionId{1}, 0}, {&fork, 1}, cells));
  if (done) {
    reference_.Fork(source, fork, 1000, 1, 0, cells);
    texts_[fork] = texts_[source];
  }
  Check(done);
}

void KindEpisode::Copy() {
  const SequenceHandle source = Any();
  SequenceHandle destination = Any();
  for (const auto& [handle, sequence] : reference_.sequences) {
    if (sequence.cells.empty() && handle != source && !OneIn(3)) destination = handle;
  }
  PosRange range = AnyRange(source);
  if (OneIn(3)) range.begin = Pos{0};
  const auto expected = [&]() -> Code {
    if (source == destination) return Code::kInvalidArgument;
    if (reference_.Find(source) == nullptr) return Code::kNotFound;
    if (const Code code = reference_.CheckMutable(destination); code != Code::kOk) return code;
    const std::uint32_t count = reference_.CountIn(source, range);
    if (count == 0) return Code::kOk;
    const ReferenceSequence& from = *reference_.Find(source);
    const ReferenceSequence& to = *reference_.Find(destination);
    const bool is_prefix = ReferenceMemory::IsIn(from.cells[0], range);
    if (has_state_ && (!is_prefix || !to.cells.empty())) return Code::kUnsupported;
    if (const Code code = reference_.CheckCopy(source, destination, range); code != Code::kOk) {
      return code;
    }
    if (has_state_ && !HasCheckpoint(source, count)) return Code::kNeedsReplay;
    if ((!texts_[destination].empty() || !to.cells.empty()) &&
        texts_[destination] != texts_[source]) {
      return Code::kUnsupported;
    }
    ReferenceMemory after = reference_;
    after.Copy(source, destination, range);
    return IsLost(after, destination) ? Code::kWindowLost : Code::kOk;
  }();
  const Result<std::uint32_t> copied = memory_->sequences().CopyRange(source, destination, range);
  const bool done = Judge("copy", expected, copied);
  if (done) {
    ASSERT_EQ(*copied, reference_.Copy(source, destination, range));
    if (*copied > 0) {
      texts_[destination] = texts_[source];
      // The memory also drops the cells that precede a dropped cell.
      DropBefore(&reference_.sequences.at(destination));
    }
  }
  Check(done);
}

void KindEpisode::DropBefore(ReferenceSequence* sequence) {
  bool is_dropped = false;
  for (std::size_t at = sequence->cells.size(); at-- > 0;) {
    is_dropped |= sequence->cells[at].is_dropped;
    sequence->cells[at].is_dropped = is_dropped;
  }
}

Code KindEpisode::ExpectedRemoval(SequenceHandle handle, PosRange range) {
  const Code code = reference_.CheckRemove(handle, range);
  if (code != Code::kOk || reference_.CountIn(handle, range) == 0) return code;
  ReferenceMemory after = reference_;
  after.Remove(handle, range);
  const ReferenceSequence& cells = after.sequences.at(handle);
  if (has_state_) {
    const std::vector<ReferenceCell>& old = reference_.Find(handle)->cells;
    const bool is_tail = ReferenceMemory::IsIn(old.back(), range);
    if (!is_tail || !HasCheckpoint(handle, cells.cells.size())) return Code::kNeedsReplay;
  }
  return IsLost(after, handle) ? Code::kWindowLost : Code::kOk;
}

void KindEpisode::Remove() {
  const SequenceHandle handle = Any();
  PosRange range = AnyRange(handle);
  if (reference_.Find(handle) != nullptr && OneIn(4)) {  // remove all cells after a checkpoint
    for (const layout::Checkpoint& c : meta_.checkpoints(Record(handle).checkpoints)) {
      const auto& cells = reference_.Find(handle)->cells;
      if (c.cell_count < cells.size() && OneIn(2)) {
        range = {Pos{static_cast<std::int32_t>(cells[c.cell_count].position)}, kPosEnd};
      }
    }
  }
  const Result<std::uint32_t> removed = memory_->sequences().RemoveRange(handle, range);
  const bool done = Judge("remove", ExpectedRemoval(handle, range), removed);
  if (done) {
    ASSERT_EQ(*removed, reference_.Remove(handle, range));
  }
  Check(done);
}

void KindEpisode::Drop() {
  const SequenceHandle handle = Any();
  const bool done =
      Judge("drop", reference_.CheckMutable(handle), memory_->sequences().Drop(handle));
  if (done) Bury(handle);
  Check(done);
}

void KindEpisode::Bury(SequenceHandle handle) {
  reference_.sequences.erase(handle);
  texts_.erase(handle);
}

void KindEpisode::Add() {
  const SequenceHandle handle = Any();
  const PosRange range = AnyRange(handle);
  const auto delta = static_cast<std::int32_t>(OneIn(2) ? In(0, 9) : In(-30, 0));
  Code expected = reference_.CheckAdd(handle, range, delta);
  if (expected == Code::kOk && delta != 0 && reference_.CountIn(handle, range) != 0) {
    ReferenceMemory after = reference_;
    after.Add(handle, range, delta);
    if (IsLost(after, handle)) expected = Code::kWindowLost;
  }
  const bool done = Judge("add", expected, memory_->sequences().AddPositions(handle, range, delta));
  if (done) reference_.Add(handle, range, delta);
  Check(done);
}

void KindEpisode::Publish() {
  const SequenceHandle source = Any();
  const auto existing = reference_.snapshots.find({"name", 1000});
  const bool replaces = existing != reference_.snapshots.end();
  const Code expected =
      reference_.Find(source) == nullptr ? Code::kNotFound : reference_.CheckRoom(1);
  const Result<SequenceHandle> handle =
      memory_->snapshots().Publish(source, {OwnerId{1000}, SessionId{1}, 0}, "name", true, true);
  const bool done = Judge("publish", expected, handle);
  if (done) {
    reference_.Fork(source, *handle, 1000, 1, 0, std::nullopt);
    reference_.sequences.at(*handle).is_published = true;
    texts_[*handle] = texts_[source];
    if (replaces) Bury(existing->second.sequence);
    reference_.snapshots[{"name", 1000}] = {*handle, 1000, true};
  }
  Check(done);
}

void KindEpisode::Retain() {
  const SequenceHandle handle = Any();
  const std::uint32_t flag = layout::kSequenceRetained;
  const bool sets = OneIn(2);
  const bool done = Judge("retain", reference_.CheckMutable(handle),
                          memory_->sequences().SetOwner(handle, {OwnerId{1000}, SessionId{1}, 0},
                                                        sets ? flag : 0, sets ? 0 : flag));
  Check(done);
}

void KindEpisode::Keep() {
  const SequenceHandle handle = Any();
  const Code expected = reference_.Find(handle) == nullptr ? Code::kNotFound : Code::kOk;
  const bool done = Judge("keep", expected, memory_->states().KeepCheckpoint(handle));
  Check(done);
}

class KindEpisode::TagRotator : public CellRotator {
 public:
  // `cells`: the rewritten cells in the order of the sequence. For each group, cells before the
  // group's first cell are skipped, because the group does not hold them.
  TagRotator(KindEpisode* episode, SequenceHandle handle, std::vector<Rewritten> cells,
             std::int64_t fails_at)
      : episode_(episode), cells_(std::move(cells)), fails_at_(fails_at) {
    if (cells_.empty()) return;
    for (std::uint32_t group = 0; group < next_.size(); ++group) {
      const std::uint32_t first = episode->Record(handle).first_cell[group];
      while (next_[group] < cells_.size() && cells_[next_[group]].at < first) ++next_[group];
    }
  }
  Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell, Pos,
                    BlockId destination_block, std::uint32_t destination_cell, Pos) override {
    if (fails_at_-- == 0) return Fail(Code::kNumerical, "told to fail");
    fails_at_ = std::max<std::int64_t>(fails_at_, 0);
    const auto block = static_cast<std::uint32_t>(destination_block);
    EXPECT_FALSE(episode_->memory_->derived().blocks[group].is_used(block));
    if (next_[group] == cells_.size()) {
      ADD_FAILURE() << "more cells are rewritten than the reference expects";
      return {};
    }
    const Rewritten& cell = cells_[next_[group]++];
    EXPECT_EQ(*episode_->Tag(group, static_cast<std::uint32_t>(source_block), source_cell),
              cell.old_id);
    *episode_->Tag(group, block, destination_cell) = cell.new_id;
    return {};
  }

 private:
  KindEpisode* episode_;
  std::vector<Rewritten> cells_;
  // for each group, the next index in cells_
  std::array<std::size_t, layout::kGroupsMax> next_ = {};
  // number of calls until RotateCell fails; below 0: has failed
  std::int64_t fails_at_;
};

void KindEpisode::Rewrite() {
  const SequenceHandle handle = Any();
  const bool divides = OneIn(2);
  const PosRange range = AnyRange(handle);
  const auto divisor = static_cast<std::int32_t>(In(1, 3));
  Code expected =
      divides ? reference_.CheckDivide(handle, range, divisor) : reference_.CheckMutable(handle);
  ReferenceMemory after = reference_;
  std::vector<Rewritten> cells;
  const std::uint32_t first_id = next_id_;
  if (expected == Code::kOk) {
    if (divides && divisor > 1 && reference_.CountIn(handle, range) > 0) {
      after.Divide(handle, range, divisor, first_id);
    } else if (!divides) {
      after.Settle(handle, true, first_id);
    }
    const auto& old_cells = reference_.Find(handle)->cells;
    const auto& new_cells = after.Find(handle)->cells;
    for (std::size_t at = 0; at < old_cells.size(); ++at) {
      const std::uint32_t old_id = old_cells[at].k_id, new_id = new_cells[at].k_id;
      if (old_id != new_id) cells.push_back({static_cast<std::uint32_t>(at), old_id, new_id});
      next_id_ = std::max(next_id_, new_id + 1);
    }
    if (IsLost(after, handle)) expected = Code::kWindowLost;
  }
  TagRotator rotator(this, handle, std::move(cells), OneIn(6) ? In(0, 20) : INT64_MAX / 2);
  const Result<std::uint32_t> rewritten =
      divides ? DividePositions(*memory_, handle, range, divisor, rotator)
              : SettleCells(*memory_, handle, SettleScope::kAll, rotator);
  if (expected == Code::kOk && !rewritten && rewritten.error().code == Code::kNumerical) {
    expected = Code::kNumerical;
  }
  if (expected == Code::kWindowLost && !rewritten && rewritten.error().code == Code::kNumerical) {
    expected = Code::kNumerical;
  }
  const bool done = Judge(divides ? "divide" : "settle", expected, rewritten);
  if (done) reference_ = after;
  Check(done);
}

void KindEpisode::Defragment() {
  class Mover : public CellMover {
   public:
    explicit Mover(KindEpisode* episode) : episode_(episode) {}
    void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                   BlockId destination_block, std::uint32_t destination_cell,
                   std::uint32_t count) override {
      for (std::uint32_t k = 0; k < count; ++k) {
        *episode_->Tag(group, static_cast<std::uint32_t>(destination_block), destination_cell + k) =
            *episode_->Tag(group, static_cast<std::uint32_t>(source_block), source_cell + k);
      }
    }

   private:
    KindEpisode* episode_;
  };
  Mover mover(this);
  const Result<DefragSlice> slice =
      memory_->block_packer().Advance(static_cast<std::uint32_t>(In(1, 200)), mover);
  Check(Judge("defragment", Code::kOk, slice));
}

}  // namespace kvd::memory_model
