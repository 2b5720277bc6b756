// Shares: what every owner may hold of each resource, and what it holds now.
//
// What a memory holds is counted by the memory, which asks for an owner's limits inside each commit
// (engine/memory/shares.h). Everything else that the daemon holds for an owner is counted here: a
// path that makes such a thing takes a Share first, and keeps it for as long as the thing is there.
// The prompt cache is counted by its directory, and asks here for limits.
//
// Threads: any. Taking from an account and giving back lock nothing. An account lives as long as a
// session or a share refers to it, and may outlive the Shares.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "daemon/owner_of_uid.h"
#include "daemon/quotas.h"
#include "engine/memory/owner.h"
#include "engine/memory/shares.h"
#include "shm/error.h"
#include "shm/mutex.h"

namespace kvd {

enum class Resource : std::uint8_t {
  kConnections,        // those that have not said hello included
  kRequests,           // in flight: submitted, and not yet answered for the last time
  kRequestArenaBytes,  // of connections
  kResultArenaBytes,   // of connections
  kHeldBytes,          // copies of payloads, uploads, exports, answers that wait to be sent
  kSavedBytes,  // that saves in work may write; Share::Grow is told of the files that are there
  kPromptCacheBytes,  // limits only, as of the entries: the directory knows what is there
  kPromptCacheEntries,
};
inline constexpr std::size_t kResourceCount = 8;
using ResourceNumbers = std::array<std::uint64_t, kResourceCount>;

// What one owner holds.
class OwnerAccount {
 public:
  OwnerAccount(OwnerId owner, const ResourceNumbers& limits) : owner_(owner), limits_(limits) {}
  OwnerAccount(const OwnerAccount&) = delete;
  OwnerAccount& operator=(const OwnerAccount&) = delete;

  OwnerId owner() const { return owner_; }
  std::uint64_t limit(Resource resource) const { return limits_[Index(resource)]; }
  std::uint64_t held(Resource resource) const {
    return held_[Index(resource)].load(std::memory_order_relaxed);
  }

 private:
  friend class Share;
  static std::size_t Index(Resource resource) { return static_cast<std::size_t>(resource); }
  Status Add(Resource resource, std::uint64_t amount, std::uint64_t beside);
  void Remove(Resource resource, std::uint64_t amount) {
    held_[Index(resource)].fetch_sub(amount, std::memory_order_release);
  }

  const OwnerId owner_;
  const ResourceNumbers limits_;
  std::array<std::atomic<std::uint64_t>, kResourceCount> held_ = {};
};

// So much of a resource, counted for its owner until this is destroyed. Move-only; one thread at a
// time. One that was moved from is of no account.
class Share {
 public:
  Share() = default;  // of no account: nothing is counted, and nothing is refused
  // Of nothing yet. `account` may be null.
  Share(std::shared_ptr<OwnerAccount> account, Resource resource)
      : account_(std::move(account)), resource_(resource) {}
  Share(Share&& other) noexcept
      : account_(std::move(other.account_)),
        resource_(other.resource_),
        amount_(std::exchange(other.amount_, 0)) {}
  Share& operator=(Share&& other) noexcept {
    Share taken(std::move(other));
    std::swap(account_, taken.account_);
    std::swap(resource_, taken.resource_);
    std::swap(amount_, taken.amount_);
    return *this;
  }
  ~Share() { Shrink(amount_); }

  std::uint64_t amount() const { return amount_; }
  bool is_limited() const { return account_ != nullptr && account_->limit(resource_) != kNoLimit; }
  // Counts that many more. `beside`: what the owner holds of it that is counted in no share. Error:
  // kNoSpace with the number wanted, the number held and the limit; nothing more is counted then.
  Status Grow(std::uint64_t amount, std::uint64_t beside = 0) {
    if (account_ != nullptr) KVD_CHECK_OK(account_->Add(resource_, amount, beside));
    amount_ += amount;
    return {};
  }
  // REQUIRES: amount <= amount().
  void Shrink(std::uint64_t amount) {
    if (account_ != nullptr && amount > 0) account_->Remove(resource_, amount);
    amount_ -= amount;
  }

 private:
  std::shared_ptr<OwnerAccount> account_;
  Resource resource_ = Resource::kHeldBytes;
  std::uint64_t amount_ = 0;
};

// One that several things keep.
using SharedShare = std::shared_ptr<const Share>;

class Shares : public ShareRules {
 public:
  // `own`: the daemon's own uid. `others_admitted`: whether any other one may connect; if not,
  // nothing is held in reserve.
  Shares(const Quotas& quotas, OwnerId own, bool others_admitted)
      : quotas_(quotas), own_(own), others_admitted_(others_admitted) {}

  OwnerId own() const { return own_; }
  bool is_own(OwnerId owner) const { return owner == own_; }
  // Else there is one owner alone, and the memory itself refuses.
  bool others_admitted() const { return others_admitted_; }

  std::shared_ptr<OwnerAccount> AccountOf(OwnerId owner);
  // Errors: Share::Grow's.
  Result<Share> Take(OwnerId owner, Resource resource, std::uint64_t amount);
  // kNoLimit: there is none.
  std::uint64_t LimitOf(OwnerId owner, Resource resource) const;
  // Of the memory. The own uid is held to the whole less the reserve, by what all owners hold
  // together; and not at all where no other one may connect, since the pool refuses then.
  OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const override;
  // Owners that hold some of it.
  std::map<OwnerId, std::uint64_t> ListHeld(Resource resource) const;

 private:
  const UidLimits& LimitsFor(OwnerId owner) const {
    return is_own(owner) ? quotas_.own : quotas_.others;
  }
  // The owner's part of so many things; at least 1 of them.
  std::uint64_t PartOf(OwnerId owner, std::uint64_t total) const;

  const Quotas quotas_;
  const OwnerId own_;
  const bool others_admitted_;
  mutable Mutex mutex_;
  std::map<OwnerId, std::weak_ptr<OwnerAccount>> accounts_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
