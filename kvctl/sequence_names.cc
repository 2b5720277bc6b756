// The upper half of a handle is a generation, which is never 0, so a smaller number is no handle
// and may be the name of a snapshot.
#include "kvctl/sequence_names.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/name.h"

namespace kvd::kvctl {
namespace {

constexpr std::uint64_t kSmallestHandle = std::uint64_t{1} << 32;

std::optional<std::uint64_t> NumberFrom(std::string_view text) {
  const bool is_hexadecimal = text.starts_with("0x");
  const std::string_view digits = is_hexadecimal ? text.substr(2) : text;
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number,
                                      is_hexadecimal ? 16 : 10);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || number == 0) {
    return std::nullopt;
  }
  return number;
}

// The user's own snapshot, or else the public one: of two visible ones with one name, the private
// one is the user's.
const Snapshot* FindSnapshot(const std::vector<Snapshot>& snapshots, std::string_view name) {
  const Snapshot* found = nullptr;
  for (const Snapshot& snapshot : snapshots) {
    if (snapshot.name == name && (found == nullptr || !snapshot.is_public)) found = &snapshot;
  }
  return found;
}

// `snapshots`: read when it is first needed.
Result<NamedSequence> Find(const Client& client, std::string_view text,
                           std::optional<std::vector<Snapshot>>& snapshots) {
  const std::optional<std::uint64_t> number = NumberFrom(text);
  if (number && *number >= kSmallestHandle) {
    return NamedSequence{.handle = static_cast<SequenceHandle>(*number)};
  }
  if (!IsName(text)) {
    return Fail(Code::kInvalidArgument, "sequence: '", text,
                "' is neither a handle nor the name of a snapshot; kvctl ps lists both");
  }
  if (!snapshots) {
    KVD_TRY(snapshots, client.Snapshots());
  }
  if (const Snapshot* const found = FindSnapshot(*snapshots, text)) {
    return NamedSequence{.handle = found->sequence, .snapshot = found->name};
  }
  if (number) return NamedSequence{.handle = static_cast<SequenceHandle>(*number)};
  return Fail(Code::kNotFound, "sequence: '", text,
              "' is neither a handle nor the name of a snapshot; kvctl ps lists both");
}

}  // namespace

Result<NamedSequence> FindSequence(const Client& client, std::string_view text) {
  std::optional<std::vector<Snapshot>> snapshots;
  return Find(client, text, snapshots);
}

Result<std::vector<NamedSequence>> FindSequences(const Client& client,
                                                 const std::vector<std::string>& texts) {
  std::optional<std::vector<Snapshot>> snapshots;
  std::vector<NamedSequence> found;
  for (const std::string& text : texts) {
    KVD_TRY(NamedSequence sequence, Find(client, text, snapshots));
    found.push_back(std::move(sequence));
  }
  return found;
}

Result<SnapshotNames> ReadSnapshotNames(const Client& client) {
  KVD_TRY(const std::vector<Snapshot> snapshots, client.Snapshots());
  SnapshotNames names;
  for (const Snapshot& snapshot : snapshots) names.emplace(snapshot.sequence, snapshot.name);
  return names;
}

std::string NameOf(const SnapshotNames& names, SequenceHandle handle) {
  const auto found = names.find(handle);
  return found == names.end() ? std::string() : found->second;
}

std::string ClientNameOf(const layout::MapSession& session) {
  return {session.client_name, ::strnlen(session.client_name, sizeof session.client_name)};
}

ClientNames ReadClientNames(const GlobalOptions& global) {
  ConnectOptions connect = global.connect;
  connect.wants_map = true;
  connect.reconnect_timeout = std::chrono::milliseconds(0);
  const auto client = Client::Connect(connect);
  if (!client) return {};
  const auto map = client->OpenMap();
  if (!map) return {};
  ClientNames names;
  for (const layout::MapSession& session : map->content().sessions()) {
    if (session.session != 0) names.emplace(session.session, ClientNameOf(session));
  }
  return names;
}

}  // namespace kvd::kvctl
