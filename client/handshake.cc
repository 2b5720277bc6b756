#include "client/handshake.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "shm/peer_socket.h"
#include "shm/socket_address.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

// Returns the text as one word of a command line of a shell: as it is, or in single quotes.
std::string ShellWord(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.,/:=+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The command that starts a daemon which these options reach. `path`: the path that they give.
std::string StartCommand(const ConnectOptions& options, const std::string& path) {
  std::string command = "kvd ";
  if (!options.daemon_name.empty() && options.socket_path.empty()) {
    command += "--name " + ShellWord(options.daemon_name) + " ";
  } else if (const auto usual = DefaultSocketPath(kDefaultDaemonName); !usual || *usual != path) {
    command += "--socket " + ShellWord(path) + " ";
  }
  return command + "[--model FILE.gguf]";
}

std::unexpected<Error> ConnectError(const ConnectOptions& options, const std::string& path) {
  switch (errno) {
    case ENOENT:
    case ECONNREFUSED:
      return Fail(Code::kDisconnected, "no daemon at ", path,
                  "; start one with: ", StartCommand(options, path));
    case EACCES:
    case EPERM: return Fail(Code::kPermission, path, ": this user may not connect to that daemon");
    case EAGAIN: return Fail(Code::kTimeout, path, ": the daemon accepts no connection");
    default: return FailErrno("connect " + path);
  }
}

Status SetSendTimeout(int socket, std::chrono::milliseconds timeout) {
  const auto milliseconds = std::max<std::int64_t>(timeout.count(), 0);
  const timeval value{static_cast<time_t>(milliseconds / 1000),
                      static_cast<suseconds_t>(milliseconds % 1000 * 1000)};
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value) == 0) return {};
  return FailErrno("SO_SNDTIMEO");
}

