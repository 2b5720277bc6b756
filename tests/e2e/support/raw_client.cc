#include "tests/e2e/support/raw_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"
#include "shm/peer_socket.h"
#include "shm/socket_address.h"

namespace kvd::test {

UniqueFd ConnectRaw(const std::string& socket_path) {
  const auto address = MakeSocketAddress(socket_path);
  KVD_ASSERT(address.has_value());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address->address);
  if (::connect(socket.get(), generic, address->address_bytes) != 0) return UniqueFd();
  return socket;
}

wire::Hello GoodHello() {
  wire::Hello hello{};
  hello.magic = wire::kHelloMagic;
  hello.version = wire::kProtocolVersion;
  hello.name[0] = 'h';
  return hello;
}

wire::Submission SubmissionOf(wire::Verb verb, std::uint64_t request) {
  wire::Submission submission{};
  submission.request = request;
  submission.verb = static_cast<std::uint16_t>(verb);
  return submission;
}

std::optional<RawClient> RawClient::Connect(const std::string& socket_path,
                                            const wire::Hello& hello, wire::Welcome* welcome) {
  RawClient client;
  client.socket_ = ConnectRaw(socket_path);
  if (!client.socket_) return std::nullopt;
  if (::send(client.socket(), &hello, sizeof hello, MSG_NOSIGNAL) < 0 && errno != EPIPE) {
    return std::nullopt;
  }
  wire::Welcome answer{};
  auto descriptors =
      ReceiveWithDescriptors(client.socket(), std::as_writable_bytes(std::span(&answer, 1)),
                             std::chrono::milliseconds(10'000));
  if (welcome != nullptr) *welcome = answer;
  if (!descriptors || descriptors->size() != 2) return std::nullopt;
  client.requests_descriptor_ = std::move((*descriptors)[0]);
  client.results_descriptor_ = std::move((*descriptors)[1]);
  auto requests = Mapping<kReadWrite>::MapAll(client.requests_descriptor());
  auto results = Mapping<kReadOnly>::MapAll(client.results_descriptor());
  if (!requests || !results) return std::nullopt;
  client.requests_ = std::move(*requests);
  client.results_ = std::move(*results);
  const auto geometry =
      GeometryOfSegments(answer.submission_entries, answer.completion_entries,
                         answer.request_segment_bytes, answer.result_segment_bytes);
  KVD_ASSERT(geometry.has_value());
  auto channel =
      ClientChannel::Attach(*geometry, client.requests_descriptor(), client.results_descriptor());
  KVD_ASSERT(channel.has_value());
  client.channel_ = std::move(*channel);
  client.geometry_ = *geometry;
  return client;
}

layout::RequestsHeader& RawClient::requests_header() {
  return *reinterpret_cast<layout::RequestsHeader*>(requests_.data());
}

const layout::ResultsHeader& RawClient::results_header() const {
  return *reinterpret_cast<const layout::ResultsHeader*>(results_.data());
}

bool RawClient::Submit(const wire::Submission& submission, std::span<const std::byte> payload) {
  const auto room = channel_->submissions().Reserve(payload.size());
  if (!room || !*room) return false;
  std::ranges::copy(payload, (*room)->begin());
  (void)channel_->submissions().Submit(submission);
  Ring();
  return true;
}

void RawClient::SubmitAsIs(const wire::Submission& submission) {
  auto& tail = requests_header().submission_tail;
  const std::uint64_t entry = tail.load() % geometry_.submission_entries;
  const auto bytes = std::as_bytes(std::span(&submission, 1));
  std::ranges::copy(bytes, requests_.bytes().begin() + sizeof(layout::RequestsHeader) +
                               static_cast<std::ptrdiff_t>(entry * sizeof submission));
  tail.fetch_add(1, std::memory_order_release);
  Ring();
}

std::span<std::byte> RawClient::request_arena() {
  return requests_.bytes().subspan(geometry_.request_arena_offset(), geometry_.request_arena_bytes);
}

void RawClient::Ring() { (void)RingDoorbell(socket()); }

bool RawClient::HungUpWithin(int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < deadline) {
    if (!DrainDoorbell(socket())) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::optional<wire::Completion> RawClient::Wait(int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < deadline) {
    wire::Completion completion{};
    const auto next = channel_->completions().Next(completion);
    if (!next) return std::nullopt;
    if (*next) return completion;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

}  // namespace kvd::test
