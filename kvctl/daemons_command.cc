// kvctl daemons: lists the daemons of this user and their states in the default places, and removes
// what is left of them. No socket is connected to unless a daemon runs, because a connection starts
// a daemon whose socket a service manager holds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/text.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/state_folder.h"
#include "kvctl/terminal.h"
#include "shm/socket_address.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{500};

// A line of the list: a state, or a daemon whose state is elsewhere.
struct ListedDaemon {
  StateFolder state{};
  std::string socket{};  // empty: none is known
};

std::string ModelOf(const std::string& socket_path) {
  const auto client = Client::Connect({.socket_path = socket_path,
                                       .client_name = "kvctl",
                                       .connect_timeout = kAnswerTime,
                                       .call_timeout = kAnswerTime,
                                       .reconnect_timeout = std::chrono::milliseconds(0)});
  if (!client) return {};
  const auto info = client->Info();
  if (!info) return {};
  return {info->model_name, ::strnlen(info->model_name, sizeof info->model_name)};
}

// The daemons named `name`, or all of them if it is empty.
std::vector<ListedDaemon> FindDaemons(const std::string& name) {
  std::vector<ListedDaemon> daemons;
  for (StateFolder& folder : FindStateFolders()) {
    if (name.empty() || folder.daemon == name) daemons.push_back({.state = std::move(folder)});
  }
  for (const std::string& directory : SocketDirectories()) {
    for (const SocketFile& socket : FindSocketFiles(directory)) {
      if (!name.empty() && socket.daemon != name) continue;
      const auto found = std::ranges::find_if(daemons, [&](const ListedDaemon& daemon) {
        return daemon.state.daemon == socket.daemon && daemon.state.is_used &&
               (socket.holder_pid == 0 || socket.holder_pid == daemon.state.holder_pid);
      });
      if (found != daemons.end()) {
        found->socket = socket.path;
      } else if (socket.holder_pid != 0) {
        daemons.push_back(
            {.state = {.daemon = socket.daemon, .holder_pid = socket.holder_pid, .is_used = true},
             .socket = socket.path});
      }
    }
  }
  for (ListedDaemon& daemon : daemons) {
    if (daemon.socket.empty()) continue;
    if (const std::string model = ModelOf(daemon.socket); !model.empty())
      daemon.state.model = model;
  }
  return daemons;
}

std::string StatusText(const StateFolder& state) {
  if (state.is_used) return Concat("running, pid ", state.holder_pid);
  return state.has_state ? "stopped" : "nothing";
}

Json JsonOf(const ListedDaemon& daemon) {
  const StateFolder& state = daemon.state;
  Json json = Json::Object();
  json.Set("name", state.daemon)
      .Set("model", state.model)
      .Set("pid", std::uint64_t{state.is_used ? state.holder_pid : 0})
      .Set("socket", daemon.socket)
      .Set("state_directory", state.path)
      .Set("has_state", state.has_state)
      .Set("bytes", state.bytes)
      .Set("age_ms", state.age_ms);
  if (!state.content) return json;
  Json names = Json::Array();
  for (const std::string& name : state.content->snapshots) names.Add(name);
  json.Set("sequences", std::uint64_t{state.content->sequences})
      .Set("cells", state.content->cells)
      .Set("snapshots", std::move(names));
  return json;
}

void PrintDaemons(const GlobalOptions& global, const std::vector<ListedDaemon>& daemons) {
  if (global.wants_json) {
    Json list = Json::Array();
    for (const ListedDaemon& daemon : daemons) list.Add(JsonOf(daemon));
    std::puts(list.Text().c_str());
    return;
  }
  std::vector<std::vector<std::string>> rows{{"NAME", "MODEL", "STATUS", "BYTES", "AGE", "STATE"}};
  for (const auto& [state, socket] : daemons) {
    const bool is_elsewhere = state.path.empty();
    rows.push_back(
        {state.daemon, state.model, StatusText(state), is_elsewhere ? "" : BytesText(state.bytes),
         is_elsewhere ? "" : AgeText(state.age_ms), is_elsewhere ? "elsewhere" : state.path});
  }
  PrintTable(rows, "lllrrl");
}

// "notes: tiny, 3 sequences with 400 cells, snapshots: a, b; 64.2 MiB, 3h 2m old, in PATH"
std::string HoldingsText(const StateFolder& state) {
  std::string text = state.daemon + ": ";
  if (!state.model.empty()) text += state.model + ", ";
  if (!state.has_state) {
    text += "no state";
  } else if (!state.content) {
    text += "a state of another version of kvd, or a damaged one";
  } else {
    text += Concat(state.content->sequences,
                   state.content->sequences == 1 ? " sequence with " : " sequences with ",
                   state.content->cells, " cells");
    std::string names;
    for (const std::string& name : state.content->snapshots) {
      names += (names.empty() ? ", snapshots: " : ", ") + name;
    }
    text += names;
  }
  return Concat(text, "; ", BytesText(state.bytes), ", ", AgeText(state.age_ms), " old, in ",
                state.path);
}

// Removes what `daemons` hold, and left sockets. `is_named`: their states, too.
Status Prune(const GlobalOptions& global, const std::vector<ListedDaemon>& daemons, bool is_named) {
  std::vector<std::string> removed;
  for (const auto& [state, socket] : daemons) {
    if (state.path.empty() || (!is_named && (state.has_state || state.holder_pid != 0))) continue;
    // On standard error, before anything is removed, so that --json prints JSON alone.
    if (is_named) std::fprintf(stderr, "%s\n", HoldingsText(state).c_str());
    KVD_CHECK_OK(RemoveStateFolder(state));
    removed.push_back(state.path);
  }
  for (const std::string& directory : SocketDirectories()) {
    for (std::string& path : RemoveLeftSockets(directory)) removed.push_back(std::move(path));
  }
  if (global.wants_json) {
    Json list = Json::Array();
    for (const std::string& path : removed) list.Add(path);
    std::puts(Json::Object().Set("removed", std::move(list)).Text().c_str());
    return {};
  }
  for (const std::string& path : removed) std::printf("removed %s\n", path.c_str());
  if (removed.empty()) std::puts("nothing is left over");
  return {};
}

}  // namespace

Status ListDaemons(const GlobalOptions& global, const DaemonsOptions& options) {
  if (!global.connect.socket_path.empty() || !global.connect.daemon_name.empty()) {
    return Fail(Code::kInvalidArgument, "--socket, --name: not with daemons, which lists all");
  }
  if (!options.name.empty() && !IsName(options.name)) {
    return Fail(Code::kInvalidArgument, "name: '", options.name, "' is not the name of a daemon");
  }
  const std::vector<ListedDaemon> daemons = FindDaemons(options.name);
  if (!options.name.empty() && daemons.empty()) {
    return Fail(Code::kNotFound, "name: no daemon and no state of the name '", options.name,
                "' in the default places");
  }
  if (!options.prunes) {
    PrintDaemons(global, daemons);
    return {};
  }
  for (const auto& [state, socket] : daemons) {
    if (options.name.empty() || state.holder_pid == 0) continue;
    return Fail(Code::kBusy, state.daemon, ": the daemon runs, pid ", state.holder_pid,
                "; stop it first: kill ", state.holder_pid);
  }
  return Prune(global, daemons, !options.name.empty());
}

}  // namespace kvd::kvctl
