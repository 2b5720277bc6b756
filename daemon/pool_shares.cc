// The daemon's own uid is held to the whole pool less the reserve, by what is used altogether; and
// not at all where nobody else may connect, since the pool itself says no then.
#include "daemon/pool_shares.h"

#include "shm/segment_layout.h"

namespace kvd {
PoolShares::PoolShares(const Memory& memory, const QuotaPolicy& quotas)
    : memory_(memory), quotas_(quotas) {}

void PoolShares::RefreshIfOld() {
  const auto now = std::chrono::steady_clock::now();
  if (refreshed_ != std::chrono::steady_clock::time_point{} && now - refreshed_ < kMaxAge) return;
  refreshed_ = now;
  cells_.clear();
  admitted_cells_ = 0;
  const PoolUsage usage = memory_.Usage();
  total_blocks_ = usage.total_blocks;
  used_blocks_ = usage.total_blocks - usage.free_blocks - usage.reclaimable_blocks;
}

std::uint64_t& PoolShares::CellsOf(std::uint32_t uid) {
  const auto [cells, is_new] = cells_.try_emplace(uid, 0);
  if (is_new) cells->second = memory_.UseOf(uid).blocks * layout::kBlockCells;
  return cells->second;
}

Status PoolShares::Check(std::uint32_t uid, std::uint64_t tokens) {
  RefreshIfOld();
  // Whole blocks only: the tail of a block that is charged already is free, so a uid passes its
  // share by at most one block for each sequence.
  const std::uint64_t wanted = tokens / layout::kBlockCells;
  const std::uint64_t held = quotas_.is_own(uid)
                                 ? used_blocks_ + admitted_cells_ / layout::kBlockCells
                                 : CellsOf(uid) / layout::kBlockCells;
  return quotas_.CheckBlocks(uid, held, wanted, total_blocks_);
}

Status PoolShares::CheckAppend(std::uint32_t uid, std::uint64_t tokens) {
  if (!quotas_.limits_pool(uid)) return {};
  const MutexLock lock(mutex_);
  return Check(uid, tokens);
}

Status PoolShares::Admit(std::uint32_t uid, std::uint64_t tokens) {
  if (!quotas_.limits_pool(uid)) return {};
  const MutexLock lock(mutex_);
  KVD_CHECK_OK(Check(uid, tokens));
  CellsOf(uid) += tokens;
  admitted_cells_ += tokens;
  return {};
}

}  // namespace kvd
