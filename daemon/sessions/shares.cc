// Every check has the form held + wanted <= limit, computed without overflow.
#include "daemon/sessions/shares.h"

#include <algorithm>

namespace kvd {
namespace {

const char* NameOf(Resource resource) {
  switch (resource) {
    case Resource::kConnections: return "connections";
    case Resource::kRequests: return "requests in flight";
    case Resource::kRequestArenaBytes: return "request arena bytes";
    case Resource::kResultArenaBytes: return "result arena bytes";
    case Resource::kHeldBytes: return "held bytes";
    case Resource::kSavedBytes: return "saved bytes";
    case Resource::kPromptCacheBytes: return "prompt cache bytes";
    case Resource::kOutlivingSessions: return "sessions that outlive their processes";
    case Resource::kPromptCacheEntries: break;
  }
  return "prompt cache entries";
}

}  // namespace

// The load is an acquire operation and pairs with the release operation of Remove: a thread that
// uses room given back by another thread also sees the other thread's earlier writes.
Status OwnerAccount::Add(Resource resource, std::uint64_t amount, std::uint64_t beside) {
  std::atomic<std::uint64_t>& counted = held_[Index(resource)];
  const std::uint64_t limit = this->limit(resource);
  const std::uint64_t room = limit - std::min(limit, beside);
  std::uint64_t held = counted.load(std::memory_order_acquire);
  do {
    if (beside > limit || held > room || amount > room - held) {
      return FailShare(NameOf(resource), owner_, amount, held + beside, limit);
    }
  } while (!counted.compare_exchange_weak(held, held + amount, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  return {};
}

void OwnerAccount::SetLimits(const ResourceNumbers& limits, std::uint32_t weight) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    limits_[i].store(limits[i], std::memory_order_relaxed);
  }
  weight_.store(weight, std::memory_order_relaxed);
}

Shares::Shares(const Quotas& quotas, OwnerId own, bool others_admitted,
               std::optional<std::uint32_t> tenant_uid)
    : quotas_(quotas),
      own_(own),
      others_admitted_(others_admitted),
      tenant_uid_(tenant_uid.value_or(kvd::UidOf(own, 0))),
      tenant_defaults_(quotas.others) {}

UidLimits Shares::LimitsFor(OwnerId owner) const {
  if (HasPool(owner)) return quotas_.own;
  if (!IsTenant(owner)) return quotas_.others;
  const MutexLock lock(tenants_mutex_);
  const auto known = tenants_.find(owner);
  return known == tenants_.end() ? tenant_defaults_ : known->second.limits;
}

void Shares::SetLimitsOf(OwnerAccount& account) const {
  ResourceNumbers limits;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    limits[i] = LimitOf(account.owner(), static_cast<Resource>(i));
  }
  account.SetLimits(limits, LimitsFor(account.owner()).weight);
}

Result<std::shared_ptr<OwnerAccount>> Shares::AdmitTenant(std::uint32_t uid,
                                                          const TenantId& tenant) {
  if (tenant == kTenantZero) return AccountOf(OwnerOf(uid));
  if (uid != tenant_uid_) {
    return Fail(Code::kPermission, "hello.tenant: uid ", uid, " may not name a tenant, only uid ",
                tenant_uid_, " may (--tenant-uid)");
  }
  const OwnerId owner = OwnerOf(uid, tenant);
  const auto is_another = [&] {
    const MutexLock lock(tenants_mutex_);
    const auto known = tenants_.find(owner);
    return known != tenants_.end() && known->second.id != tenant;
  };
  {
    const MutexLock lock(mutex_);
    std::shared_ptr<OwnerAccount> account = AccountLocked(owner);
    TenantId& known = accounts_[owner].tenant;
    if (known == kTenantZero) known = tenant;
    if (known == tenant && !is_another()) return account;
  }
  return Fail(Code::kConflict,
              "hello.tenant: another tenant has the number of this tenant; "
              "choose other bytes");
}

void Shares::SetTenants(Tenants tenants) {
  {
    const MutexLock lock(tenants_mutex_);
    tenant_defaults_ = tenants.defaults;
    tenants_.clear();
    for (auto& [id, tenant] : tenants.by_id) {
      tenants_.emplace(OwnerOf(tenant_uid_, id), std::move(tenant));
    }
  }
  const MutexLock lock(mutex_);
  for (const auto& [owner, known] : accounts_) {
    if (const auto account = known.account.lock(); account != nullptr) SetLimitsOf(*account);
  }
}

