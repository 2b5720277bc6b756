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
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "daemon/sessions/owners.h"
#include "daemon/sessions/quotas.h"
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
  kOutlivingSessions,  // number of sessions that outlive their processes, connected or waiting
};
inline constexpr std::size_t kResourceCount = 9;
using ResourceNumbers = std::array<std::uint64_t, kResourceCount>;

// An OwnerAccount holds the amounts of the resources that one owner holds, and the owner's limits.
class OwnerAccount {
 public:
  explicit OwnerAccount(OwnerId owner) : owner_(owner) {}
  OwnerAccount(const OwnerAccount&) = delete;
  OwnerAccount& operator=(const OwnerAccount&) = delete;

  OwnerId owner() const { return owner_; }
  std::uint64_t limit(Resource resource) const {
    return limits_[Index(resource)].load(std::memory_order_relaxed);
  }
  // The owner's weight in the division of steps (UidLimits::weight).
  std::uint32_t weight() const { return weight_.load(std::memory_order_relaxed); }
  // Replaces the limits. Amounts above a new limit stay held.
  void SetLimits(const ResourceNumbers& limits, std::uint32_t weight);
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
  std::array<std::atomic<std::uint64_t>, kResourceCount> limits_ = {};
  std::atomic<std::uint32_t> weight_ = 1;
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
  // `own`: the daemon's own uid. `others_admitted`: whether other uids may connect, or tenants are
  // expected; if false, no part of the pool is reserved for others. `tenant_uid`: the uid whose
  // clients may name a tenant; nullopt: the daemon's own.
  Shares(const Quotas& quotas, OwnerId own, bool others_admitted,
         std::optional<std::uint32_t> tenant_uid = std::nullopt);

  OwnerId own() const { return own_; }
  bool is_own(OwnerId owner) const { return owner == own_; }
  // Returns whether other uids may connect. If other uids may not connect, there is only one owner,
  // and the pool's size is the only limit of this owner.
  bool others_admitted() const { return others_admitted_; }

  // The uid of all tenants.
  std::uint32_t tenant_uid() const { return tenant_uid_; }
  std::uint32_t UidOf(OwnerId owner) const { return kvd::UidOf(owner, tenant_uid_); }
  // Returns whether the owner may list the tenants: the uid of the tenants, or the daemon's own.
  bool MayListTenants(OwnerId owner) const {
    return is_own(owner) || owner == OwnerOf(tenant_uid_);
  }

  std::shared_ptr<OwnerAccount> AccountOf(OwnerId owner);
  // Returns the account of a tenant of the uid; of the uid itself for kTenantZero. Errors:
  // kPermission (a tenant, and the uid is not the tenants' uid), kConflict (a connected
  // tenant, or a tenant of the file, has the same owner's number).
  Result<std::shared_ptr<OwnerAccount>> AdmitTenant(std::uint32_t uid, const TenantId& tenant);
  // Replaces the tenants' limits, also those of connected tenants.
  void SetTenants(Tenants tenants);
  // The largest wire::Hello::outlive_seconds of the owner's sessions.
  std::uint32_t OutliveSecondsMax(OwnerId owner) const { return LimitsFor(owner).outlive_seconds; }
  const UidLimits& other_limits() const { return quotas_.others; }
  // A tenant, its limits, and its account; null: the tenant is not connected.
  struct TenantState {
    Tenant tenant;
    OwnerId owner{};
    std::shared_ptr<const OwnerAccount> account;
  };
  // Lists the tenants of the file and the connected tenants, ordered by id.
  std::vector<TenantState> ListTenants() const;
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
  // Whether the owner is limited only by the pool: the daemon's own uid and the tenants' uid.
  bool HasPool(OwnerId owner) const { return is_own(owner) || owner == OwnerOf(tenant_uid_); }
  UidLimits LimitsFor(OwnerId owner) const;
  struct KnownOwner {
    std::weak_ptr<OwnerAccount> account;
    // The tenant of the owner; kTenantZero: a uid, or a tenant that has not connected since the
    // daemon's start.
    TenantId tenant{};
  };
  // Returns the owner's account, and makes it if there is none.
  std::shared_ptr<OwnerAccount> AccountLocked(OwnerId owner) KVD_REQUIRES(mutex_);
  void SetLimitsOf(OwnerAccount& account) const;
  // Returns the owner's part of `total`, at least 1.
  std::uint64_t PartOf(OwnerId owner, std::uint64_t total) const;

  const Quotas quotas_;
  const OwnerId own_;
  const bool others_admitted_;
  const std::uint32_t tenant_uid_;
  mutable Mutex tenants_mutex_;  // locked after mutex_ and after the memory's mutex
  std::map<OwnerId, Tenant> tenants_ KVD_GUARDED_BY(tenants_mutex_);  // the tenants of the file
  UidLimits tenant_defaults_ KVD_GUARDED_BY(tenants_mutex_);
  mutable Mutex mutex_;
  std::map<OwnerId, KnownOwner> accounts_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
