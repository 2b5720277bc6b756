// kvctl publish, attach, unpublish, snapshots.
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// Publishes a fork of the sequence, because the sequence may belong to another session.
Status PublishSnapshot(const GlobalOptions& global, const SnapshotOptions& options) {
  KVD_TRY(const SequenceHandle source, ParseHandle(options.handle));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  ForkInfo info;
  KVD_TRY(const auto forks, client.Fork(source, -1, 1, &info));
  const auto flags = static_cast<std::uint16_t>((options.is_public ? wire::kFlagPublic : 0) |
                                                (options.is_forced ? wire::kFlagForce : 0));
  KVD_TRY(const SequenceHandle snapshot, client.Publish(forks.front(), options.name, flags,
                                                        {.ttl_seconds = options.ttl_seconds,
                                                         .is_ephemeral = options.is_ephemeral}));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("name", options.name)
        .Set("sequence", HandleText(snapshot))
        .Set("cells", info.cell_count)
        .Set("public", options.is_public);
    std::puts(json.Text().c_str());
  } else {
    std::printf("%s  %llu cells  %s\n", options.name.c_str(),
                static_cast<unsigned long long>(info.cell_count), HandleText(snapshot).c_str());
  }
  return {};
}

Status AttachSnapshot(const GlobalOptions& global, const SnapshotOptions& options) {
  if (options.holds) BlockInterrupts();
  KVD_TRY(const Client client, Client::Connect(global.connect));
  ForkInfo info;
  KVD_TRY(const SequenceHandle handle, client.Attach(options.name, &info));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("name", options.name)
        .Set("sequence", HandleText(handle))
        .Set("cells", info.cell_count)
        .Set("engine_ns", info.engine_ns);
    std::puts(json.Text().c_str());
  } else {
    std::puts(HandleText(handle).c_str());
    std::fprintf(stderr, "%llu cells, attached in %s%s\n",
                 static_cast<unsigned long long>(info.cell_count),
                 DurationText(info.engine_ns).c_str(),
                 options.holds ? "; held until Ctrl-C" : "; ends with this session (see --hold)");
  }
  std::fflush(stdout);
  return options.holds ? HoldUntilInterrupted(client) : Status{};
}

Status UnpublishSnapshot(const GlobalOptions& global, const SnapshotOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_CHECK_OK(client.Unpublish(options.name, options.is_forced ? Force::kYes : Force::kNo));
  if (global.wants_json) {
    std::puts(Json::Object().Set("unpublished", options.name).Text().c_str());
  }
  return {};
}

Status ListSnapshots(const GlobalOptions& global) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto snapshots, client.Snapshots());
  if (global.wants_json) {
    Json list = Json::Array();
    for (const Snapshot& snapshot : snapshots) {
      Json json = Json::Object();
      json.Set("name", snapshot.name)
          .Set("sequence", HandleText(snapshot.sequence))
          .Set("owner_uid", std::uint64_t{snapshot.owner_uid})
          .Set("public", snapshot.is_public)
          .Set("ephemeral", snapshot.is_ephemeral)
          .Set("cells", std::uint64_t{snapshot.cell_count})
          .Set("age_ms", snapshot.age_ms);
      if (snapshot.expires_in_seconds != 0) {
        json.Set("expires_in_seconds", std::uint64_t{snapshot.expires_in_seconds});
      }
      list.Add(std::move(json));
    }
    std::puts(list.Text().c_str());
    return {};
  }
  std::vector<std::vector<std::string>> rows{
      {"NAME", "OWNER", "PUBLIC", "LENGTH", "AGE", "EXPIRES", "HANDLE"}};
  for (const Snapshot& snapshot : snapshots) {
    rows.push_back({snapshot.name, Concat("uid ", snapshot.owner_uid),
                    snapshot.is_public ? "yes" : "no", std::to_string(snapshot.cell_count),
                    AgeText(snapshot.age_ms), ExpiryText(snapshot.expires_in_seconds),
                    HandleText(snapshot.sequence)});
  }
  PrintTable(rows, "lllrrrl");
  return {};
}

}  // namespace kvd::kvctl