std::vector<Shares::TenantState> Shares::ListTenants() const {
  std::map<TenantId, TenantState> states;
  {
    const MutexLock lock(tenants_mutex_);
    for (const auto& [owner, tenant] : tenants_) {
      states[tenant.id] = {.tenant = tenant, .owner = owner, .account = {}};
    }
  }
  const MutexLock lock(mutex_);
  for (const auto& [owner, known] : accounts_) {
    std::shared_ptr<const OwnerAccount> account = known.account.lock();
    if (account == nullptr || known.tenant == kTenantZero) continue;
    TenantState& state = states[known.tenant];
    state.tenant.id = known.tenant;
    state.tenant.limits = LimitsFor(owner);
    state.owner = owner;
    state.account = std::move(account);
  }
  std::vector<TenantState> listed;
  for (auto& [id, state] : states) listed.push_back(std::move(state));
  return listed;
}

std::shared_ptr<OwnerAccount> Shares::AccountOf(OwnerId owner) {
  const MutexLock lock(mutex_);
  return AccountLocked(owner);
}

std::shared_ptr<OwnerAccount> Shares::AccountLocked(OwnerId owner) {
  std::erase_if(accounts_, [owner](const auto& one) {
    return one.first != owner && one.second.account.expired();
  });
  KnownOwner& known = accounts_[owner];
  std::shared_ptr<OwnerAccount> account = known.account.lock();
  if (account == nullptr) {
    account = std::make_shared<OwnerAccount>(owner);
    SetLimitsOf(*account);
    known = {.account = account, .tenant = {}};
  }
  return account;
}

Result<Share> Shares::Take(OwnerId owner, Resource resource, std::uint64_t amount) {
  Share share(AccountOf(owner), resource);
  KVD_CHECK_OK(share.Grow(amount));
  return share;
}

std::uint64_t Shares::LimitOf(OwnerId owner, Resource resource) const {
  const UidLimits limits = LimitsFor(owner);
  switch (resource) {
    case Resource::kConnections: return limits.connections;
    case Resource::kRequests: return limits.requests_in_flight;
    case Resource::kRequestArenaBytes: return limits.request_arena_bytes;
    case Resource::kResultArenaBytes: return limits.result_arena_bytes;
    case Resource::kHeldBytes: return limits.held_bytes;
    case Resource::kSavedBytes: return limits.saved_bytes;
    case Resource::kPromptCacheBytes: return PartOf(owner, quotas_.prompt_cache_bytes);
    case Resource::kOutlivingSessions: return limits.outliving_sessions;
    case Resource::kPromptCacheEntries: break;
  }
  return PartOf(owner, quotas_.prompt_cache_entries);
}

std::map<OwnerId, std::uint64_t> Shares::ListHeld(Resource resource) const {
  std::map<OwnerId, std::uint64_t> all;
  const MutexLock lock(mutex_);
  for (const auto& [owner, known] : accounts_) {
    const std::shared_ptr<OwnerAccount> account = known.account.lock();
    if (account != nullptr && account->held(resource) > 0) all[owner] = account->held(resource);
  }
  return all;
}

std::uint64_t Shares::PartOf(OwnerId owner, std::uint64_t total) const {
  double share = LimitsFor(owner).pool_share;
  if (HasPool(owner) && others_admitted_) share = std::min(share, 1.0 - quotas_.reserve_share);
  const auto part = static_cast<std::uint64_t>(share * static_cast<double>(total));
  return std::clamp<std::uint64_t>(part, 1, std::max<std::uint64_t>(total, 1));
}

OwnerLimits Shares::LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const {
  OwnerLimits limits;
  if (HasPool(owner) && !others_admitted_) return limits;
  const layout::MetaGeometry& meta = geometry.meta;
  for (std::uint32_t group = 0; group < meta.group_count; ++group) {
    limits.blocks[group] = PartOf(owner, meta.block_count[group]);
  }
  const UidLimits of_owner = LimitsFor(owner);
  limits.state_slots =
      std::min<std::uint64_t>(PartOf(owner, meta.state_slot_count), of_owner.state_slots);
  limits.counts_all = HasPool(owner);
  if (limits.counts_all) return limits;
  limits.sequences = of_owner.sequences;
  limits.list_units = PartOf(owner, meta.list_unit_count);
  limits.checkpoint_slots = PartOf(owner, geometry.checkpoint_slots);
  limits.logits_rows = PartOf(owner, meta.logits_row_count);
  return limits;
}

}  // namespace kvd
