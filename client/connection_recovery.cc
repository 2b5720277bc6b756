// Restoring a lost connection: the session is resumed by its token, and every request without a
// final answer is sent again, in the order of request ids.
//
// Each round of waiting makes at most one attempt, so that no call waits longer than its timeout.
// The thread that makes the attempt is the leader; other waiting threads sleep meanwhile.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/text.h"
#include "client/connection.h"
#include "shm/peer_socket.h"

namespace kvd {
namespace {

// Longest duration of one attempt. A daemon that accepts the connection but sends no welcome within
// kAttempt is assumed to be starting.
constexpr std::chrono::milliseconds kAttempt{1000};
// Longest duration of an attempt made in an event loop (WaitAny with timeout 0).
constexpr std::chrono::milliseconds kEventAttempt{100};

// A loss that lasts as long is told to the caller.
constexpr std::chrono::seconds kQuietLoss{1};

// Returns whether another attempt to reconnect may succeed after an attempt failed with `code`.
bool MayPass(Code code) {
  return code == Code::kDisconnected || code == Code::kTimeout || code == Code::kNoSpace ||
         code == Code::kIo || code == Code::kBusy;
}

}  // namespace

bool Connection::may_recover() const {
  return options_.reconnect_timeout.count() > 0 &&
         std::ranges::any_of(options_.session_token, [](std::uint8_t byte) { return byte != 0; });
}

void Connection::LoseLink(const Error& why) {
  if (failure_) return;
  // A closed socket is always readable, so the event descriptor stops watching it.
  if (events_ != nullptr) (void)events_->Watch(-1);
  if (why.code != Code::kDisconnected) {
    failure_ = why;
  } else if (!may_recover()) {
    failure_ = Error{Code::kDisconnected, Concat("the daemon at ", info_.socket_path, " (pid ",
                                                 info_.daemon_pid, ") has hung up")};
  } else {
    is_lost_ = true;
    lost_at_ = next_attempt_ = Clock::now();
    pause_ = kFirstRetryPause;
  }
  TellOthers();
}

Result<bool> Connection::RecoverRound(const Deadline& deadline) {
  KVD_CHECK_OK(Failure());
  if (deadline.has_passed()) return false;
  if (has_leader_) {
    FollowLeader(deadline);
    return true;
  }
  has_leader_ = true;
  const Clock::time_point wake =
      deadline.is_set ? std::min(deadline.at, next_attempt_) : next_attempt_;
  if (Clock::now() < wake) (void)changed_.WaitUntil(mutex_, wake);
  has_leader_ = false;
  if (is_lost_ && Clock::now() >= next_attempt_) AttemptToRecover(kAttempt);
  TellOthers();
  return true;
}

void Connection::Notify(ConnectionNotice notice) {
  has_told_loss_ = notice == ConnectionNotice::kLost;
  const auto tell = options_.on_notice;
  if (!tell) return;
  mutex_.Unlock();
  tell(notice);
  mutex_.Lock();
}

void Connection::AttemptToRecover(std::chrono::milliseconds time_max) {
  has_leader_ = true;
  if (!has_told_loss_ && Clock::now() - lost_at_ >= kQuietLoss) Notify(ConnectionNotice::kLost);
  ConnectOptions options = options_;
  options.connect_timeout = time_max;
  mutex_.Unlock();
  Result<Handshake> handshake = TryHandshake(options);
  mutex_.Lock();
  has_leader_ = false;
  if (has_left_) return;
  const auto now = Clock::now();
  if (handshake) {
    AdoptLink(std::move(*handshake));
    if (has_told_loss_ && !is_lost_) Notify(ConnectionNotice::kRestored);
  } else if (!MayPass(handshake.error().code)) {
    failure_ = handshake.error();
  } else if (now - lost_at_ >= options_.reconnect_timeout) {
    failure_ = Error{Code::kDisconnected,
                     Concat("the daemon at ", info_.socket_path, " (pid ", info_.daemon_pid,
                            ") has hung up, and in ", options_.reconnect_timeout.count(),
                            " ms reconnecting failed: ", handshake.error().message)};
  } else {
    next_attempt_ = now + pause_;
    pause_ = std::min(2 * pause_, kRetryPauseMax);
  }
}

bool Connection::ArmEventsForRecovery() {
  if (!has_leader_ && Clock::now() >= next_attempt_) {
    AttemptToRecover(kEventAttempt);
    TellOthers();
    return false;
  }
  // If a thread is the leader, that thread rings the event descriptor.
  if (!has_leader_) events_->LookAt(next_attempt_);
  return true;
}

void Connection::AdoptLink(Handshake handshake) {
  if (handshake.info.session != info_.session || handshake.info.vocab_size != info_.vocab_size) {
    failure_ = Error{Code::kSessionLost, "the daemon at " + info_.socket_path +
                                             " answered with another session or model"};
    return;
  }
  if (link_->ledger.held_count() != 0) old_links_.emplace(link_->number, link_);
  link_ = std::make_shared<Link>(std::move(handshake), link_->number + 1);
  is_lost_ = false;
  WatchLink();
  unsent_.clear();
  for (PendingRequest* const request : requests_.Unanswered()) {
    // Abandoned requests are not sent again, except requests that change state.
    if (request->is_abandoned && !request->is_remembered) {
      requests_.Free(request);
      continue;
    }
    request->collected.clear();
    unsent_.push_back(request->id);
  }
  if (Status sent = SendUnsent(); !sent) failure_ = sent.error();
}

void Connection::WatchLink() {
  if (events_ == nullptr) return;
  if (Status watched = events_->Watch(link_->socket.get()); !watched) failure_ = watched.error();
  events_->Ring();
}

Status Connection::SendUnsent() {
  while (!unsent_.empty()) {
    PendingRequest* const request = requests_.Find(unsent_.front());
    if (request == nullptr || (request->is_abandoned && !request->is_remembered)) {
      if (request != nullptr) requests_.Free(request);
      unsent_.pop_front();
      continue;
    }
    if (!requests_.FitsWindow(*request)) return {};
    auto room = link_->channel.submissions().Reserve(request->payload.size());
    if (!room) {
      failure_ = room.error();
      return std::unexpected(std::move(room).error());
    }
    if (!*room) return {};
    unsent_.pop_front();
    Send(*request, **room);
  }
  return {};
}

void Connection::Send(PendingRequest& request, std::span<std::byte> room) {
  std::ranges::copy(request.payload, room.begin());
  wire::Submission submission = request.submission;
  if (request.was_sent) {
    submission.flags |= wire::kFlagRetry;
    submission.received = request.received;
    submission.last_token = request.last_token;
  }
  request.was_sent = true;
  requests_.EnterWindow(&request);
  if (link_->channel.submissions().Submit(submission)) (void)RingDoorbell(link_->socket.get());
}

void Connection::CountReceived(PendingRequest& request, const wire::Completion& completion,
                               std::span<const std::byte> output) const {
  const wire::VerbRow* const row = wire::FindVerb(request.submission.verb);
  if (row == nullptr) return;
  if (row->received == wire::Received::kRows) {
    const auto args = wire::ReadArguments<wire::DecodeArgs>(request.submission);
    std::vector<std::byte> no_output;
    const auto reply = wire::ReadReply<wire::DecodeReply>(row->name, completion, no_output);
    const std::size_t rows = output.size() / (info_.vocab_size * sizeof(float));
    if (reply && args.logits == wire::LogitsWanted::kAll && rows > 0) {
      request.received = static_cast<std::uint32_t>(reply->row_first + rows);
    }
  }
  wire::GeneratePiece piece;
  if (row->received != wire::Received::kTokens || output.size() < sizeof piece) return;
  std::memcpy(&piece, output.data(), sizeof piece);
  const std::size_t tokens_max = (output.size() - sizeof piece) / sizeof(TokenId);
  if (piece.kind != wire::kPieceTokens || piece.token_count == 0 ||
      piece.token_count > tokens_max) {
    return;  // the call that takes the piece returns the error to its caller
  }
  request.received += piece.token_count;
  std::memcpy(&request.last_token,
              output.data() + sizeof piece + (piece.token_count - 1) * sizeof(TokenId),
              sizeof request.last_token);
}

void Connection::FailUnanswered() {
  for (PendingRequest* const request : requests_.Unanswered()) {
    if (request->is_abandoned) {
      requests_.Free(request);
      continue;
    }
    request->is_final = true;
    requests_.LeaveWindow(request);
    request->final.code = static_cast<std::uint8_t>(failure_->code);
    const auto bytes = std::as_bytes(std::span(failure_->message));
    request->collected.assign(bytes.begin(), bytes.end());
  }
  unsent_.clear();
}

Status Connection::Renew() {
  KVD_CHECK_OK(CheckProcess());
  const MutexLock lock(mutex_);
  if (!failure_) return {};
  ConnectOptions options = options_;
  options.session_token = {};
  KVD_TRY(Handshake handshake, ShakeHands(options));
  FailUnanswered();
  info_ = handshake.info;
  options_.session_token = info_.session_token;
  first_map_ = std::move(handshake.map);
  if (link_->ledger.held_count() != 0) old_links_.emplace(link_->number, link_);
  link_ = std::make_shared<Link>(std::move(handshake), link_->number + 1);
  is_lost_ = false;
  has_told_loss_ = false;
  has_left_ = false;
  failure_.reset();
  WatchLink();
  return {};
}

}  // namespace kvd
