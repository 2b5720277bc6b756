// Pump takes submissions and answers them until no submission is left or an answer must wait. Then
// Pump sets the flag that tells the client that the daemon sleeps, and checks once more for new
// submissions.
#include "daemon/session_pump.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace kvd {
namespace {

// The largest numbers of submissions and payload bytes of one client that are handled before other
// clients get their turn.
constexpr int kBurst = 64;
constexpr std::uint64_t kBurstBytes = 16 << 20;
// Interval at which a pump retries to send an answer for which there is no room while
// submissions wait. The retry is timed because the doorbell protocol cannot ask a client to ring
// only when it releases output and not when it submits.
constexpr std::chrono::milliseconds kStalledRetry{10};
constexpr std::size_t kOutputPieceBytesMax = 256 << 10;
// Largest number of waiting kCancels that LookForCancels acts on: the entries of the largest
// submission ring.
constexpr std::size_t kActedOnMax = wire::kEntriesMax;

// Runs a worker's call. If the call runs out of memory, only the call's request fails (kNoSpace).
WireReply CallWith(WorkControl& control, const WorkCall& work) {
  try {
    if (const Status wanted = control.Continue(); !wanted) return ErrorReply(wanted.error());
    return work.call(control);
  } catch (const std::bad_alloc&) {
    return ErrorReply({Code::kNoSpace, "no memory for this request"});
  }
}

// Returns the request that the submission cancels, or nullopt if the submission is not a kCancel.
std::optional<RequestId> CancelledBy(const wire::Submission& submission) {
  if (static_cast<wire::Verb>(submission.verb) != wire::Verb::kCancel) return std::nullopt;
  return wire::ReadArguments<wire::CancelArgs>(submission).request;
}

Outcome HandleWith(Service& service, const std::shared_ptr<Session>& session,
                   ReceivedSubmission& received, Share share) {
  try {
    return service.Handle(session, received, std::move(share));
  } catch (const std::bad_alloc&) {
    return ErrorReply({Code::kNoSpace, "no memory for this request"});
  }
}

}  // namespace

SessionPump::SessionPump(const Parts& parts, std::shared_ptr<Session> session)
    : parts_(parts), session_(std::move(session)), mailbox_(std::make_shared<Mailbox>()) {
  mailbox_->pump = this;
  watch_ = parts_.loop.WatchReadable(session_->socket(), [this] { OnReadable(); });
}

SessionPump::~SessionPump() { mailbox_->pump = nullptr; }

ssize_t SessionPump::TakeBells() {
  // Only one buffer of bytes is read, so that a client that floods its socket does not delay other
  // clients. recv has no control buffer, so the kernel drops descriptors that a client sends.
  std::array<std::byte, 4096> bells;
  const ssize_t got = ::recv(session_->socket(), bells.data(), bells.size(), MSG_DONTWAIT);
  const auto taken = std::span(bells).first(got > 0 ? static_cast<std::size_t>(got) : 0);
  said_goodbye_ =
      said_goodbye_ || std::ranges::find(taken, std::byte{wire::kGoodbyeBell}) != taken.end();
  return got;
}

bool SessionPump::HasSaidGoodbye() {
  if (!closed_) (void)TakeBells();
  return said_goodbye_;
}

void SessionPump::OnReadable() {
  const ssize_t got = TakeBells();
  if (got == 0 || (got < 0 && errno == ECONNRESET)) {
    return Close({Code::kDisconnected,
                  said_goodbye_ ? "the client said goodbye" : "the client closed the connection"});
  }
  if (got < 0 && errno != EAGAIN && errno != EINTR) {
    return Close(FailErrno("recv").error());
  }
  Pump();
}

void SessionPump::Pump() {
  if (closed_ || session_->closed()) return;
  retry_.reset();
  session_->WakeUp();
  for (;;) {
    const Result<bool> worked = PumpOnce();
    if (!worked) return Close(worked.error());
    if (in_work_) {
      // When the worker has the answer, Pump is called again. Until the worker has the answer, the
      // client rings the doorbell for new submissions, because a new submission may be a kCancel.
      if (const Status looked = LookForCancels(); !looked) return Close(looked.error());
      const Result<bool> sleeps = session_->Sleep(/*answer_waits=*/false, submissions_seen_);
      if (!sleeps) return Close(sleeps.error());
      if (*sleeps) return;
      continue;
    }
    if (*worked && !pending_ && !session_->submission_waits()) {
      // PumpOnce has handled a full burst, so other clients are handled before the next burst of
      // this client.
      return parts_.pump_wanted(session_->id());
    }
    const bool stuck = pending_.has_value() || session_->submission_waits();
    const Result<bool> sleeps = session_->Sleep(stuck);
    if (!sleeps) return Close(sleeps.error());
    if (*sleeps) return;
    if (stuck) {
      retry_ = parts_.loop.After(kStalledRetry, [this] { Pump(); });
      // Room may have become free between the last check and the call of Sleep.
      if (const Status fresh = session_->Refresh(); !fresh) return Close(fresh.error());
      if (pending_ && !SendPending()) return;
      if (!pending_ && session_->submission_waits()) {
        // The completion slot that a submission waits for may have become free.
        const Result<bool> again = PumpOnce();
        if (!again) return Close(again.error());
        if (session_->submission_waits()) return;
      }
    }
  }
}

