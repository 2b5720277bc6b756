// HeldBytes: how many bytes the daemon holds for each uid because of its requests: copies of
// payloads, uploads, exports, and answers that wait to be sent. Payloads, uploads and exports are
// counted before they are allocated. An answer that text or tokens become is counted once it is whole
// and has to wait for room; its size is bounded by the limits of its verb.
//
// Threads: any. An account lives as long as a session or a charge refers to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "daemon/quotas.h"
#include "shm/error.h"
#include "shm/mutex.h"

namespace kvd {

// What one uid holds.
class HeldAccount {
 public:
  HeldAccount(const QuotaPolicy& quotas, std::uint32_t uid) : quotas_(quotas), uid_(uid) {}
  HeldAccount(const HeldAccount&) = delete;
  HeldAccount& operator=(const HeldAccount&) = delete;

  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class HeldCharge;
  Status Add(std::uint64_t bytes);
  void Remove(std::uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  const QuotaPolicy quotas_;
  const std::uint32_t uid_;
  std::atomic<std::uint64_t> bytes_{0};
};

// Bytes counted for an account until this goes. Move-only.
class HeldCharge {
 public:
  HeldCharge() = default;  // of no account: nothing is counted
  explicit HeldCharge(std::shared_ptr<HeldAccount> account) : account_(std::move(account)) {}
  HeldCharge(HeldCharge&& other) noexcept
      : account_(std::move(other.account_)), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldCharge& operator=(HeldCharge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldCharge() {
    if (account_ != nullptr) account_->Remove(bytes_);
  }

  // Counts that many more. Error: kNoSpace with the numbers; nothing more is counted then.
  Status Grow(std::uint64_t bytes) {
    if (account_ == nullptr) return {};
    KVD_CHECK_OK(account_->Add(bytes));
    bytes_ += bytes;
    return {};
  }

 private:
  std::shared_ptr<HeldAccount> account_;
  std::uint64_t bytes_ = 0;
};

// A charge that several things keep.
using SharedCharge = std::shared_ptr<const HeldCharge>;

class HeldBytes {
 public:
  explicit HeldBytes(const QuotaPolicy& quotas) : quotas_(quotas) {}

  std::shared_ptr<HeldAccount> AccountOf(std::uint32_t uid);

 private:
  const QuotaPolicy& quotas_;
  Mutex mutex_;
  std::unordered_map<std::uint32_t, std::weak_ptr<HeldAccount>> accounts_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
