// The names of snapshots and clients: sequences that the user names by their handle or by the name
// of their snapshot, and lists that show both names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "client/client.h"
#include "kvctl/options.h"
#include "shm/map_layout.h"

namespace kvd::kvctl {

struct NamedSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::string snapshot{};  // the name that was given; empty: a handle was given
};

// Returns the sequence that `text` names: a handle as a decimal or hexadecimal number
// (0x100000003), or the name of a snapshot, as Client::Attach finds it. A number that can be a
// handle is one, whatever names other users publish. Errors: kInvalidArgument (neither a handle nor
// a name), kNotFound (no such snapshot), those of Client::Snapshots.
Result<NamedSequence> FindSequence(const Client& client, std::string_view text);
// The same for each of the texts; an error of one means that none is used.
Result<std::vector<NamedSequence>> FindSequences(const Client& client,
                                                 const std::vector<std::string>& texts);

// The names of the snapshots that the user may see, by the handles of their sequences.
using SnapshotNames = std::map<SequenceHandle, std::string>;
Result<SnapshotNames> ReadSnapshotNames(const Client& client);
// Returns an empty text if the sequence is no snapshot.
std::string NameOf(const SnapshotNames& names, SequenceHandle handle);

// The names that the clients of this user's sessions have given, by the numbers of their sessions,
// as the live map shows them. Opens a session of its own. If the daemon shows no map, the names are
// left out.
using ClientNames = std::map<std::uint64_t, std::string>;
ClientNames ReadClientNames(const GlobalOptions& global);
std::string ClientNameOf(const layout::MapSession& session);

}  // namespace kvd::kvctl
