#include "tests/client/support/fake_daemon.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "shm/peer_socket.h"
#include "shm/socket_address.h"
#include "shm/verb_table.h"
#include "shm/wire_check.h"

namespace kvd {

FakeSession::FakeSession(DaemonChannel channel, UniqueFd socket)
    : channel_(std::move(channel)), socket_(std::move(socket)) {}

bool FakeSession::WaitForRoom(std::size_t output_bytes) {
  for (;;) {
    if (!channel_.completions().Refresh()) return false;
    if (channel_.completions().free_slots() > 0 &&
        channel_.completions().output_space() >= output_bytes) {
      return true;
    }
    Publish();
    auto may_sleep = channel_.PrepareToSleep(true);
    // PrepareToSleep returns false if a submission waits. A submission makes no room for the
    // completion, so this thread sleeps 1 ms and looks again.
    if (!may_sleep) return false;
    if (*may_sleep) {
      const auto rung = WaitDoorbell(socket_.get(), std::chrono::seconds(10));
      if (!rung) return false;
      channel_.WakeUp();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void FakeSession::Write(const wire::Submission& to, Code code, bool is_final,
                        std::span<const std::byte> output, Values values) {
  if (!WaitForRoom(output.size())) return;
  CompletionProducer& completions = channel_.completions();
  const auto piece = completions.AllocateOutput(output.size());
  KVD_ASSERT(piece.has_value());
  std::ranges::copy(output, piece->bytes.begin());
  wire::Completion completion{};
  completion.request = to.request;
  completion.verb = to.verb;
  completion.code = static_cast<std::uint8_t>(code);
  completion.sequence = values.sequence;
  completion.value0 = values.value0;
  completion.value1 = values.value1;
  completion.value2 = values.value2;
  const auto output_bytes = static_cast<std::uint32_t>(output.size());
  if (is_final) {
    KVD_ASSERT(completions.Reserve());
    completions.WriteFinal(completion, *piece, output_bytes);
  } else {
    completions.WriteMore(completion, *piece, output_bytes);
  }
}

void FakeSession::More(const wire::Submission& to, std::span<const std::byte> output,
                       Values values) {
  Write(to, Code::kOk, false, output, values);
}
void FakeSession::Final(const wire::Submission& to, std::span<const std::byte> output,
                        Values values) {
  Write(to, Code::kOk, true, output, values);
}
void FakeSession::Fail(const wire::Submission& to, Code code, std::string_view message) {
  Write(to, code, true, std::as_bytes(std::span(message)), {});
}
void FakeSession::HangUp() { ::shutdown(socket_.get(), SHUT_RDWR); }
void FakeSession::Publish() {
  if (channel_.completions().Publish()) (void)RingDoorbell(socket_.get());
}

void DefaultAnswer(FakeSession& session, const ReceivedSubmission& received) {
  const wire::Submission& submission = received.submission;
  if (!received.check) {
    session.Fail(submission, received.check.error().code, received.check.error().message);
    return;
  }
  switch (static_cast<wire::Verb>(submission.verb)) {
    case wire::Verb::kPing: session.Final(submission, received.payload, {}); return;
    case wire::Verb::kCreate:
    case wire::Verb::kAttach:
    case wire::Verb::kPublish:
      session.Final(submission, {}, {session.next_handle++, 1500, 30});
      return;
    case wire::Verb::kCancel: {
      const auto target = wire::ReadArguments<wire::CancelArgs>(submission).request;
      const auto found = std::ranges::find(session.held, static_cast<std::uint64_t>(target),
                                           &wire::Submission::request);
      const bool was_found = found != session.held.end();
      if (was_found) {
        session.Fail(*found, Code::kCancelled, "cancelled by the client");
        session.held.erase(found);
      }
      session.Final(submission, {}, {0, was_found ? 1 : 0, 0});
      return;
    }
    default: session.Final(submission, {}, {}); return;
  }
}

FakeDaemon::FakeDaemon(Handler handler, WelcomeHook welcome_hook)
    : handler_(std::move(handler)), welcome_hook_(std::move(welcome_hook)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "kvd-fake-XXXXXX").string();
  directory_ = ::mkdtemp(pattern.data());
  listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = MakeSocketAddress(socket_path());
  KVD_ASSERT(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address->address),
                    address->address_bytes) == 0);
  KVD_ASSERT(::listen(listener_.get(), 16) == 0);
  acceptor_ = std::thread([this] { Accept(); });
}

FakeDaemon::~FakeDaemon() {
  is_stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  Die();
  for (std::thread& thread : threads_) thread.join();
  std::filesystem::remove_all(directory_);
}

ConnectOptions FakeDaemon::options() const {
  ConnectOptions options;
  options.socket_path = socket_path();
  options.client_name = "test";
  options.call_timeout = std::chrono::seconds(20);
  return options;
}

void FakeDaemon::Die() {
  const std::lock_guard lock(mutex_);
  for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
}

void FakeDaemon::Accept() {
  while (!is_stopping_) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    ++accepted_count_;
    if (hang_ups_left_ > 0) {
      --hang_ups_left_;
      ::close(socket);
      continue;
    }
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { Serve(socket); });
  }
}

void FakeDaemon::Serve(int socket) {
  const auto forget = [this, socket] {
    const std::lock_guard lock(mutex_);
    std::erase(sockets_, socket);
  };
  UniqueFd owned(socket);
  wire::Hello hello;
  wire::Welcome welcome{};
  if (::recv(socket, &hello, sizeof hello, MSG_WAITALL) != sizeof hello) return forget();
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kProtocolVersion;
  const auto checked = wire::ValidateHello(hello);
  KVD_ASSERT(checked.has_value());
  auto created = CreateChannel(checked->geometry, "kvd-fake");
  KVD_ASSERT(created.has_value());
  welcome.descriptor_count = 2;
  welcome.session = 7;
  welcome.submission_entries = checked->geometry.submission_entries;
  welcome.completion_entries = checked->geometry.completion_entries;
  welcome.request_segment_bytes = checked->geometry.request_segment_bytes();
  welcome.result_segment_bytes = checked->geometry.result_segment_bytes();
  welcome.vocab_size = kVocab;
  welcome.daemon_pid = static_cast<std::uint32_t>(::getpid());
  std::vector<int> descriptors{created->descriptors[0].get(), created->descriptors[1].get()};
  if (welcome_hook_) welcome_hook_(welcome, descriptors);
  (void)SendWithDescriptors(socket, std::as_bytes(std::span(&welcome, 1)), descriptors);
  FakeSession session(std::move(created->channel), std::move(owned));
  ReceivedSubmission received;
  for (;;) {
    for (;;) {
      const auto taken = session.channel().submissions().Take(received);
      if (!taken) return forget();
      if (!*taken) break;
      if (!handler_ || !handler_(session, received)) DefaultAnswer(session, received);
      session.Publish();
    }
    const auto may_sleep = session.channel().PrepareToSleep(false);
    if (!may_sleep) return forget();
    if (!*may_sleep) continue;
    if (!WaitDoorbell(socket, std::chrono::nanoseconds(-1))) return forget();
    session.channel().WakeUp();
  }
}

}  // namespace kvd
