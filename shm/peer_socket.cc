#include "shm/peer_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "shm/wire_messages.h"

namespace kvd {
namespace {

constexpr std::size_t kBellsAtOnce = 256;

std::unexpected<Error> HungUp() { return Fail(Code::kDisconnected, "the peer has hung up"); }

// Calls recv once and returns the number of bytes read: 0 if no byte was available (only with
// MSG_DONTWAIT) or a signal interrupted the call.
Result<std::size_t> TakeBells(int socket, int flags) {
  std::byte bells[kBellsAtOnce];
  const ssize_t got = ::recv(socket, bells, sizeof bells, flags);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0 || errno == ECONNRESET) return HungUp();
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::size_t{0};
  return FailErrno("doorbell: recv");
}

Status SendBell(int socket, std::uint8_t bell) {
  for (;;) {
    if (::send(socket, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    if (errno == EPIPE || errno == ECONNRESET) return HungUp();
    return FailErrno("doorbell: send");
  }
}

}  // namespace

Status RingDoorbell(int socket) { return SendBell(socket, wire::kBell); }

Status SayGoodbye(int socket) { return SendBell(socket, wire::kGoodbyeBell); }

Status DrainDoorbell(int socket) {
  for (;;) {
    KVD_TRY(const std::size_t count, TakeBells(socket, MSG_DONTWAIT));
    if (count < kBellsAtOnce) return {};
  }
}

Result<bool> WaitDoorbell(int socket, std::chrono::nanoseconds timeout) {
  if (timeout.count() < 0) {
    for (;;) {
      KVD_TRY(const std::size_t count, TakeBells(socket, 0));
      if (count != 0) return true;
    }
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec wait{static_cast<time_t>(seconds.count()),
                      static_cast<long>((timeout - seconds).count())};
  pollfd entry{socket, POLLIN, 0};
  const int ready = ::ppoll(&entry, 1, &wait, nullptr);
  if (ready < 0 && errno != EINTR) return FailErrno("doorbell: ppoll");
  if (ready == 0) return false;
  KVD_CHECK_OK(DrainDoorbell(socket));
  return true;
}

namespace {

using Clock = std::chrono::steady_clock;

// The control buffer has room for one descriptor more than the limit, so that too many descriptors
// are detected and closed.
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * (kDescriptorsMax + 1));

// Returns true if the socket is readable or the peer has closed the connection, and false if the
// deadline has passed.
Result<bool> WaitReadable(int socket, bool has_deadline, Clock::time_point deadline) {
  for (;;) {
    int wait_ms = -1;
    if (has_deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      wait_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
    }
    pollfd entry{socket, POLLIN, 0};
    const int ready = ::poll(&entry, 1, wait_ms);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return FailErrno("poll");
  }
}

// Moves the descriptors of a message into `received`. Returns false if the message contains control
// data of another kind than descriptors.
bool TakeDescriptors(msghdr& message, std::vector<UniqueFd>& received) {
  bool is_known = true;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      is_known = false;
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      received.emplace_back(descriptor);
    }
  }
  return is_known;
}

}  // namespace

Status SendWithDescriptors(int socket, std::span<const std::byte> bytes,
                           std::span<const int> descriptors) {
  if (bytes.empty() || descriptors.size() > kDescriptorsMax) {
    return Fail(Code::kInvalidArgument, "descriptors: ", descriptors.size(), " with ", bytes.size(),
                " bytes, at most ", kDescriptorsMax, " with at least 1 byte");
  }
  alignas(cmsghdr) std::byte control[kControlBytes] = {};
  while (!bytes.empty()) {
    iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE || errno == ECONNRESET) {
        return Fail(Code::kDisconnected, "the peer has hung up");
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return Fail(Code::kBusy, "the peer's socket buffer is full");
      }
      return FailErrno("sendmsg");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
    descriptors = {};
  }
  return {};
}

Result<std::vector<UniqueFd>> ReceiveWithDescriptors(int socket, std::span<std::byte> bytes,
                                                     std::chrono::milliseconds timeout) {
  const bool has_deadline = timeout.count() >= 0;
  const Clock::time_point deadline = Clock::now() + (has_deadline ? timeout : timeout.zero());
  std::vector<UniqueFd> received;
  while (!bytes.empty()) {
    KVD_TRY(const bool is_readable, WaitReadable(socket, has_deadline, deadline));
    if (!is_readable) return Fail(Code::kTimeout, "the peer sent nothing within the timeout");
    alignas(cmsghdr) std::byte control[kControlBytes];
    iovec vector{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) continue;
      if (errno == ECONNRESET) return Fail(Code::kDisconnected, "the peer has hung up");
      return FailErrno("recvmsg");
    }
    const bool is_known = TakeDescriptors(message, received);
    if (got == 0) return Fail(Code::kDisconnected, "the peer has hung up");
    if (!is_known) return Fail(Code::kCorrupt, "unexpected control data from the peer");
    if ((message.msg_flags & MSG_CTRUNC) != 0 || received.size() > kDescriptorsMax) {
      return Fail(Code::kCorrupt, "more than ", kDescriptorsMax,
                  " descriptors came, or the descriptor table is full");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return received;
}

Result<PeerCredentials> ReadPeerCredentials(int socket) {
  ucred credentials{};
  socklen_t credential_bytes = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &credential_bytes) != 0) {
    return FailErrno("SO_PEERCRED");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace kvd
