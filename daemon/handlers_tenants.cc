// kTenants lists the tenants of the tenants' file and the connected tenants, with their limits and
// the amounts that they hold. A worker makes the list, because the bytes of saved states are
// counted on disk.
#include <algorithm>
#include <cstring>

#include "daemon/saved_states.h"
#include "daemon/service.h"

namespace kvd {

Result<Outcome> Service::Do(const Call<wire::TenantsArgs>&) {
  return WorkCall{.call = [this](WorkControl& work) -> Reply {
    wire::ListReply<wire::TenantEntry> reply;
    for (const Shares::TenantState& state : shares_.ListTenants()) {
      if (Status goes_on = work.Continue(); !goes_on) return ErrorReply(goes_on.error());
      const OwnerUse use = memory_.sequences().UseOf(state.owner);
      const OwnerLimits limits = shares_.LimitsOf(state.owner, memory_.geometry());
      const auto held = [&](Resource resource) -> std::uint64_t {
        return state.account == nullptr ? 0 : state.account->held(resource);
      };
      wire::TenantEntry entry{};
      std::ranges::copy(state.tenant.id, entry.tenant);
      state.tenant.name.copy(entry.name, sizeof entry.name - 1);
      entry.sequences_held = use.sequences;
      entry.sequences_max = limits.sequences;
      entry.cells_held = use.blocks[0] * layout::kBlockCells;
      entry.cells_max = limits.blocks[0] * layout::kBlockCells;
      entry.state_slots_held = use.state_slots;
      entry.state_slots_max = limits.state_slots;
      entry.requests_held = held(Resource::kRequests);
      entry.requests_max = state.tenant.limits.requests_in_flight;
      entry.connections_held = held(Resource::kConnections);
      entry.connections_max = state.tenant.limits.connections;
      if (surroundings_.saved_states != nullptr) {
        const Result<std::uint64_t> bytes = surroundings_.saved_states->BytesOf(state.owner);
        if (!bytes) return ErrorReply(bytes.error());
        entry.saved_bytes_held = *bytes;
      }
      entry.saved_bytes_max = state.tenant.limits.saved_bytes;
      entry.weight = state.tenant.limits.weight;
      reply.entries.push_back(entry);
    }
    return MakeReply(std::move(reply));
  }};
}

}  // namespace kvd
