// Operations of an episode that rewrite or move cells while other verbs run.
#include "tests/engine/memory/attention_episode.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/memory/cell_rewrites.h"
#include "tests/engine/memory/rewrite_all.h"
#include "tests/engine/memory/tag_rotator.h"
#include "tests/support/into.h"

namespace kvd::memory_model {

void AttentionEpisode::Divide() {
  const SequenceHandle handle = AnyHandle();
  const PosRange range = AnyRange(handle);
  const auto divisor =
      static_cast<std::int32_t>(random_.OneIn(10) ? random_.In(-1, 0) : random_.In(1, 5));
  const Code expected = reference_.CheckDivide(handle, range, divisor);
  std::vector<ReferenceCell> cells;
  if (expected == Code::kOk && divisor > 1) {
    for (const ReferenceCell& cell : reference_.Find(handle)->cells) {
      if (ReferenceMemory::IsIn(cell, range)) cells.push_back(cell);
    }
  }
  const auto cell_count = static_cast<std::uint32_t>(cells.size());
  const bool done =
      Rewrite("divide", handle, expected, std::move(cells), divisor, [&](CellRotator& rotator) {
        if (random_.OneIn(3)) return DividePositions(*memory_, handle, range, divisor, rotator);
        return RewriteInSlices({.handle = handle,
                                .kind = RewriteRequest::Kind::kDivide,
                                .range = range,
                                .divisor = divisor},
                               rotator);
      });
  if (done && cell_count > 0) reference_.Divide(handle, range, divisor, next_id_);
  next_id_ += cell_count;
  Check(done);
}

void AttentionEpisode::Settle() {
  SequenceHandle handle = AnyHandle();
  for (int tries = 0; tries < 4 && !HasShifted(handle); ++tries) handle = AnyHandle();
  const bool all = random_.OneIn(2);
  const Code expected = reference_.CheckMutable(handle);
  std::vector<ReferenceCell> cells;
  if (expected == Code::kOk) {
    const auto [begin, end] = reference_.SettledCells(handle, all);
    const auto first = reference_.Find(handle)->cells.begin();
    cells.assign(first + static_cast<std::ptrdiff_t>(begin),
                 first + static_cast<std::ptrdiff_t>(end));
  }
  const auto cell_count = static_cast<std::uint32_t>(cells.size());
  const auto scope = all ? SettleScope::kAll : SettleScope::kShifted;
  const bool done =
      Rewrite("settle", handle, expected, std::move(cells), 1, [&](CellRotator& rotator) {
        if (random_.OneIn(3)) return SettleCells(*memory_, handle, scope, rotator);
        return RewriteInSlices(
            {.handle = handle, .kind = RewriteRequest::Kind::kSettle, .range = {}, .scope = scope},
            rotator);
      });
  if (done) {
    reference_.Settle(handle, all, next_id_);
    EXPECT_EQ(reference_.SettledCells(handle, true), (std::pair<std::size_t, std::size_t>()));
  }
  next_id_ += cell_count;
  Check(done);
}

bool AttentionEpisode::HasShifted(SequenceHandle handle) const {
  if (reference_.CheckMutable(handle) != Code::kOk) return false;
  const auto [begin, end] = reference_.SettledCells(handle, false);
  return begin != end;
}

void AttentionEpisode::Defragment() {
  const std::uint64_t live = memory_->Usage().live_cells;
  const std::uint32_t used = memory_->Usage().total_blocks - memory_->Usage().free_blocks;
  bool interrupts = random_.OneIn(4);
  const bool is_interrupted = interrupts;
  TagMover mover(*inspector_, [&] {
    if (std::exchange(interrupts, false)) Interrupt(AnyHandle());
  });
  const auto cells_max = static_cast<std::uint32_t>(random_.In(1, 200));
  const Result<DefragSlice> slice = memory_->block_packer().Advance(cells_max, mover);
  const bool done = Judge("defragment", Code::kOk, ToStatus(slice), true);
  if (done) {
    EXPECT_EQ(slice->cells_moved, mover.moved());
    EXPECT_EQ(slice->is_done, mover.moved() == 0);
  }
  if (done && !is_interrupted) {
    EXPECT_EQ(memory_->Usage().live_cells, live);
    EXPECT_LE(memory_->Usage().total_blocks - memory_->Usage().free_blocks, used);
  }
  has_several_commits_ = true;
  Check(done || is_interrupted);
}

bool AttentionEpisode::Rewrite(const char* verb, SequenceHandle handle, Code expected,
                               std::vector<ReferenceCell> cells, std::int32_t divisor,
                               const RewriteCall& call) {
  const auto cell_count = static_cast<std::uint32_t>(cells.size());
  TagRotator rotator(*memory_, *inspector_, std::move(cells), divisor, next_id_);
  std::uint64_t content_number = 0;
  if (cell_count > 0) {
    content_number = reference_.Find(handle)->content_number;
    if (random_.OneIn(8)) rotator.FailAt(random_.In(0, cell_count - 1));
    if (random_.OneIn(3)) {
      rotator.InterruptAt(random_.In(0, cell_count - 1), [this, handle] { Interrupt(handle); });
    }
  }
  const Result<std::uint32_t> rewritten = call(rotator);
  if (rotator.has_failed()) {
    expected = Code::kNumerical;
  } else if (cell_count > 0) {
    const ReferenceSequence* sequence = reference_.Find(handle);
    if (sequence == nullptr || sequence->content_number != content_number) {
      expected = Code::kConflict;
      ++tally_->conflicts;
    }
  }
  const bool done = Judge(verb, expected, ToStatus(rewritten), true);
  if (done) {
    EXPECT_EQ(*rewritten, cell_count);
    EXPECT_EQ(rotator.rotated(), cell_count);
  }
  return done;
}

Result<std::uint32_t> AttentionEpisode::RewriteInSlices(const RewriteRequest& request,
                                                        CellRotator& rotator) {
  CellRewrite rewrite;
  KVD_CHECK_OK(Into(memory_->rewrites().Begin(request), &rewrite));
  const std::uint32_t cell_count = rewrite.cell_count();
  while (rewrite.is_open()) {
    const std::uint32_t left = rewrite.cells_left;
    const auto cells_max = static_cast<std::uint32_t>(random_.In(1, 40));
    const Result<bool> is_over = memory_->rewrites().Advance(rewrite, cells_max, rotator);
    EXPECT_EQ(rewrite.is_open(), is_over.has_value() && !*is_over);
    if (!is_over) return std::unexpected(is_over.error());
    EXPECT_EQ(rewrite.cells_left, left - std::min(left, cells_max));
    if (rewrite.is_open() && random_.OneIn(8)) Interrupt(request.handle);
  }
  return cell_count;
}

void AttentionEpisode::Interrupt(SequenceHandle rewritten) {
  const std::size_t longest_drawn = longest_drawn_;
  std::thread([&] {
    step_is_running_ = true;
    hot_ = {rewritten};
    do {
      Verb();
    } while (random_.OneIn(2) && !testing::Test::HasFatalFailure());
    hot_.clear();
    step_is_running_ = false;
  }).join();
  longest_drawn_ = longest_drawn;
}

}  // namespace kvd::memory_model
