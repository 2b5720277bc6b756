// Every check has one form: held + wanted <= limit, without overflow.
#include "daemon/quotas.h"

#include <algorithm>
#include <string>

#include "daemon/owner_of_uid.h"

namespace kvd {
namespace {

Status Check(const char* what, std::uint32_t uid, std::uint64_t held, std::uint64_t wanted,
             std::uint64_t limit) {
  if (held <= limit && wanted <= limit - held) return {};
  return Fail(Code::kNoSpace, std::string(what) + ": " + std::to_string(wanted) +
                                  " more wanted, uid " + std::to_string(uid) + " holds " +
                                  std::to_string(held) + " of " + std::to_string(limit));
}

}  // namespace

QuotaPolicy::QuotaPolicy(const Quotas& quotas, std::uint32_t daemon_uid, bool others_admitted)
    : quotas_(quotas), daemon_uid_(daemon_uid), others_admitted_(others_admitted) {}

const UidLimits& QuotaPolicy::Limits(std::uint32_t uid) const {
  return is_own(uid) ? quotas_.own : quotas_.others;
}

Status QuotaPolicy::CheckConnections(std::uint32_t uid, std::uint32_t held) const {
  return Check("connections", uid, held, 1, Limits(uid).connections);
}

Status QuotaPolicy::CheckRequests(std::uint32_t uid, std::uint32_t held) const {
  return Check("requests in flight", uid, held, 1, Limits(uid).requests_in_flight);
}

Status QuotaPolicy::CheckResultBytes(std::uint32_t uid, std::uint64_t held,
                                     std::uint64_t wanted) const {
  return Check("result arena bytes", uid, held, wanted, Limits(uid).result_arena_bytes);
}

Status QuotaPolicy::CheckRequestBytes(std::uint32_t uid, std::uint64_t held,
                                      std::uint64_t wanted) const {
  return Check("request arena bytes", uid, held, wanted, Limits(uid).request_arena_bytes);
}

Status QuotaPolicy::CheckHeldBytes(std::uint32_t uid, std::uint64_t held,
                                   std::uint64_t wanted) const {
  return Check("held bytes", uid, held, wanted, Limits(uid).held_bytes);
}

Status QuotaPolicy::CheckSavedBytes(std::uint32_t uid, std::uint64_t held,
                                    std::uint64_t wanted) const {
  return Check("saved bytes", uid, held, wanted, Limits(uid).saved_bytes);
}

std::uint64_t QuotaPolicy::PartOf(std::uint32_t uid, std::uint64_t total) const {
  double share = Limits(uid).pool_share;
  if (is_own(uid) && others_admitted_) share = std::min(share, 1.0 - quotas_.reserve_share);
  const auto part = static_cast<std::uint64_t>(share * static_cast<double>(total));
  return std::clamp<std::uint64_t>(part, 1, std::max<std::uint64_t>(total, 1));
}

OwnerLimits QuotaPolicy::LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const {
  OwnerLimits limits;
  const auto uid = UidOf(owner);
  if (is_own(uid) && !others_admitted_) return limits;
  const layout::MetaGeometry& meta = geometry.meta;
  for (std::uint32_t group = 0; group < meta.group_count; ++group) {
    limits.blocks[group] = PartOf(uid, meta.block_count[group]);
  }
  limits.state_slots = PartOf(uid, meta.state_slot_count);
  limits.counts_all = is_own(uid);
  if (is_own(uid)) return limits;
  limits.sequences = Limits(uid).sequences;
  limits.list_units = PartOf(uid, meta.list_unit_count);
  limits.checkpoint_slots = PartOf(uid, geometry.checkpoint_slots);
  limits.logits_rows = PartOf(uid, meta.logits_row_count);
  return limits;
}

}  // namespace kvd
