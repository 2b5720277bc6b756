// PoolShares: which part of the pool each uid's sequences refer to, so that one uid cannot fill it.
//
// Threads: any. Memory is charged in blocks, to every sequence that refers to them: a uid's forks
// of one prefix are each charged for it (sharing is free for the pool, but what would be left if
// the others went is not). Retained ones are not charged: they make room. Figures are at most
// kMaxAge old, plus what was admitted since.
#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>

#include "daemon/quotas.h"
#include "engine/memory/memory.h"
#include "shm/error.h"
#include "shm/mutex.h"

namespace kvd {

class PoolShares {
 public:
  static constexpr std::chrono::milliseconds kMaxAge{20};

  // Both outlive it.
  PoolShares(const Memory& memory, const QuotaPolicy& quotas);

  // Whether the uid may append that many tokens. Errors: kNoSpace with the numbers.
  Status CheckAppend(std::uint32_t uid, std::uint64_t tokens);
  // CheckAppend, and counts them.
  Status Admit(std::uint32_t uid, std::uint64_t tokens);

 private:
  void RefreshIfOld() KVD_REQUIRES(mutex_);
  Status Check(std::uint32_t uid, std::uint64_t tokens) KVD_REQUIRES(mutex_);
  std::uint64_t& CellsOf(std::uint32_t uid) KVD_REQUIRES(mutex_);

  const Memory& memory_;
  const QuotaPolicy& quotas_;
  Mutex mutex_;
  std::chrono::steady_clock::time_point refreshed_ KVD_GUARDED_BY(mutex_){};
  // Of uids asked for since refreshed_: block-rounded, and admitted since.
  std::unordered_map<std::uint32_t, std::uint64_t> cells_ KVD_GUARDED_BY(mutex_);
  std::uint64_t total_blocks_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t used_blocks_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t admitted_cells_ KVD_GUARDED_BY(mutex_) = 0;  // since refreshed_, of all uids
};

}  // namespace kvd
