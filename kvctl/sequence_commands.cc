// The commands on sequences and snapshots.
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"
#include "shm/segment_layout.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// kvctl ps, fork, rm, text.

namespace {

std::string StateText(const wire::SequenceEntry& entry) {
  std::string text;
  const auto add = [&](std::uint32_t flag, const char* name) {
    if ((entry.flags & flag) == 0) return;
    if (!text.empty()) text += ',';
    text += name;
  };
  add(layout::kSequencePublished, "published");
  add(layout::kSequenceRetained, "retained");
  add(layout::kSequencePinned, "pinned");
  add(layout::kSequenceEdited, "edited");
  add(layout::kSequenceEphemeral, "ephemeral");
  return text.empty() ? "live" : text;
}

// The names that the list shows.
struct ListedNames {
  SnapshotNames snapshots;
  ClientNames clients;

  std::string ClientOf(const wire::SequenceEntry& entry) const {
    const auto found = clients.find(entry.session);
    return found == clients.end() ? std::string() : found->second;
  }
};

std::string OwnerText(const wire::SequenceEntry& entry, const std::string& client) {
  std::string text = Concat("uid ", entry.owner_uid);
  if (entry.owner_pid != 0) text += Concat(", pid ", entry.owner_pid);
  if (!client.empty()) text += Concat(" (", client, ")");
  return text;
}

Json JsonOf(const wire::SequenceEntry& entry, const ListedNames& names) {
  const auto handle = static_cast<SequenceHandle>(entry.handle);
  Json json = Json::Object();
  json.Set("handle", HandleText(handle))
      .Set("name", NameOf(names.snapshots, handle))
      .Set("session", std::to_string(entry.session))
      .Set("owner_uid", std::uint64_t{entry.owner_uid})
      .Set("owner_pid", std::uint64_t{entry.owner_pid})
      .Set("client_name", names.ClientOf(entry))
      .Set("state", StateText(entry))
      .Set("cells", std::uint64_t{entry.cell_count})
      .Set("shared_cells", std::uint64_t{entry.shared_cells})
      .Set("own_cells", std::uint64_t{entry.cell_count - entry.shared_cells})
      .Set("extents", std::uint64_t{entry.extent_count})
      .Set("deltas", std::uint64_t{entry.delta_count})
      .Set("first_pos", std::int64_t{entry.first_pos})
      .Set("next_pos", std::int64_t{entry.next_pos})
      .Set("age_ms", entry.age_ms);
  if (entry.expires_in_seconds != 0) {
    json.Set("expires_in_seconds", std::uint64_t{entry.expires_in_seconds});
  }
  if (entry.request_state != wire::kRequestNone) {
    json.Set("request", RequestStateName(entry.request_state))
        .Set("request_tokens_done", std::uint64_t{entry.request_tokens_done})
        .Set("request_tokens", std::uint64_t{entry.request_tokens})
        .Set("parked_ms", std::uint64_t{entry.parked_ms});
  }
  return json;
}

// A snapshot is removed by its name, which the daemon's error does not say.
Status ExplainDrop(const Client& client, SequenceHandle handle, const Error& error) {
  if (error.code != Code::kPermission) return std::unexpected(error);
  KVD_TRY(const SnapshotNames names, ReadSnapshotNames(client));
  const std::string name = NameOf(names, handle);
  if (name.empty()) return std::unexpected(error);
  return Fail(error.code, "sequence ", HandleText(handle), " is a snapshot, which kvctl unpublish ",
              name, " removes");
}

}  // namespace

Status ListSequences(const GlobalOptions& global) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto entries, client.List());
  ListedNames names;
  KVD_TRY(names.snapshots, ReadSnapshotNames(client));
  names.clients = ReadClientNames(global);
  if (global.wants_json) {
    Json list = Json::Array();
    for (const wire::SequenceEntry& entry : entries) list.Add(JsonOf(entry, names));
    std::puts(list.Text().c_str());
    return {};
  }
  std::vector<std::vector<std::string>> rows{
      {"HANDLE", "NAME", "OWNER", "LENGTH", "SHARED", "OWN", "AGE", "EXPIRES", "STATE", "REQUEST"}};
  for (const wire::SequenceEntry& entry : entries) {
    const auto handle = static_cast<SequenceHandle>(entry.handle);
    rows.push_back({HandleText(handle), NameOf(names.snapshots, handle),
                    OwnerText(entry, names.ClientOf(entry)), std::to_string(entry.cell_count),
                    std::to_string(entry.shared_cells),
                    std::to_string(entry.cell_count - entry.shared_cells), AgeText(entry.age_ms),
                    ExpiryText(entry.expires_in_seconds), StateText(entry), RequestText(entry)});
  }
  PrintTable(rows, "lllrrrrrll");
  return {};
}

Status ForkSequence(const GlobalOptions& global, const SequenceOptions& options) {
  if (options.holds) BlockInterrupts();
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const NamedSequence source, FindSequence(client, options.handles.front()));
  ForkInfo info;
  KVD_TRY(const auto forks,
          client.Fork(source.handle, options.cell_count, options.fork_count, &info));
  if (global.wants_json) {
    Json handles = Json::Array();
    for (const SequenceHandle fork : forks) handles.Add(HandleText(fork));
    Json json = Json::Object();
    json.Set("forks", std::move(handles))
        .Set("cells", info.cell_count)
        .Set("engine_ns", info.engine_ns)
        .Set("tokens_replayed", info.tokens_replayed);
    std::puts(json.Text().c_str());
  } else {
    for (const SequenceHandle fork : forks) std::puts(HandleText(fork).c_str());
    std::fprintf(stderr, "%llu cells each, forked in %s%s\n",
                 static_cast<unsigned long long>(info.cell_count),
                 DurationText(info.engine_ns).c_str(),
                 options.holds ? "; held until Ctrl-C" : "; ends with this session (see --hold)");
  }
  std::fflush(stdout);
  return options.holds ? HoldUntilInterrupted(client) : Status{};
}

Status RemoveSequences(const GlobalOptions& global, const SequenceOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto sequences, FindSequences(client, options.handles));
  const Force force = options.is_forced ? Force::kYes : Force::kNo;
  Json removed = Json::Array();
  for (const NamedSequence& sequence : sequences) {
    if (!sequence.snapshot.empty()) {
      KVD_CHECK_OK(client.Unpublish(sequence.snapshot, force));
    } else if (const Status dropped = client.Drop(sequence.handle, force); !dropped) {
      return ExplainDrop(client, sequence.handle, dropped.error());
    }
    removed.Add(HandleText(sequence.handle));
  }
  if (global.wants_json) {
    std::puts(Json::Object().Set("removed", std::move(removed)).Text().c_str());
  }
  return {};
}

Status ShowText(const GlobalOptions& global, const SequenceOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const NamedSequence sequence, FindSequence(client, options.handles.front()));
  const SequenceHandle handle = sequence.handle;
  KVD_TRY(const std::string text,
          client.ReadText(handle, FlagIf(options.shows_special, wire::kFlagSpecial)));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("handle", HandleText(handle)).Set("text", text);
    std::puts(json.Text().c_str());
    return {};
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::puts("");
  return {};
}

// kvctl publish, attach, unpublish, snapshots.

// Publishes a fork of the sequence, because the sequence may belong to another session.
Status PublishSnapshot(const GlobalOptions& global, const SnapshotOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const NamedSequence source, FindSequence(client, options.handle));
  ForkInfo info;
  KVD_TRY(const auto forks, client.Fork(source.handle, -1, 1, &info));
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
