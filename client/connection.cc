// How threads wait: a thread that waits for an answer first takes the completions of all requests
// from the ring (Pump). If the thread's own answer is not among these completions and no thread is
// the leader, the thread becomes the leader: it sets client_sleeps, looks at the ring once more,
// releases the mutex and sleeps on the socket. If another thread is the leader, the thread sleeps
// on `changed_`. A leader that wakes up wakes the followers, one of which becomes the next leader.
// Only the leader reads the socket. After each completion that the daemon publishes while
// client_sleeps is set, the daemon sends a doorbell byte, so no wake-up is lost, even if another
// thread empties the ring in between.
//
// An event loop sleeps in its own poll(2) on an EventDescriptor, which becomes readable after a
// doorbell on the socket and after a call of Ring by another thread. A WaitAny that returns no
// request leaves client_sleeps set for the event loop. A thread that clears client_sleeps, reads
// doorbell bytes, or delivers a completion therefore calls EventDescriptor::Ring.
#include "client/connection.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "shm/peer_socket.h"

namespace kvd {
namespace {

// The number of forks between the process that loaded the library and this one. Unlike getpid, the
// counter costs no system call per request.
std::atomic<std::uint64_t> fork_count{0};

std::uint64_t CountedForks() {
  static const int registered = ::pthread_atfork(
      nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return fork_count.load(std::memory_order_relaxed);
}

// Longest sleep while a request waits for room in the submission ring, because the daemon sends no
// doorbell when it makes room.
constexpr std::chrono::milliseconds kRoomPoll{1};

}  // namespace

Payload PayloadOf(const std::span<const std::byte>& bytes) {
  return {bytes.size(),
          [](const void* context, std::span<std::byte> out) {
            const auto& source = *static_cast<const std::span<const std::byte>*>(context);
            if (!source.empty()) std::memcpy(out.data(), source.data(), source.size());
          },
          &bytes};
}

std::chrono::nanoseconds Connection::Deadline::left() const {
  if (!is_set) return std::chrono::nanoseconds(-1);
  return std::max(std::chrono::nanoseconds(at - Clock::now()), std::chrono::nanoseconds(0));
}

bool Connection::Deadline::has_passed() const { return is_set && Clock::now() >= at; }

Connection::Deadline Connection::DeadlineOf(Timeout timeout) {
  // A timeout of more than a year is treated as no limit, so that the clock's arithmetic stays in
  // range.
  if (timeout.count() < 0 || timeout > std::chrono::hours(24 * 366)) return {};
  return {true, Clock::now() + timeout};
}

Result<std::shared_ptr<Connection>> Connection::Open(const ConnectOptions& options) {
  CountedForks();
  KVD_TRY(Handshake handshake, ShakeHands(options));
  return std::make_shared<Connection>(std::move(handshake), options);
}

Connection::Connection(Handshake handshake, const ConnectOptions& options)
    : fork_count_(CountedForks()),
      options_(options),
      info_(std::move(handshake.info)),
      call_timeout_(options.call_timeout),
      first_map_(std::move(handshake.map)),
      link_(std::make_shared<Link>(std::move(handshake), 1)) {
  const bool is_resumed =
      std::ranges::any_of(options.session_token, [](std::uint8_t byte) { return byte != 0; });
  options_.session_token = info_.session_token;
  if (is_resumed) {
    requests_.BeginFarAfter(info_.last_request);
  } else {
    requests_.BeginAfter(info_.last_request);
  }
}

Connection::~Connection() {
  if (CheckProcess() && !is_lost_ && !has_left_) (void)SayGoodbye(link_->socket.get());
}

Status Connection::Leave() {
  KVD_CHECK_OK(CheckProcess());
  const MutexLock lock(mutex_);
  if (std::exchange(has_left_, true)) return {};
  if (!is_lost_) (void)PumpAll();
  if (!failure_) failure_ = Error{Code::kDisconnected, "this client has left its session"};
  unsent_.clear();
  // The socket is shut down and not closed, because another thread may sleep on it.
  if (events_ != nullptr) (void)events_->Watch(-1);
  (void)::shutdown(link_->socket.get(), SHUT_RDWR);
  TellOthers();
  return {};
}

std::uint64_t Connection::request_arena_bytes() const {
  const MutexLock lock(mutex_);
  return link_->channel.geometry().request_arena_bytes;
}

int Connection::socket_for_test() const {
  const MutexLock lock(mutex_);
  return link_->socket.get();
}

Status Connection::CheckProcess() const {
  if (fork_count.load(std::memory_order_relaxed) == fork_count_) return {};
  return Fail(
      Code::kInvalidArgument,
      "this connection was opened before fork(2): it belongs to the parent process; connect again");
}

Status Connection::Failure() const {
  if (!failure_) return {};
  return std::unexpected(*failure_);
}

Error Connection::ErrorOf(const PendingRequest& request) {
  const auto code = static_cast<Code>(request.final.code);
  std::string message(reinterpret_cast<const char*>(request.collected.data()),
                      request.collected.size());
  if (!IsValidUtf8(message)) message = "the daemon's message is not UTF-8";
  if (message.empty()) message = CodeName(code);
  return {code, std::move(message)};
}

// Takes all completions that the daemon has written. Pump returns whether it took at least one
// completion. An error of Pump is permanent, because Pump stores the error in `failure_`.
Result<bool> Connection::Pump() {
  bool has_any = false;
  wire::Completion completion;
  for (;;) {
    const auto next = link_->channel.completions().Next(completion);
    Status status;
    if (!next) {
      status = std::unexpected(next.error());
    } else if (*next) {
      has_any = true;
      status = Deliver(completion);
    }
    if (!status) {
      if (!failure_) failure_ = status.error();
      TellOthers();
      return std::unexpected(std::move(status).error());
    }
    if (!*next) break;
  }
  if (has_any) {
    RingIfStalled();
    TellOthers();
  }
  return has_any;
}

Status Connection::PumpAll() {
  KVD_TRY([[maybe_unused]] const bool has_any, Pump());
  return {};
}

Status Connection::Deliver(const wire::Completion& completion) {
  PendingRequest* request = requests_.Find(static_cast<RequestId>(completion.request));
  if (request == nullptr || request->is_final) {
    return Fail(Code::kCorrupt, "completion.request: ", completion.request, " is not in flight");
  }
  const bool is_final = (completion.flags & wire::kMore) == 0;
  const bool is_failed = completion.code != static_cast<std::uint8_t>(Code::kOk);
  if (is_failed && !is_final) {
    return Fail(Code::kCorrupt, "completion.code: ", completion.code,
                " in a piece that is not the last");
  }
  const bool stays_in_place =
      request->mode == OutputMode::kInPlace && !is_failed && !request->is_abandoned;
  ++request->piece_count;
  std::uint64_t ticket = 0;
  if (completion.output_bytes != 0) {
    ticket = link_->Hold(CompletionConsumer::ReleaseEnd(completion));
    const auto output = link_->channel.completions().output(completion);
    if (!is_failed && !is_final) CountReceived(*request, completion, output);
    if (!stays_in_place) {
      if (is_failed) request->collected.clear();
      if (!request->is_abandoned) {
        request->collected.insert(request->collected.end(), output.begin(), output.end());
      }
      (void)ReleaseLocked(ticket);
    }
  } else if (is_failed) {
    request->collected.clear();
  }
  if (stays_in_place) request->pieces.push_back({completion, ticket});
  if (!is_final) return {};
  request->final = completion;
  request->is_final = true;
  requests_.LeaveWindow(request);
  if (request->is_abandoned) requests_.Free(request);
  return {};
}

Link* Connection::FindLink(std::uint64_t ticket) {
  if (Link::NumberOf(ticket) == link_->number) return link_.get();
  const auto found = old_links_.find(Link::NumberOf(ticket));
  return found == old_links_.end() ? nullptr : found->second.get();
}

bool Connection::ReleaseLocked(std::uint64_t ticket) {
  Link* const link = FindLink(ticket);
  if (link == nullptr || !link->Release(ticket)) return false;
  if (link != link_.get() && link->ledger.held_count() == 0) old_links_.erase(link->number);
  return true;
}

void Connection::RingIfStalled() {
  if (is_lost_) return;
  // An error of RingDoorbell is ignored, because the waiting threads detect a closed connection.
  if (link_->channel.completions().daemon_stalled()) (void)RingDoorbell(link_->socket.get());
}

void Connection::TellOthers() {
  if (follower_count_ != 0) changed_.NotifyAll();
  if (events_ != nullptr) events_->Ring();
}

void Connection::FollowLeader(const Deadline& deadline) {
  ++follower_count_;
  if (deadline.is_set) {
    (void)changed_.WaitUntil(mutex_, deadline.at);
  } else {
    changed_.Wait(mutex_);
  }
  --follower_count_;
}

Result<bool> Connection::WaitRound(const Deadline& deadline) {
  if (is_lost_) return RecoverRound(deadline);
  KVD_CHECK_OK(SendUnsent());
  KVD_TRY(const bool has_any, Pump());
  if (has_any) return true;
  KVD_CHECK_OK(Failure());
  if (deadline.has_passed()) return false;
  if (has_leader_) {
    FollowLeader(deadline);
    return true;
  }
  if (!link_->channel.completions().PrepareToSleep()) return true;
  has_leader_ = true;
  // The daemon sends no doorbell for room in the request ring.
  const Deadline sleep = unsent_.empty() ? deadline : Soon(deadline);
  const std::shared_ptr<Link> link = link_;
  mutex_.Unlock();
  const auto rung = WaitDoorbell(link->socket.get(), sleep.left());
  mutex_.Lock();
  has_leader_ = false;
  link_->channel.completions().WakeUp();
  // Completions that the daemon wrote before it closed the connection are valid, so they are taken
  // before the error is returned.
  if (!rung) {
    KVD_CHECK_OK(PumpAll());
    LoseLink(rung.error());
  }
  TellOthers();  // an event loop that relied on client_sleeps must set this flag again
  return true;
}

Connection::Deadline Connection::Soon(const Deadline& deadline) {
  Deadline soon = DeadlineOf(kRoomPoll);
  if (deadline.is_set) soon.at = std::min(soon.at, deadline.at);
  return soon;
}

Result<PendingRequest*> Connection::SubmitLocked(wire::Submission submission,
                                                 const Payload& payload, OutputMode mode,
                                                 const EarlierAttempt* earlier) {
  KVD_CHECK_OK(Failure());
  if (!is_lost_) KVD_CHECK_OK(SendUnsent());
  const wire::VerbRow* const row = wire::FindVerb(submission.verb);
  const bool is_remembered = row != nullptr && row->is_remembered();
  auto room = link_->channel.submissions().Reserve(payload.byte_count);
  if (!room) {
    if (room.error().code == Code::kCorrupt) failure_ = room.error();
    return std::unexpected(std::move(room).error());
  }
  PendingRequest* request = earlier == nullptr
                                ? requests_.Add(mode, is_remembered)
                                : requests_.Adopt(earlier->request, mode, is_remembered);
  if (request == nullptr) {
    return Fail(Code::kNoSpace, "requests: ", RequestTable::kRequestsMax,
                " are in flight or not taken; take or abandon some");
  }
  submission.request = static_cast<std::uint64_t>(request->id);
  request->submission = submission;
  if (earlier != nullptr) {
    request->was_sent = true;
    request->received = earlier->received;
    request->last_token = earlier->last_token;
  }
  // A request is queued in `unsent_` if the ring has no room, if the link is lost, if other
  // requests are queued already, or if an earlier process has sent it.
  const bool is_kept = !*room || is_lost_ || !unsent_.empty() || earlier != nullptr ||
                       !requests_.FitsWindow(*request);
  if (payload.byte_count != 0 && (is_kept || may_recover())) {
    request->payload.resize(payload.byte_count);
    payload.write(payload.context, request->payload);
  }
  if (is_kept) {
    unsent_.push_back(request->id);
    return request;
  }
  if (payload.byte_count != 0) {
    if (request->payload.empty()) {
      payload.write(payload.context, **room);
    } else {
      std::ranges::copy(request->payload, (*room)->begin());
    }
  }
  request->was_sent = true;
  requests_.EnterWindow(request);
  if (link_->channel.submissions().Submit(submission)) {
    // The result of the doorbell is ignored, because the functions that wait detect a closed
    // connection and report it.
    (void)RingDoorbell(link_->socket.get());
  }
  return request;
}

Result<int> Connection::OpenEventDescriptor() {
  KVD_CHECK_OK(CheckProcess());
  const MutexLock lock(mutex_);
  if (events_ == nullptr) {
    KVD_TRY(std::unique_ptr<EventDescriptor> events, EventDescriptor::Create());
    if (!is_lost_) KVD_CHECK_OK(events->Watch(link_->socket.get()));
    events_ = std::move(events);
  }
  return events_->descriptor();
}

bool Connection::ArmEvents() {
  events_->Clear();
  if (failure_) {
    events_->Ring();
    return false;
  }
  if (is_lost_) return ArmEventsForRecovery();
  // If a thread is the leader, that thread reads the doorbell bytes and wakes the other threads.
  if (!has_leader_) {
    const Status drained = DrainDoorbell(link_->socket.get());
    if (!drained) {
      if (PumpAll()) LoseLink(drained.error());
      return false;
    }
  }
  if (!link_->channel.completions().PrepareToSleep()) return false;
  // The daemon sends no doorbell for room in the request ring.
  if (!unsent_.empty()) events_->LookAt(Clock::now() + kRoomPoll);
  return true;
}

}  // namespace kvd
