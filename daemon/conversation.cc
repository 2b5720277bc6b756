// Pump: take and answer until nothing is left or something must wait; then say that we sleep, and
// look once more.
#include "daemon/conversation.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace kvd {
namespace {

// Submissions of one client handled before others get their turn.
constexpr int kBurst = 64;
// A client whose submissions wait behind an answer that has no room is looked at this often: the
// doorbell protocol has no word for "ring when you release, not when you submit".
constexpr std::chrono::milliseconds kStalledRetry{10};
constexpr std::size_t kPieceBytesMax = 256 << 10;

}  // namespace

Conversation::Conversation(const Parts& parts, std::shared_ptr<Session> session)
    : parts_(parts), session_(std::move(session)), mailbox_(std::make_shared<Mailbox>()) {
  mailbox_->conversation = this;
  watch_ = parts_.loop.WatchReadable(session_->socket(), [this] { OnReadable(); });
}

Conversation::~Conversation() { mailbox_->conversation = nullptr; }

ssize_t Conversation::TakeBells() {
  // One portion, so that a client that floods its socket gets no more than its turn. No control
  // buffer: descriptors that a client smuggles in are dropped by the kernel.
  std::array<std::byte, 4096> bells;
  const ssize_t got = ::recv(session_->socket(), bells.data(), bells.size(), MSG_DONTWAIT);
  const auto taken = std::span(bells).first(got > 0 ? static_cast<std::size_t>(got) : 0);
  said_goodbye_ =
      said_goodbye_ || std::ranges::find(taken, std::byte{wire::kGoodbyeBell}) != taken.end();
  return got;
}

bool Conversation::HasSaidGoodbye() {
  if (!closed_) (void)TakeBells();
  return said_goodbye_;
}

void Conversation::OnReadable() {
  const ssize_t got = TakeBells();
  if (got == 0 || (got < 0 && errno == ECONNRESET)) {
    return Close({Code::kDisconnected, said_goodbye_ ? "goodbye" : "hung up"});
  }
  if (got < 0 && errno != EAGAIN && errno != EINTR) {
    return Close(FailErrno("recv").error());
  }
  Pump();
}

void Conversation::Pump() {
  if (closed_) return;
  retry_.reset();
  session_->WakeUp();
  for (;;) {
    const Result<bool> worked = PumpOnce();
    if (!worked) return Close(worked.error());
    if (on_worker_) return;  // its answer pumps again
    if (*worked && !pending_ && !session_->submission_waits()) {
      // A full burst: others first.
      return parts_.pump_wanted(session_->id());
    }
    const bool stuck = pending_.has_value() || session_->submission_waits();
    const Result<bool> sleeps = session_->Sleep(stuck);
    if (!sleeps) return Close(sleeps.error());
    if (*sleeps) return;
    if (stuck) {
      retry_ = parts_.loop.After(kStalledRetry, [this] { Pump(); });
      // Room may have come between the look and the sleep.
      if (const Status fresh = session_->Refresh(); !fresh) return Close(fresh.error());
      if (pending_ && !SendPending()) return;
      if (!pending_ && session_->submission_waits()) {
        // The slot that a submission waits for.
        const Result<bool> again = PumpOnce();
        if (!again) return Close(again.error());
        if (session_->submission_waits()) return;
      }
    }
  }
}

Result<bool> Conversation::PumpOnce() {
  KVD_CHECK_OK(session_->Refresh());
  if (session_->TakeRoomForComputing()) parts_.scheduler.WakeUp();
  if (on_worker_) return false;
  if (pending_ && !SendPending()) return false;
  for (int handled = 0; handled < kBurst; ++handled) {
    if (pending_ || on_worker_) return false;
    KVD_TRY(const bool taken, session_->TakeSubmission(received_));
    if (!taken) return false;
    HandleSubmission();
  }
  return true;
}

void Conversation::HandleSubmission() {
  Outcome outcome = parts_.service.Handle(session_, received_);
  pending_ = Pending{};
  pending_->completion.request = received_.submission.request;
  pending_->completion.verb = received_.submission.verb;
  if (auto* const reply = std::get_if<Reply>(&outcome)) return Answer(std::move(*reply));
  if (auto* const call = std::get_if<std::function<Reply()>>(&outcome)) {
    return HandleOn(parts_.worker, std::move(*call), {});
  }
  if (auto* const call = std::get_if<FileCall>(&outcome)) {
    return HandleOn(parts_.files, std::move(call->call), std::move(call->abandoned));
  }
  pending_.reset();  // the scheduler answers
}

void Conversation::HandleOn(IoLoop& thread, std::function<Reply()> call,
                            std::function<void()> abandoned) {
  on_worker_ = true;
  thread.Post([call = std::move(call), abandoned = std::move(abandoned), mailbox = mailbox_,
               &loop = parts_.loop] {
    loop.Post([reply = call(), abandoned, mailbox]() mutable {
      // On the io thread again: the conversation cannot end while we look.
      Conversation* const conversation = mailbox->conversation;
      if (conversation == nullptr) {
        if (abandoned) abandoned();
        return;
      }
      conversation->on_worker_ = false;
      conversation->Answer(std::move(reply));
      conversation->Pump();
    });
  });
}

void Conversation::Answer(Reply reply) {
  const std::size_t arena_bytes = session_->output_bytes_max();
  pending_->completion.code = static_cast<std::uint8_t>(reply.code);
  pending_->completion.sequence = static_cast<std::uint64_t>(reply.sequence);
  pending_->completion.value0 = reply.value0;
  pending_->completion.value1 = reply.value1;
  pending_->completion.value2 = reply.value2;
  pending_->output = std::move(reply.output);
  pending_->piece_bytes = arena_bytes;
  if (reply.unit_bytes > 0 || pending_->output.size() > arena_bytes) {
    const std::size_t unit = std::max<std::size_t>(reply.unit_bytes, 8);
    const std::size_t piece_bytes = std::min(kPieceBytesMax, arena_bytes / 2);
    pending_->piece_bytes = piece_bytes / unit * unit;
  }
  SendPending();
}

bool Conversation::SendPending() {
  for (;;) {
    const std::size_t left = pending_->output.size() - pending_->sent_bytes;
    const std::size_t piece_bytes = std::min(left, pending_->piece_bytes);
    const auto piece = std::span(pending_->output).subspan(pending_->sent_bytes, piece_bytes);
    if (piece_bytes == left) {
      if (!session_->TryFinal(pending_->completion, piece)) return false;
      pending_.reset();
      return true;
    }
    if (!session_->TryMore(pending_->completion, piece)) return false;
    pending_->sent_bytes += piece_bytes;
  }
}

void Conversation::Close(const Error& why) {
  if (std::exchange(closed_, true)) return;
  retry_.reset();
  watch_.reset();
  parts_.closed(session_->id(), why);
}

}  // namespace kvd
