// Finding a daemon and saying hello: from a path to a connected socket and mapped segments.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "shm/channel.h"
#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

struct ConnectOptions {
  std::string socket_path{};  // empty: ClientSocketPath's rules
  std::string daemon_name{};  // of the default path; empty: KVD_SOCKET, else "default"
  std::string client_name{};  // shown in lists and logs: printable ASCII, at most 32 bytes
  std::array<std::uint8_t, 16> session_token{};  // all zero: a new session
  std::uint32_t submission_entries = 0;          // 0: the daemon's default; so the three below
  std::uint32_t completion_entries = 0;
  std::uint64_t request_arena_bytes = 0;
  std::uint64_t result_arena_bytes = 0;
  bool wants_map = false;        // for Client::OpenMap
  bool shares_prefixes = true;   // false: prompts take nothing from other sequences
  std::uint64_t cache_salt = 0;  // prompts take from sequences with the same one alone
  std::chrono::milliseconds connect_timeout{10'000};  // of all attempts; negative: for ever
  std::chrono::milliseconds call_timeout{-1};         // of each call; negative: for ever
  // How long a lost connection is tried to be made again, with the session's token; 0: not at all.
  std::chrono::milliseconds reconnect_timeout{10'000};
};

// What Welcome said.
struct SessionInfo {
  std::uint64_t session = 0;
  std::array<std::uint8_t, 16> session_token{};
  std::uint32_t vocab_size = 0;
  std::uint32_t daemon_pid = 0;
  std::uint64_t pool_cells = 0;
  std::uint64_t last_request = 0;  // largest request id that the daemon remembers of the session
  std::string socket_path;
};

struct Handshake {
  UniqueFd socket;
  ClientChannel channel;
  SessionInfo info;
  UniqueFd map;  // if it was wanted
};

// A daemon that hangs up before it has said welcome was stopped or killed, and the next one may be
// starting: it is tried again until connect_timeout is over; the error then names the last cause.
// Where no daemon is at the first attempt, and after a refusal, nothing is tried again.
// Errors: kInvalidArgument (path, name, sizes), kDisconnected (no daemon there; the message says
// how to start one), kPermission, kVersionMismatch, kTimeout, kNoSpace (the daemon's limits),
// kCorrupt, kSessionLost (the daemon does not know the token).
Result<Handshake> ShakeHands(const ConnectOptions& options);

// One attempt, whatever comes of it. Errors as above.
Result<Handshake> TryHandshake(const ConnectOptions& options);

}  // namespace kvd
