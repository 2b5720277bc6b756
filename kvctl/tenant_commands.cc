// kvctl tenants, life.
#include <cstdio>
#include <string>
#include <vector>

#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"
#include "shm/segment_layout.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

std::string HexText(const std::uint8_t (&tenant)[16]) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : tenant) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// "3 of 64"; "3" if there is no limit.
std::string HeldText(std::uint64_t held, std::uint64_t limit) {
  return limit == wire::kNoTenantLimit ? std::to_string(held) : Concat(held, " of ", limit);
}

Json HeldJson(std::uint64_t held, std::uint64_t limit) {
  Json json = Json::Object();
  json.Set("held", held);
  if (limit != wire::kNoTenantLimit) json.Set("max", limit);
  return json;
}

Json JsonOf(const wire::TenantEntry& entry) {
  Json json = Json::Object();
  json.Set("tenant", HexText(entry.tenant))
      .Set("name", std::string(entry.name))
      .Set("sequences", HeldJson(entry.sequences_held, entry.sequences_max))
      .Set("cells", HeldJson(entry.cells_held, entry.cells_max))
      .Set("state_slots", HeldJson(entry.state_slots_held, entry.state_slots_max))
      .Set("requests", HeldJson(entry.requests_held, entry.requests_max))
      .Set("connections", HeldJson(entry.connections_held, entry.connections_max))
      .Set("saved_bytes", HeldJson(entry.saved_bytes_held, entry.saved_bytes_max))
      .Set("weight", entry.weight);
  return json;
}

// Returns the error, or for a snapshot an error that says how its life is set.
Status ExplainLife(const Client& client, SequenceHandle handle, const Error& error) {
  const auto entry = client.Query(handle);
  if (!entry || (entry->flags & layout::kSequencePublished) == 0) return std::unexpected(error);
  const auto snapshots = client.Snapshots();
  std::string name = "NAME";
  for (const Snapshot& snapshot : snapshots ? *snapshots : std::vector<Snapshot>()) {
    if (snapshot.sequence == handle) name = snapshot.name;
  }
  return Fail(error.code, "sequence ", HandleText(handle),
              " is a snapshot, whose life is set when it is published: kvctl publish --force ",
              "--ttl SECONDS ", HandleText(handle), " ", name);
}

}  // namespace

Status ListTenants(const GlobalOptions& global) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto tenants, client.Call(wire::TenantsArgs{}));
  if (global.wants_json) {
    Json list = Json::Array();
    for (const wire::TenantEntry& entry : tenants.entries) list.Add(JsonOf(entry));
    std::puts(list.Text().c_str());
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"TENANT", "NAME", "SEQUENCES", "CELLS", "STATES",
                                              "REQUESTS", "CONNECTIONS", "SAVED BYTES", "WEIGHT"}};
  for (const wire::TenantEntry& entry : tenants.entries) {
    rows.push_back(
        {HexText(entry.tenant), entry.name, HeldText(entry.sequences_held, entry.sequences_max),
         HeldText(entry.cells_held, entry.cells_max),
         HeldText(entry.state_slots_held, entry.state_slots_max),
         HeldText(entry.requests_held, entry.requests_max),
         HeldText(entry.connections_held, entry.connections_max),
         HeldText(entry.saved_bytes_held, entry.saved_bytes_max), std::to_string(entry.weight)});
  }
  PrintTable(rows, "llrrrrrrr");
  return {};
}

Status SetLife(const GlobalOptions& global, const LifeOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  const auto flags = static_cast<std::uint16_t>(FlagIf(options.is_forced, wire::kFlagForce) |
                                                FlagIf(options.is_ephemeral, wire::kFlagEphemeral));
  KVD_TRY(const auto sequences, FindSequences(client, options.handles));
  for (const auto& [handle, name] : sequences) {
    const auto set = client.Call(wire::SetLifeArgs{handle, options.ttl_seconds}, {}, flags);
    if (!set) return ExplainLife(client, handle, set.error());
  }
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("sequences", std::uint64_t{options.handles.size()})
        .Set("ttl_seconds", std::uint64_t{options.ttl_seconds})
        .Set("is_ephemeral", options.is_ephemeral);
    std::puts(json.Text().c_str());
  }
  return {};
}

}  // namespace kvd::kvctl