// Connects and returns a blocking socket. If the backlog of the daemon's socket is full, ConnectTo
// waits at most `connect_timeout`.
Result<UniqueFd> ConnectTo(const ConnectOptions& options, const std::string& path) {
  const std::chrono::milliseconds timeout = options.connect_timeout;
  KVD_TRY(const SocketAddress address, MakeSocketAddress(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailErrno("socket");
  KVD_CHECK_OK(SetSendTimeout(
      socket.get(), std::max(timeout, std::chrono::milliseconds(timeout.count() < 0 ? 0 : 1))));
  int result;
  do {
    result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.address),
                       address.address_bytes);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return ConnectError(options, path);
  KVD_CHECK_OK(SetSendTimeout(socket.get(), std::chrono::milliseconds(0)));
  return socket;
}

Result<wire::Hello> HelloOf(const ConnectOptions& options) {
  wire::Hello hello{};
  hello.magic = wire::kHelloMagic;
  hello.version = wire::kProtocolVersion;
  hello.flags = (options.wants_map ? std::uint32_t{wire::kHelloMap} : 0u) |
                (options.shares_prefixes ? 0u : std::uint32_t{wire::kHelloNoPrefix}) |
                (options.reconnect_timeout.count() > 0 ? std::uint32_t{wire::kHelloReturns} : 0u);
  hello.cache_salt = options.cache_salt;
  std::ranges::copy(options.tenant, hello.tenant);
  hello.outlive_seconds = options.outlive_seconds;
  hello.submission_entries = options.submission_entries;
  hello.completion_entries = options.completion_entries;
  hello.request_arena_bytes = options.request_arena_bytes;
  hello.result_arena_bytes = options.result_arena_bytes;
  std::ranges::copy(options.session_token, hello.session_token);
  if (options.client_name.size() > sizeof hello.name) {
    return Fail(Code::kInvalidArgument, "client_name: ", options.client_name.size(),
                " bytes, at most ", sizeof hello.name);
  }
  std::ranges::copy(options.client_name, hello.name);
  // The daemon also validates the hello; the client validates it first, so that an invalid option
  // is reported before the client connects.
  KVD_TRY([[maybe_unused]] const auto checked, wire::ValidateHello(hello));
  return hello;
}

// How an attempt to connect ended, which determines whether ShakeHands retries.
enum class Ending : std::uint8_t {
  kOther,
  kAbsent,  // no daemon listens
  kHungUp,  // the daemon closed the connection before its welcome
};

Result<Handshake> ConnectOnce(const ConnectOptions& options, Ending* ending) {
  *ending = Ending::kOther;
  KVD_TRY(const wire::Hello hello, HelloOf(options));
  KVD_TRY(const std::string path, ClientSocketPath(options.socket_path, options.daemon_name));
  Result<UniqueFd> connected = ConnectTo(options, path);
  if (!connected) {
    if (connected.error().code == Code::kDisconnected) *ending = Ending::kAbsent;
    return std::unexpected(std::move(connected).error());
  }
  UniqueFd socket = std::move(*connected);
  // Sending may fail because the daemon has already refused and closed the connection, so the
  // daemon's answer is read even after a failure.
  (void)SendWithDescriptors(socket.get(), std::as_bytes(std::span(&hello, 1)), {});
  wire::Welcome welcome{};
  auto descriptors = ReceiveWithDescriptors(
      socket.get(), std::as_writable_bytes(std::span(&welcome, 1)), options.connect_timeout);
  if (!descriptors) {
    if (descriptors.error().code == Code::kDisconnected) *ending = Ending::kHungUp;
    return Fail(descriptors.error().code, path, ": no welcome: ", descriptors.error().message);
  }
  KVD_TRY(const ChannelGeometry geometry, wire::ValidateWelcome(welcome));
  if (descriptors->size() != welcome.descriptor_count) {
    return Fail(Code::kCorrupt, "welcome: ", descriptors->size(), " descriptors received, ",
                welcome.descriptor_count, " announced");
  }
  if (options.wants_map != (welcome.descriptor_count == 3)) {
    return Fail(Code::kCorrupt, "welcome.descriptor_count: ", welcome.descriptor_count,
                ": does not match wants_map of hello");
  }
  KVD_TRY(auto channel,
          ClientChannel::Attach(geometry, (*descriptors)[0].get(), (*descriptors)[1].get()));
  SessionInfo info;
  info.session = welcome.session;
  std::ranges::copy(welcome.session_token, info.session_token.begin());
  info.vocab_size = welcome.vocab_size;
  info.daemon_pid = welcome.daemon_pid;
  info.pool_cells = welcome.pool_cells;
  info.last_request = welcome.last_request;
  info.socket_path = path;
  UniqueFd map;
  if (options.wants_map) map = std::move((*descriptors)[2]);
  return Handshake{std::move(socket), std::move(channel), std::move(info), std::move(map)};
}

}  // namespace

Result<Handshake> TryHandshake(const ConnectOptions& options) {
  Ending ending{};
  return ConnectOnce(options, &ending);
}

Result<Handshake> ShakeHands(const ConnectOptions& options) {
  using Clock = std::chrono::steady_clock;
  const bool has_deadline = options.connect_timeout.count() >= 0;
  const Clock::time_point deadline = Clock::now() + options.connect_timeout;
  ConnectOptions attempt = options;
  // Error of the last failed attempt that was followed by another attempt.
  std::optional<Error> cause;
  for (auto pause = kFirstRetryPause;; pause = std::min(2 * pause, kRetryPauseMax)) {
    Ending ending{};
    Result<Handshake> handshake = ConnectOnce(attempt, &ending);
    if (handshake) return handshake;
    // If the last attempt timed out, the error of the previous attempt is returned, because the
    // previous error names the cause.
    const bool is_over = cause && handshake.error().code == Code::kTimeout;
    if (ending == Ending::kHungUp || (cause && ending == Ending::kAbsent)) {
      cause = handshake.error();
    } else if (!is_over) {
      return handshake;
    }
    if (is_over || (has_deadline && Clock::now() + pause >= deadline)) {
      return Fail(cause->code, cause->message, "; tried for ", options.connect_timeout.count(),
                  " ms");
    }
    std::this_thread::sleep_for(pause);
    if (!has_deadline) continue;
    attempt.connect_timeout = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    attempt.connect_timeout = std::max(attempt.connect_timeout, std::chrono::milliseconds(0));
  }
}

}  // namespace kvd
