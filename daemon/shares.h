// Shares: the limits of every owner for each resource, and the amounts that the owner holds.
//
// The memory counts its own resources and asks for an owner's limits within each commit
// (engine/memory/shares.h). Shares count all other resources that the daemon holds for an owner:
// code that allocates such a resource first takes a Share, and keeps the Share as long as the code
// holds the resource. The prompt cache counts the files in its directory itself and uses Shares
// only for the limits.
//
// Any number of threads may use a Shares. Taking a share from an account and giving a share back
// take no lock. An account lives as long as a session or a share refers to it, and may outlive the
// Shares.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "daemon/owner_of_uid.h"
#include "daemon/quotas.h"
#include "engine/memory/owner.h"
#include "engine/memory/shares.h"

namespace kvd {

enum class Resource : std::uint8_t {
  kConnections,        // number of connections, including connections before their hello
  kRequests,           // number of requests in flight: submitted and without a final answer yet
  kRequestArenaBytes,  // bytes of the request arenas of connections
  kResultArenaBytes,   // bytes of the result arenas of connections
  // Bytes of copies of payloads, uploads, exports, and answers that wait to be sent.
  kHeldBytes,
  // Bytes that running saves may write. Shares do not count the bytes of existing files: the caller
  // passes these bytes to Share::Grow as `beside`.
  kSavedBytes,
  // For kPromptCacheBytes and kPromptCacheEntries, a Shares holds only the limits; the prompt cache
  // counts its files itself.
  kPromptCacheBytes,
  kPromptCacheEntries,
};
inline constexpr std::size_t kResourceCount = 8;
using ResourceNumbers = std::array<std::uint64_t, kResourceCount>;

// An OwnerAccount holds the amounts of the resources that one owner holds, and the owner's limits.
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

// An amount of a resource that is counted for its owner until the Share is destroyed. A Share is
// move-only and is used by one thread at a time. A Share that was moved from has no account.
class Share {
 public:
  Share() = default;  // a Share without an account neither counts nor refuses amounts
  // Creates a share with amount 0. `account` may be null.
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
  // Adds `amount`. `beside`: the amount of the resource that the owner holds in addition and that
  // no Share counts. Error: kNoSpace, with the wanted amount, the held amount and the limit; after
  // an error the Share is unchanged.
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

// A Share that exists as long as at least one of several objects refers to it.
using SharedShare = std::shared_ptr<const Share>;

class Shares : public ShareRules {
 public:
  // `own`: the daemon's own uid. `others_admitted`: whether other uids may connect; if false, no
  // part of the pool is reserved for other uids.
  Shares(const Quotas& quotas, OwnerId own, bool others_admitted)
      : quotas_(quotas), own_(own), others_admitted_(others_admitted) {}

  OwnerId own() const { return own_; }
  bool is_own(OwnerId owner) const { return owner == own_; }
  // Returns whether other uids may connect. If other uids may not connect, there is only one owner,
  // and the pool's size is the only limit of this owner.
  bool others_admitted() const { return others_admitted_; }

  std::shared_ptr<OwnerAccount> AccountOf(OwnerId owner);
  // Errors: those of Share::Grow.
  Result<Share> Take(OwnerId owner, Resource resource, std::uint64_t amount);
  // Returns the owner's limit of the resource; kNoLimit: the resource is not limited.
  std::uint64_t LimitOf(OwnerId owner, Resource resource) const;
  // Returns the owner's limits in the memory. The limit of the daemon's own uid is that all owners
  // together may not exceed the whole memory less the reserve; if other uids may not connect, the
  // daemon's own uid has no limit except the pool's size.
  OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const override;
  // Returns the owners that hold a nonzero amount of the resource, with their amounts.
  std::map<OwnerId, std::uint64_t> ListHeld(Resource resource) const;

 private:
  const UidLimits& LimitsFor(OwnerId owner) const {
    return is_own(owner) ? quotas_.own : quotas_.others;
  }
  // Returns the owner's part of `total`, at least 1.
  std::uint64_t PartOf(OwnerId owner, std::uint64_t total) const;

  const Quotas quotas_;
  const OwnerId own_;
  const bool others_admitted_;
  mutable Mutex mutex_;
  std::map<OwnerId, std::weak_ptr<OwnerAccount>> accounts_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
