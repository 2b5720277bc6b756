#include "engine/work/defragmentation.h"

#include <algorithm>
#include <utility>

namespace kvd {

namespace {

// Whether the error means that the sequence was dropped, published or changed after it was
// examined. The defragmentation skips a sequence for which IsGone is true.
bool IsGone(const Error& error) {
  return error.code == Code::kNotFound || error.code == Code::kPermission ||
         error.code == Code::kConflict;
}

// Settling does not evict retained sequences, because a change of the settled sequence before the
// last slice would make the work useless.
constexpr bool kMayEvict = false;

}  // namespace

Defragmentation::Defragmentation(Memory& memory, CellMover& mover, CellRotator& rotator)
    : memory_(memory), mover_(mover), rotator_(rotator) {
  for (const SequenceInfo& info : memory_.sequences().List()) {
    if ((info.flags & layout::kSequencePublished) != 0) continue;  // immutable
    to_look_at_.push_back(info.handle);
  }
}

// Settling precedes packing, so that the blocks from which settling has freed cells are packed too.
Result<bool> Defragmentation::Slice(std::uint32_t cells_max) {
  cells_max = std::max(cells_max, kSliceCellsMin);
  const auto begin = std::chrono::steady_clock::now();
  if (settling_ == nullptr && !to_look_at_.empty()) KVD_CHECK_OK(FindShifted());
  if (settling_ != nullptr || !to_look_at_.empty()) {
    const Status settled = SettleSome(cells_max);
    report_.settling += std::chrono::steady_clock::now() - begin;
    if (!settled) return std::unexpected(settled.error());
    return false;
  }
  KVD_TRY(const DefragSlice slice, memory_.block_packer().Advance(cells_max, mover_));
  report_.packing += std::chrono::steady_clock::now() - begin - slice.returning;
  report_.returning += slice.returning;
  report_.cells_moved += slice.cells_moved;
  report_.blocks_freed += slice.blocks_freed;
  report_.bytes_returned += slice.bytes_returned;
  return slice.is_done;
}

Status Defragmentation::FindShifted() {
  for (std::size_t looks = 0; looks < kLooksMax && !to_look_at_.empty(); ++looks) {
    const SequenceHandle handle = to_look_at_.back();
    to_look_at_.pop_back();
    const Result<SequenceUse> use = memory_.sequences().QueryUse(handle);
    if (!use || (use->delta_count <= kDeltasMax && use->delta_max <= kShiftMax)) continue;
    Result<CellRewrite> begun = memory_.rewrites().Begin({.handle = handle,
                                                          .kind = RewriteRequest::Kind::kSettle,
                                                          .range = {},
                                                          .scope = SettleScope::kShifted,
                                                          .may_evict = kMayEvict});
    if (!begun && (IsGone(begun.error()) || begun.error().code == Code::kNoSpace)) continue;
    KVD_TRY(CellRewrite rewrite, std::move(begun));
    if (!rewrite.is_open()) continue;
    settling_ = std::make_unique<RewriteWork>(memory_, rotator_, std::move(rewrite));
    return {};
  }
  return {};
}

Status Defragmentation::SettleSome(std::uint32_t cells_max) {
  if (settling_ == nullptr) return {};
  const Result<bool> is_done = settling_->Advance(cells_max);
  if (is_done && !*is_done) return {};
  const std::unique_ptr<RewriteWork> over = std::move(settling_);
  if (!is_done) {
    if (IsGone(is_done.error())) return {};
    return std::unexpected(is_done.error());
  }
  report_.cells_settled += over->cell_count();
  ++report_.sequences_settled;
  return {};
}

double PoolWaste(const PoolUsage& usage) {
  constexpr std::uint64_t kUsedBlocksMin = 64;
  const std::uint64_t used = usage.total_blocks - usage.free_blocks;
  if (used < kUsedBlocksMin) return 0.0;
  return 1.0 -
         static_cast<double>(usage.live_cells) / static_cast<double>(used * layout::kBlockCells);
}

}  // namespace kvd
