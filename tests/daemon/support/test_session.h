// TestSession: a Session of the daemon and the client's end of its segments, in one process.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "daemon/sessions/session.h"
#include "shm/channel.h"
#include "shm/piece_codec.h"
#include "shm/verb_table.h"

namespace kvd::test {

// A completion and a copy of its output; the output is released unless the test holds it.
struct ReceivedCompletion {
  wire::Completion completion{};
  std::vector<std::byte> output;

  Code code() const { return static_cast<Code>(completion.code); }
  SequenceHandle sequence() const { return static_cast<SequenceHandle>(completion.sequence); }
  // Returns the typed reply of a verb. REQUIRES: the code is kOk; the whole output is in `output`.
  template <class Reply>
  Reply As() const {
    std::vector<std::byte> bytes = output;
    Result<Reply> reply = wire::ReadReply<Reply>("the verb", completion, bytes);
    KVD_ASSERT(code() == Code::kOk && reply.has_value());
    return std::move(*reply);
  }
  bool is_final() const { return (completion.flags & wire::kMore) == 0; }
  std::string text() const { return {reinterpret_cast<const char*>(output.data()), output.size()}; }
  template <class T>
  T value() const {
    T read{};
    KVD_ASSERT(output.size() >= sizeof read);
    std::memcpy(&read, output.data(), sizeof read);
    return read;
  }
};

class TestSession {
 public:
  explicit TestSession(std::uint64_t id, std::uint32_t uid = 1000, ChannelGeometry geometry = {},
                       std::optional<StoredSession> stored = {}, SessionShares shares = {})
      : TestSession(id, uid, geometry, MakeSockets(), stored, std::move(shares)) {}

  // A session of any owner, such as a tenant of uid 1000.
  TestSession(std::uint64_t id, OwnerId owner, ChannelGeometry geometry, SessionShares shares)
      : TestSession(id, UidOf(owner, 1000), owner, geometry, MakeSockets(), MakeChannel(geometry),
                    {}, std::move(shares)) {}

  const std::shared_ptr<Session>& session() const { return session_; }
  ClientChannel& client() { return client_; }
  int pumps() const { return *pumps_; }
  void HoldOutputs() { holds_outputs_ = true; }

  // Takes the next completion; nullopt: there is none.
  std::optional<ReceivedCompletion> Next() {
    wire::Completion completion{};
    const auto got = client_.completions().Next(completion);
    KVD_ASSERT(got.has_value());
    if (!*got) return std::nullopt;
    const auto output = client_.completions().output(completion);
    ReceivedCompletion received{completion, {output.begin(), output.end()}};
    if (!holds_outputs_) client_.completions().Release(completion);
    return received;
  }
  std::vector<ReceivedCompletion> All() {
    std::vector<ReceivedCompletion> all;
    while (auto next = Next()) all.push_back(std::move(*next));
    return all;
  }

  // Puts a submission into the ring and lets the daemon's end take it.
  ReceivedSubmission Send(wire::Submission submission, std::span<const std::byte> payload = {}) {
    const auto room = client_.submissions().Reserve(payload.size());
    KVD_ASSERT(room && *room);
    std::ranges::copy(payload, (*room)->begin());
    (void)client_.submissions().Submit(submission);
    ReceivedSubmission received;
    const auto taken = session_->TakeSubmission(received);
    KVD_ASSERT(taken && *taken);
    return received;
  }

 private:
  struct Sockets {
    UniqueFd daemon;
    UniqueFd client;
  };
  static Sockets MakeSockets() {
    int pair[2];
    KVD_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    return {UniqueFd(pair[0]), UniqueFd(pair[1])};
  }
  static CreatedChannel MakeChannel(const ChannelGeometry& geometry) {
    auto created = CreateChannel(geometry, "kvd-test");
    KVD_ASSERT(created.has_value());
    return std::move(*created);
  }
  static ClientChannel Attach(const ChannelGeometry& geometry, const CreatedChannel& created) {
    auto attached =
        ClientChannel::Attach(geometry, created.descriptors[0].get(), created.descriptors[1].get());
    KVD_ASSERT(attached.has_value());
    return std::move(*attached);
  }

  TestSession(std::uint64_t id, std::uint32_t uid, const ChannelGeometry& geometry, Sockets sockets,
              const std::optional<StoredSession>& stored, SessionShares shares)
      : TestSession(id, uid, OwnerOf(uid), geometry, std::move(sockets), MakeChannel(geometry),
                    stored, std::move(shares)) {}
  TestSession(std::uint64_t id, std::uint32_t uid, OwnerId owner, const ChannelGeometry& geometry,
              Sockets sockets, CreatedChannel created, const std::optional<StoredSession>& stored,
              SessionShares shares)
      : socket_(std::move(sockets.client)), client_(Attach(geometry, created)) {
    session_ = std::make_shared<Session>(
        SessionIdentity{.id = static_cast<SessionId>(id),
                        .peer = {.pid = 1, .uid = uid, .gid = uid},
                        .owner = owner,
                        .name = "test",
                        .stored = stored},
        std::move(sockets.daemon), std::move(created.channel),
        [pumps = pumps_](SessionId) { ++*pumps; }, std::move(shares));
  }

  UniqueFd socket_;
  ClientChannel client_;
  std::shared_ptr<int> pumps_ = std::make_shared<int>(0);
  std::shared_ptr<Session> session_;
  bool holds_outputs_ = false;
};

}  // namespace kvd::test
