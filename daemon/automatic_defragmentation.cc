#include "daemon/automatic_defragmentation.h"

#include <algorithm>

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

}  // namespace kvd
