#include "tests/daemon/support/simulated_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "shm/peer_socket.h"
#include "shm/wire_check.h"

namespace kvd::test {

SimulatedConnection::SimulatedConnection(UniqueFd socket, std::uint32_t uid,
                                         const wire::Hello& hello)
    : socket_(std::move(socket)), uid_(uid), hello_(hello) {}

void SimulatedConnection::SendHello(std::size_t byte_count) {
  const auto rest = std::as_bytes(std::span(&hello_, 1)).subspan(hello_sent_bytes_);
  const auto part = rest.first(std::min(byte_count, rest.size()));
  if (part.empty()) return;
  // send fails if the daemon has hung up already; Receive then reports the reason.
  (void)::send(socket_.get(), part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  hello_sent_bytes_ += part.size();
}

void SimulatedConnection::SayGoodbye() { (void)kvd::SayGoodbye(socket_.get()); }

bool SimulatedConnection::Submit(wire::Submission submission, std::span<const std::byte> payload,
                                 std::uint64_t expected) {
  const auto room = channel_->submissions().Reserve(payload.size());
  if (!room || !*room) return false;
  std::ranges::copy(payload, (*room)->begin());
  if (channel_->submissions().Submit(submission)) (void)RingDoorbell(socket_.get());
  in_flight_[submission.request] = {.submission = submission, .expected = expected};
  return true;
}

Status SimulatedConnection::Receive(const Answered& answered) {
  if (state_ == State::kGreeting) KVD_CHECK_OK(ReceiveWelcome());
  if (state_ == State::kGreeting) return {};
  KVD_CHECK_OK(ReceiveBells());
  // Completions that were sent before a hang-up are read, too.
  return channel_ ? ReceiveCompletions(answered) : Status{};
}

Status SimulatedConnection::ReceiveWelcome() {
  std::byte first;
  const ssize_t peeked = ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (peeked < 0 && errno == EAGAIN) return {};
  if (peeked <= 0) return Fail(Code::kInternal, "the daemon has hung up without a welcome");
  KVD_TRY(const auto descriptors,
          ReceiveWithDescriptors(socket_.get(), std::as_writable_bytes(std::span(&welcome_, 1)),
                                 std::chrono::milliseconds(0)));
  if (welcome_.code != 0) {
    state_ = State::kRefused;
    return {};
  }
  KVD_TRY(const ChannelGeometry geometry, wire::ValidateWelcome(welcome_));
  if (descriptors.size() < 2) return Fail(Code::kInternal, "a welcome without descriptors");
  KVD_TRY(auto channel,
          ClientChannel::Attach(geometry, descriptors[0].get(), descriptors[1].get()));
  channel_.emplace(std::move(channel));
  state_ = State::kWelcomed;
  return {};
}

Status SimulatedConnection::ReceiveBells() {
  std::array<std::byte, 512> bytes;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return {};
    if (got <= 0) {
      if (state_ == State::kWelcomed) state_ = State::kHungUp;
      return {};
    }
    const auto came = std::span(bytes).first(static_cast<std::size_t>(got));
    if (state_ == State::kRefused ||
        std::ranges::any_of(came, [](std::byte byte) { return byte != std::byte{wire::kBell}; })) {
      return Fail(Code::kInternal, "more than one answer to a hello");
    }
  }
}

Status SimulatedConnection::ReceiveCompletions(const Answered& answered) {
  CompletionConsumer& completions = channel_->completions();
  for (;;) {
    wire::Completion completion{};
    KVD_TRY(const bool is_there, completions.Next(completion));
    if (!is_there) {
      if (completions.PrepareToSleep()) break;
      continue;
    }
    const auto found = in_flight_.find(completion.request);
    if (found == in_flight_.end()) {
      return Fail(Code::kInternal, "an answer to request " + std::to_string(completion.request) +
                                       ", which is not in flight here");
    }
    const Sent sent = found->second;
    const bool is_final = (completion.flags & wire::kMore) == 0;
    if (is_final) in_flight_.erase(found);
    Status status =
        is_final ? answered(sent, completion, completions.output(completion)) : Status{};
    completions.Release(completion);
    KVD_CHECK_OK(std::move(status));
  }
  if (state_ == State::kWelcomed && completions.daemon_stalled()) (void)RingDoorbell(socket_.get());
  return {};
}

}  // namespace kvd::test