Result<bool> SessionPump::PumpOnce() {
  KVD_CHECK_OK(session_->Refresh());
  if (session_->TakeRoomForComputing()) parts_.scheduler.WakeUp();
  if (in_work_) return false;
  if (pending_ && !SendPending()) return false;
  std::uint64_t payload_bytes = 0;
  for (int handled = 0; handled < kBurst && payload_bytes < kBurstBytes; ++handled) {
    if (pending_ || in_work_) return false;
    KVD_TRY(const bool taken, TakeSubmission());
    if (!taken) return false;
    payload_bytes += received_.payload.size();
    HandleSubmission();
  }
  return true;
}

Result<bool> SessionPump::TakeSubmission() {
  received_share_ = Share();
  const auto admit = [this](const wire::Submission& submission) -> Status {
    if (submission.payload_bytes == 0) return {};
    received_share_ = Share(session_->account(), Resource::kHeldBytes);
    return received_share_.Grow(submission.payload_bytes);
  };
  return session_->TakeSubmission(received_, parts_.service.tokens_max(), admit);
}

Status SessionPump::LookForCancels() {
  for (;; ++submissions_seen_) {
    KVD_TRY(const auto waiting, session_->PeekSubmission(submissions_seen_));
    if (!waiting) return {};
    const std::optional<RequestId> target = CancelledBy(*waiting);
    if (!target || *target != pending_->request || acted_on_.size() == kActedOnMax) {
      continue;
    }
    if (parts_.workers.Cancel(session_->id(), *target)) acted_on_.push_back(*target);
  }
}

bool SessionPump::TakeActedOn(const wire::Submission& submission) {
  const std::optional<RequestId> target = CancelledBy(submission);
  const auto found = target ? std::ranges::find(acted_on_, *target) : acted_on_.end();
  if (found == acted_on_.end()) return false;
  acted_on_.erase(found);
  return true;
}

void SessionPump::HandleSubmission() {
  Outcome outcome = HandleWith(parts_.service, session_, received_, std::move(received_share_));
  pending_ = Pending{.request = static_cast<RequestId>(received_.submission.request),
                     .verb = received_.submission.verb};
  if (auto* const reply = std::get_if<WireReply>(&outcome)) {
    if (TakeActedOn(received_.submission) && reply->code() == Code::kOk) {
      *reply = MakeReply(wire::CancelReply{.was_found = true});
    }
    return Answer(std::move(*reply));
  }
  if (auto* const work = std::get_if<WorkCall>(&outcome)) return Queue(std::move(*work));
  pending_.reset();  // the scheduler, not the pump, sends the answer of this request
}

void SessionPump::Queue(WorkCall work) {
  in_work_ = true;
  submissions_seen_ = 0;
  parts_.workers.Queue(
      {.owner = session_->owner(), .session = session_->id()}, pending_->request,
      [work = std::move(work), mailbox = mailbox_, &loop = parts_.loop](WorkControl& control) {
        loop.Post([reply = CallWith(control, work), abandoned = work.abandoned, mailbox]() mutable {
          // The call runs on the io thread, so the pump cannot end during the call.
          SessionPump* const pump = mailbox->pump;
          if (pump == nullptr || pump->session_->closed()) {
            if (abandoned) abandoned();
            return;
          }
          pump->in_work_ = false;
          pump->Answer(std::move(reply));
          pump->Pump();
        });
      });
}

void SessionPump::Answer(WireReply reply) {
  const std::size_t arena_bytes = session_->output_bytes_max();
  reply.SetRequest(pending_->request, pending_->verb);
  pending_->piece_bytes = arena_bytes;
  if (reply.unit_bytes > 0 || reply.output.size() > arena_bytes) {
    const std::size_t unit = std::max<std::size_t>(reply.unit_bytes, 8);
    const std::size_t piece_bytes = std::min(kOutputPieceBytesMax, arena_bytes / 2);
    pending_->piece_bytes = piece_bytes / unit * unit;
  }
  pending_->reply = std::move(reply);
  if (!SendPending()) TakeShareOfPending();
}

void SessionPump::TakeShareOfPending() {
  WireReply& reply = pending_->reply;
  if (reply.share != nullptr) return;
  Share share(session_->account(), Resource::kHeldBytes);
  const Status counted = share.Grow(reply.output.size());
  if (counted) {
    reply.share = std::make_shared<const Share>(std::move(share));
    return;
  }
  reply.SetError(counted.error().code, counted.error().message);
  pending_->sent_bytes = 0;
}

bool SessionPump::SendPending() {
  for (;;) {
    const WireReply& reply = pending_->reply;
    const std::size_t left = reply.output.size() - pending_->sent_bytes;
    const std::size_t piece_bytes = std::min(left, pending_->piece_bytes);
    const auto piece = std::span(reply.output).subspan(pending_->sent_bytes, piece_bytes);
    if (piece_bytes == left) {
      if (!session_->TryFinal(reply.completion, piece)) return false;
      pending_.reset();
      return true;
    }
    if (!session_->TryMore(reply.completion, piece)) return false;
    pending_->sent_bytes += piece_bytes;
  }
}

void SessionPump::Close(const Error& why) {
  if (std::exchange(closed_, true)) return;
  retry_.reset();
  watch_.reset();
  parts_.closed(session_->id(), why);
}

}  // namespace kvd
