// The functions of kvd::Connection over the scripted daemon of this process. http_routes_fuzz is
// linked with this file instead of client/connection.cc, connection_requests.cc and
// connection_recovery.cc: there is no socket, no shared memory and no other thread.
//
// A call that waits lets the daemon execute what it has delayed. A link is never lost without its
// session. The output of a piece is freed by Release, so AddressSanitizer finds a use after it.
#include "tests/fuzz/scripted_connection.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "client/connection.h"
#include "shm/channel.h"
#include "tests/fuzz/scripted_daemon.h"

namespace kvd {
namespace {

using test::ScriptedDaemon;

ScriptedDaemon& Daemon() { return ScriptedDaemon::Get(); }

// The outputs that are not released, by their tickets.
std::map<std::uint64_t, std::vector<std::byte>> held_outputs;
std::uint64_t tickets = 0;
bool sessions_outlive = false;

// A channel that was moved from. Connection's constructor needs one, and does not use it.
Handshake EmptyHandshake() {
  static ClientChannel empty = [] {
    auto created = CreateChannel(ChannelGeometry(), "fuzz");
    KVD_ASSERT(created.has_value());
    auto attached = ClientChannel::Attach(
        created->channel.geometry(), created->descriptors[0].get(), created->descriptors[1].get());
    KVD_ASSERT(attached.has_value());
    return std::move(*attached);
  }();
  return {.socket = {}, .channel = std::move(empty), .info = {}, .map = {}};
}

std::unexpected<Error> TimedOut() { return Fail(Code::kTimeout, "no answer yet"); }

std::unexpected<Error> NoRequest() {
  return Fail(Code::kNotFound, "request: not in flight, or its answer was taken");
}

}  // namespace

namespace test {

std::size_t HeldOutputs() { return held_outputs.size(); }
void LetSessionsOutlive(bool outlive) { sessions_outlive = outlive; }

}  // namespace test

Payload PayloadOf(const std::span<const std::byte>& bytes) {
  return {bytes.size(),
          [](const void* context, std::span<std::byte> out) {
            const auto& source = *static_cast<const std::span<const std::byte>*>(context);
            std::ranges::copy(source, out.begin());
          },
          &bytes};
}

Result<std::shared_ptr<Connection>> Connection::Open(const ConnectOptions& options) {
  KVD_TRY(SessionInfo info, Daemon().Open(options));
  Handshake handshake = EmptyHandshake();
  handshake.info = std::move(info);
  return std::make_shared<Connection>(std::move(handshake), options);
}

Connection::Connection(Handshake handshake, const ConnectOptions& options)
    : fork_count_(0),
      options_(options),
      info_(std::move(handshake.info)),
      call_timeout_(options.call_timeout) {
  requests_.BeginAfter(info_.last_request);
}

Connection::~Connection() {
  const MutexLock lock(mutex_);
  (void)PumpAll();
  const bool has_failed = Daemon().Failure(info_.session).has_value();
  if (!has_failed) FailUnanswered();
  Daemon().Close(info_.session, sessions_outlive);
}

// At the end of a connection, only requests without a waiting caller may be in flight.
void Connection::FailUnanswered() {
  for (const PendingRequest* const request : requests_.Unanswered()) {
    KVD_ASSERT(request->is_abandoned);
  }
  KVD_ASSERT(requests_.Ready().empty());
}

std::uint64_t Connection::request_arena_bytes() const { return Daemon().ArenaBytes(info_.session); }

Status Connection::Failure() const {
  if (auto failure = Daemon().Failure(info_.session)) return std::unexpected(std::move(*failure));
  return {};
}

Error Connection::ErrorOf(const PendingRequest& request) {
  return {static_cast<Code>(request.final.code),
          std::string(reinterpret_cast<const char*>(request.collected.data()),
                      request.collected.size())};
}

Result<PendingRequest*> Connection::SubmitLocked(wire::Submission submission,
                                                 const Payload& payload, OutputMode mode,
                                                 const EarlierAttempt* earlier) {
  KVD_CHECK_OK(Failure());
  if (payload.byte_count > request_arena_bytes()) {
    return Fail(Code::kTooLarge, "payload: ", payload.byte_count, " bytes, the arena has ",
                request_arena_bytes());
  }
  PendingRequest* const request =
      earlier == nullptr ? requests_.Add(mode) : requests_.Adopt(earlier->request, mode, false);
  KVD_ASSERT(request != nullptr);
  submission.request = static_cast<std::uint64_t>(request->id);
  submission.payload_bytes = static_cast<std::uint32_t>(payload.byte_count);
  if (earlier != nullptr) {
    submission.flags |= wire::kFlagRetry;
    submission.received = earlier->received;
    submission.last_token = earlier->last_token;
  }
  std::vector<std::byte> bytes(payload.byte_count);
  if (!bytes.empty()) payload.write(payload.context, bytes);
  Daemon().Submit(info_.session, submission, std::move(bytes));
  return request;
}

Status Connection::PumpAll() {
  while (auto taken = Daemon().Take(info_.session)) {
    const wire::Completion& completion = taken->completion;
    PendingRequest* const request = requests_.Find(static_cast<RequestId>(completion.request));
    KVD_ASSERT(request != nullptr && !request->is_final);
    const bool is_final = (completion.flags & wire::kMore) == 0;
    const bool is_failed = completion.code != 0;
    if (is_failed) request->collected.clear();
    if (request->is_abandoned) {
      // Its output is not wanted.
    } else if (request->mode == OutputMode::kInPlace && !is_failed) {
      const std::uint64_t ticket = taken->output.empty() ? 0 : ++tickets;
      if (ticket != 0) held_outputs.emplace(ticket, std::move(taken->output));
      request->pieces.push_back({completion, ticket});
    } else {
      request->collected.insert(request->collected.end(), taken->output.begin(),
                                taken->output.end());
    }
    if (!is_final) continue;
    request->final = completion;
    request->is_final = true;
    if (request->is_abandoned) requests_.Free(request);
  }
  return {};
}

Result<wire::Completion> Connection::TakeFinal(PendingRequest* request,
                                               std::vector<std::byte>* output) {
  const wire::Completion final = request->final;
  if (final.code != 0) {
    Error error = ErrorOf(*request);
    requests_.Free(request);
    return std::unexpected(std::move(error));
  }
  if (output != nullptr) output->swap(request->collected);
  requests_.Free(request);
  return final;
}

Result<wire::Completion> Connection::Call(wire::Submission submission, const Payload& payload,
                                          std::vector<std::byte>* output) {
  const MutexLock lock(mutex_);
  KVD_TRY(PendingRequest* const request, SubmitLocked(submission, payload, OutputMode::kCollect));
  for (;;) {
    KVD_CHECK_OK(PumpAll());
    if (request->is_final) return TakeFinal(request, output);
    if (Status failed = Failure(); !failed) {
      requests_.Free(request);
      return std::unexpected(std::move(failed).error());
    }
    KVD_ASSERT(Daemon().Step());
  }
}

Result<RequestId> Connection::Submit(wire::Submission submission, const Payload& payload,
                                     OutputMode mode) {
  const MutexLock lock(mutex_);
  KVD_TRY(const PendingRequest* const request, SubmitLocked(submission, payload, mode));
  return request->id;
}

Status Connection::Repeat(const EarlierAttempt& earlier, wire::Submission submission,
                          const Payload& payload, OutputMode mode) {
  const MutexLock lock(mutex_);
  if (earlier.request == RequestId{}) return Fail(Code::kInvalidArgument, "request: 0");
  if (requests_.Find(earlier.request) != nullptr) {
    return Fail(Code::kConflict, "request: already in flight");
  }
  KVD_CHECK_OK(SubmitLocked(submission, payload, mode, &earlier));
  return {};
}

Result<wire::Completion> Connection::Finish(RequestId id, Timeout, std::vector<std::byte>* output) {
  const MutexLock lock(mutex_);
  KVD_CHECK_OK(PumpAll());
  PendingRequest* const request = requests_.Find(id);
  if (request == nullptr || request->is_abandoned || request->mode != OutputMode::kCollect) {
    return NoRequest();
  }
  if (request->is_final) return TakeFinal(request, output);
  if (Status failed = Failure(); !failed) {
    requests_.Free(request);
    return std::unexpected(std::move(failed).error());
  }
  return TimedOut();
}

void Connection::SubmitAndForget(wire::Submission submission, const Payload& payload) {
  const MutexLock lock(mutex_);
  const auto request = SubmitLocked(submission, payload, OutputMode::kCollect);
  if (!request) return;
  (*request)->is_abandoned = true;
  (void)PumpAll();
}

Result<Connection::Piece> Connection::Next(RequestId id, Timeout) {
  const MutexLock lock(mutex_);
  KVD_CHECK_OK(PumpAll());
  PendingRequest* const request = requests_.Find(id);
  if (request == nullptr || request->is_abandoned || request->mode != OutputMode::kInPlace) {
    return NoRequest();
  }
  if (request->has_piece()) {
    const auto taken = request->pieces[request->pieces_taken++];
    Piece piece{.completion = taken.completion, .output = {}, .ticket = taken.ticket};
    if (taken.ticket != 0) piece.output = held_outputs.at(taken.ticket);
    if ((taken.completion.flags & wire::kMore) == 0) requests_.Free(request);
    return piece;
  }
  if (!request->is_final) KVD_CHECK_OK(Failure());
  if (!request->is_final) return TimedOut();
  Error error = ErrorOf(*request);
  requests_.Free(request);
  return std::unexpected(std::move(error));
}

bool Connection::Release(std::uint64_t ticket) { return held_outputs.erase(ticket) != 0; }

Result<int> Connection::OpenEventDescriptor() { return Daemon().EventDescriptor(info_.session); }

Result<std::vector<RequestId>> Connection::TakeReady() {
  const MutexLock lock(mutex_);
  KVD_CHECK_OK(PumpAll());
  std::vector<RequestId> ready = requests_.Ready();
  if (!ready.empty()) return ready;
  KVD_CHECK_OK(Failure());
  Daemon().Quiet(info_.session);
  return ready;
}

Result<bool> Connection::Cancel(RequestId request) {
  KVD_TRY(const wire::Completion completion,
          Call(wire::MakeSubmission(wire::CancelArgs{request}), {}, nullptr));
  return completion.value0 != 0;
}

void Connection::Abandon(RequestId id) {
  const MutexLock lock(mutex_);
  (void)PumpAll();
  PendingRequest* const request = requests_.Find(id);
  if (request == nullptr || request->is_abandoned) return;
  for (std::size_t i = request->pieces_taken; i < request->pieces.size(); ++i) {
    held_outputs.erase(request->pieces[i].ticket);
  }
  request->pieces.clear();
  request->pieces_taken = 0;
  if (request->is_final || !Failure()) {
    requests_.Free(request);
    return;
  }
  request->is_abandoned = true;
  const auto cancel =
      SubmitLocked(wire::MakeSubmission(wire::CancelArgs{id}), {}, OutputMode::kCollect);
  if (cancel) (*cancel)->is_abandoned = true;
}

Result<std::size_t> Connection::WaitAny(std::span<const RequestId>, Timeout) {
  return Fail(Code::kUnsupported, "WaitAny: the gateway does not call it");
}

Status Connection::Renew() { return Fail(Code::kUnsupported, "Renew: the gateway opens sessions"); }

Status Connection::Leave() {
  return Fail(Code::kUnsupported, "Leave: the gateway closes no session");
}

}  // namespace kvd
