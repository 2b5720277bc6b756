#include "engine/defragmentation.h"

namespace kvd {

Defragmentation::Defragmentation(Memory& memory, CellMover& mover, CellRotator& rotator)
    : memory_(memory), mover_(mover), rotator_(rotator) {
  for (const SequenceInfo& info : memory_.Sequences()) {
    if ((info.flags & layout::kSequencePublished) != 0) continue;  // immutable
    const Result<SequenceUse> use = memory_.QueryUse(info.handle);
    if (use && (use->delta_count > kDeltasMax || use->delta_max > kShiftMax)) {
      to_settle_.push_back(info.handle);
    }
  }
}

Result<bool> Defragmentation::Slice() {
  const auto begin = std::chrono::steady_clock::now();
  if (!to_settle_.empty()) {
    Result<bool> settled = SettleNext();
    report_.settling += std::chrono::steady_clock::now() - begin;
    return settled;
  }
  KVD_TRY(const DefragSlice slice, memory_.Defragment(kSliceCells, mover_));
  report_.packing += std::chrono::steady_clock::now() - begin - slice.returning;
  report_.returning += slice.returning;
  report_.cells_moved += slice.cells_moved;
  report_.blocks_freed += slice.blocks_freed;
  report_.bytes_returned += slice.bytes_returned;
  return slice.is_done;
}

// Settling comes first: the cells that it leaves behind are packed with the rest.
Result<bool> Defragmentation::SettleNext() {
  const SequenceHandle handle = to_settle_.back();
  to_settle_.pop_back();
  const Result<std::uint32_t> cells =
      memory_.Settle(handle, Memory::SettleScope::kShifted, rotator_);
  if (cells) {
    report_.cells_settled += *cells;
    report_.sequences_settled += *cells > 0;
    return false;
  }
  switch (cells.error().code) {
    case Code::kNotFound:
    case Code::kPermission:  // dropped, or published, since
    case Code::kConflict: return false;
    default: return std::unexpected(cells.error());
  }
}

double PoolWaste(const PoolUsage& usage) {
  constexpr std::uint64_t kUsedBlocksMin = 64;
  const std::uint64_t used = usage.total_blocks - usage.free_blocks;
  if (used < kUsedBlocksMin) return 0.0;
  return 1.0 -
         static_cast<double>(usage.live_cells) / static_cast<double>(used * layout::kBlockCells);
}

}  // namespace kvd
