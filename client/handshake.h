// ShakeHands: connects to a daemon's socket, exchanges hello and welcome, and maps the segments.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/channel.h"

namespace kvd {

// Pauses between attempts to connect: each is twice as long as the one before, up to the maximum.
inline constexpr std::chrono::milliseconds kFirstRetryPause{5};
inline constexpr std::chrono::milliseconds kRetryPauseMax{250};

enum class ConnectionNotice : std::uint8_t {
  kLost,      // the connection is lost, and was not restored within a second
  kRestored,  // it is restored, after kLost
};

struct ConnectOptions {
  // Path of the daemon's socket; empty: ClientSocketPath chooses the path.
  std::string socket_path{};
  // Name of the daemon in the default socket path; empty: $KVD_SOCKET, else "default".
  std::string daemon_name{};
  // Name of the client, shown in lists and logs: printable ASCII, at most 32 bytes.
  std::string client_name{};
  // Token of the session to resume; all zero: ShakeHands opens a new session.
  std::array<std::uint8_t, 16> session_token{};
  // 0: the daemon's default, also in the next three members.
  std::uint32_t submission_entries = 0;
  std::uint32_t completion_entries = 0;
  std::uint64_t request_arena_bytes = 0;
  std::uint64_t result_arena_bytes = 0;
  // True: the hello requests the live map, which Client::OpenMap needs.
  bool wants_map = false;
  bool shares_prefixes = true;  // false: prompts reuse no prefix of other sequences
  // Salt of the session: prompts reuse only sequences with the same salt.
  std::uint64_t cache_salt = 0;
  // The tenant of the process's uid to which the session belongs; all zero: the uid itself. The
  // daemon accepts tenants only from the uid of its flag --tenant-uid.
  std::array<std::uint8_t, 16> tenant{};
  // Seconds for which the daemon keeps the session after the connection is lost without a goodbye,
  // also if this process ends; at most wire::kOutliveSecondsMax. Another process resumes the
  // session with session_token. Requests in flight stop after the step in progress; the other
  // process continues a generation with Client::ResumeGenerate. 0: the session ends with this
  // process.
  std::uint32_t outlive_seconds = 0;
  // Limit of all attempts together; negative: no limit.
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds call_timeout{-1};  // limit of each call; negative: no limit
  // How long to retry a lost connection with the session's token; 0: never.
  std::chrono::milliseconds reconnect_timeout{10'000};
  // Called by a thread that waits for the daemon, without a lock; must not call the client.
  std::function<void(ConnectionNotice notice)> on_notice{};
};

// The contents of the daemon's welcome.
struct SessionInfo {
  std::uint64_t session = 0;
  std::array<std::uint8_t, 16> session_token{};
  std::uint32_t vocab_size = 0;
  std::uint32_t daemon_pid = 0;
  std::uint64_t pool_cells = 0;
  // The largest request id of the session that the daemon has recorded.
  std::uint64_t last_request = 0;
  std::string socket_path;
};

struct Handshake {
  UniqueFd socket;
  ClientChannel channel;
  SessionInfo info;
  UniqueFd map;  // descriptor of the live map; empty if ConnectOptions::wants_map is false
};

// Connects to the daemon. A daemon that closes the connection before its welcome was stopped or
// killed, and its successor may be starting. In this case ShakeHands retries until connect_timeout
// has passed, and the error names the last cause. ShakeHands does not retry if no daemon listens at
// the first attempt, or if the daemon refuses the hello. Errors: kInvalidArgument (path, name,
// sizes), kDisconnected (no daemon listens; the message says how to start one), kPermission,
// kVersionMismatch, kTimeout, kNoSpace (a limit of the daemon), kCorrupt, kSessionLost (the daemon
// does not know the token).
Result<Handshake> ShakeHands(const ConnectOptions& options);

// Connects as ShakeHands, but makes only one attempt. Errors: those of ShakeHands.
Result<Handshake> TryHandshake(const ConnectOptions& options);

}  // namespace kvd
