#include "daemon/sessions/pending_hello.h"
#include "base/text.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace kvd {

PendingHello::PendingHello(IoLoop& loop, UniqueFd socket, const PeerCredentials& peer,
                           std::chrono::milliseconds deadline, Callbacks callbacks)
    : socket_(std::move(socket)), peer_(peer), callbacks_(std::move(callbacks)) {
  timer_ = loop.After(deadline, [this, deadline] {
    GiveUp({Code::kTimeout, Concat("hello: ", received_bytes_, " of ", sizeof(wire::Hello),
                                   " bytes arrived within ", deadline.count(), " ms")});
  });
  watch_ = loop.WatchReadable(socket_.get(), [this] { OnReadable(); });
}

void PendingHello::OnReadable() {
  const auto rest = std::span(hello_).subspan(received_bytes_);
  const ssize_t got = ::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) return GiveUp(FailErrno("hello").error());
  if (got == 0)
    return GiveUp(
        {Code::kDisconnected, "the client closed the connection before its hello was complete"});
  received_bytes_ += static_cast<std::size_t>(got);
  if (received_bytes_ < hello_.size()) return;
  timer_.reset();
  watch_.reset();
  wire::Hello hello;
  std::memcpy(&hello, hello_.data(), sizeof hello);
  const Result<wire::CheckedHello> checked = wire::ValidateHello(hello);
  if (!checked) return GiveUp(checked.error());
  callbacks_.introduced(*checked);
}

void PendingHello::GiveUp(const Error& why) {
  timer_.reset();
  watch_.reset();
  callbacks_.failed(why);
}

void SendRefusal(int socket, const Error& why) {
  wire::Welcome welcome{};
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kProtocolVersion;
  welcome.code = static_cast<std::uint8_t>(why.code);
  welcome.daemon_pid = static_cast<std::uint32_t>(::getpid());
  const std::size_t message_bytes = std::min(why.message.size(), sizeof welcome.message - 1);
  std::memcpy(welcome.message, why.message.data(), message_bytes);
  (void)::send(socket, &welcome, sizeof welcome, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace kvd
