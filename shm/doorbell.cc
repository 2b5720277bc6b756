#include "shm/doorbell.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstddef>

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

}  // namespace kvd
