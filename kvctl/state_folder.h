// The states of a daemon, as kvctl daemons lists and removes them: the files of each, the daemon
// that uses it, and what its `meta` holds.
//
// The functions change a daemon's directory only while they hold its lock, so no daemon uses it
// meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvd::kvctl {

// What a state holds.
struct StateContent {
  std::uint32_t sequences = 0;
  std::uint64_t cells = 0;
  std::vector<std::string> snapshots;  // their names
};

// The state of one model, or a daemon's directory without a state.
struct StateFolder {
  std::string path{};
  std::string daemon_path{};  // the directory of the daemon's name: `path`, or the one above it
  std::string daemon{};       // the daemon's name
  std::string model{};        // the model's name; empty: not known
  std::uint64_t bytes = 0;
  std::uint64_t age_ms = 0;  // since the last start of a daemon, or growth of the state
  bool has_state = false;
  std::uint32_t holder_pid = 0;           // of the daemon that has locked daemon_path; 0: none
  bool is_used = false;                   // by that daemon, which uses one of its states
  std::optional<StateContent> content{};  // nullopt: no state, in use, or of another layout
};

// Returns the states of this user's daemons in the default places, and the directories of daemons
// without a state.
std::vector<StateFolder> FindStateFolders();

// Removes the files of the state and its folder, and with the daemon's last state the lock and the
// daemon's directory. Errors: kBusy (a daemon uses the directory), kIo (a file cannot be removed,
// or is none of a state, and stays).
Status RemoveStateFolder(const StateFolder& folder);

// A socket in a directory of default sockets (SocketDirectories).
struct SocketFile {
  std::string path;
  std::string daemon;            // the daemon's name
  std::uint32_t holder_pid = 0;  // of the daemon that has made it; 0: none runs, or it inherited it
};
std::vector<SocketFile> FindSocketFiles(const std::string& directory);

// Removes a socket on which no daemon listens, with its lock, and a lock without a socket. Returns
// the paths that were removed. `directory`: of sockets, as SocketDirectories names them.
std::vector<std::string> RemoveLeftSockets(const std::string& directory);

}  // namespace kvd::kvctl
