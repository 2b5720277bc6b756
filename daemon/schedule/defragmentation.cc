#include "daemon/schedule/defragmentation.h"

#include <algorithm>
#include <cstring>

namespace kvd {

void AutomaticDefragmentation::Look() {
  constexpr std::uint64_t kRoundsBetweenChecks = 64;
  if (threshold_ <= 0.0 || running_) return;
  if (++rounds_ < next_check_) return;
  next_check_ = rounds_ + kRoundsBetweenChecks;
  if (PoolWaste(engine_.memory().Usage()) <= threshold_) return;
  // rounds_ does not advance while a defragmentation runs, so the next check comes after the end of
  // the defragmentation.
  next_check_ = rounds_ + 16 * kRoundsBetweenChecks;
  running_.emplace(engine_.StartDefragmentation());
}

std::size_t AutomaticDefragmentation::Advance(std::size_t cells) {
  const std::size_t slice =
      std::clamp<std::size_t>(cells, Defragmentation::kSliceCellsMin, Defragmentation::kSliceCells);
  // An error (no room for lists) ends the defragmentation; a later check may start another one.
  if (running_->Slice(static_cast<std::uint32_t>(slice)).value_or(true)) running_.reset();
  return slice;
}

void DefragmentRequest::DoWork(Engine& engine, std::size_t cells) {
  if (!work_) work_.emplace(engine.StartDefragmentation());
  const auto cells_max = std::min<std::size_t>(cells, Defragmentation::kSliceCells);
  const Result<bool> is_done = work_->Slice(static_cast<std::uint32_t>(cells_max));
  if (!is_done) return EndWith(is_done.error());
  if (!*is_done) return;
  const DefragReport& report = work_->report();
  const wire::DefragReply reply{
      .cells_moved = report.cells_moved,
      .cells_settled = report.cells_settled,
      .blocks_freed = report.blocks_freed,
      .bytes_returned = report.bytes_returned,
      .packing_ns = static_cast<std::uint64_t>(report.packing.count()),
      .returning_ns = static_cast<std::uint64_t>(report.returning.count()),
      .settling_ns = static_cast<std::uint64_t>(report.settling.count()),
      .sequences_settled = report.sequences_settled,
      .reserved = 0};
  SetReply(wire::OneReply<wire::DefragReply>{reply});
}

void DefragmentRequest::OnCancel() {
  work_.reset();
  ComputingRequest::OnCancel();
}

}  // namespace kvd
