#include "daemon/schedule/computing_request.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "shm/piece_codec.h"

namespace kvd {

// An override keeps the tokens. NOLINTNEXTLINE(performance-unnecessary-value-param)
void StepMember::OnGivenBack(std::vector<TokenId>, Pos) {}

namespace {

// Error messages are cut to kMessageBytesMax bytes, so that they fit into the smallest arena and
// into the session's spare pieces for small answers.
constexpr std::size_t kMessageBytesMax = 512;

}  // namespace

ComputingRequest::ComputingRequest(RequestOrigin origin, SequenceHandle sequence)
    : origin_(std::move(origin)), sequence_(sequence) {}

wire::Completion ComputingRequest::MakeCompletion() const {
  wire::Completion completion{};
  completion.request = static_cast<std::uint64_t>(origin_.request);
  completion.verb = static_cast<std::uint16_t>(origin_.verb);
  completion.sequence = static_cast<std::uint64_t>(sequence_);
  return completion;
}

RequestTag ComputingRequest::applied() const {
  return {.session = origin_.session->id(),
          .request = origin_.request,
          .kind = static_cast<std::uint16_t>(origin_.verb)};
}

Error ComputingRequest::CancelledError() const {
  const bool is_dropped = is_dropped_.load(std::memory_order_relaxed);
  return {Code::kCancelled,
          is_dropped ? "cancelled; the sequence was dropped" : "cancelled; committed tokens stay"};
}

void ComputingRequest::OnCancel() { EndWith(CancelledError()); }

void ComputingRequest::EndWith(const Error& error) {
  if (final_ || ended_) return;
  if (!has_appended_) acquired_.GiveBack();
  acquired_.Keep();
  piece_.reset();
  final_ = WireReply{.completion = MakeCompletion()};
  final_->SetError(error.code, std::string_view(error.message).substr(0, kMessageBytesMax));
}

bool ComputingRequest::Flush() {
  if (piece_) {
    if (!session().TryMore(piece_->completion, piece_->output)) return false;
    piece_.reset();
  }
  if (final_ && !ended_) {
    if (!session().TryFinal(final_->completion, final_->output)) return false;
    ended_ = true;
  }
  return true;
}

void ComputingRequest::SetEnded() {
  acquired_.Keep();
  KVD_ASSERT(!final_);
  final_ = WireReply{};
  ended_ = true;
}

bool ComputingRequest::TryNote(wire::PieceKind kind, std::uint64_t done, std::uint64_t total) {
  wire::PieceView view;
  view.kind = kind;
  view.done = done;
  view.total = total;
  alignas(8) std::byte bytes[sizeof(wire::GeneratePiece)];
  KVD_ASSERT(wire::PieceBytes(view) == sizeof bytes);
  wire::EncodePiece(view, bytes);
  return session().TryMore(MakeCompletion(), bytes);
}

void ComputingRequest::TryProgress(std::uint64_t done, std::uint64_t total) {
  if (origin_.wants_progress) (void)TryNote(wire::kPieceProgress, done, total);
}

void ComputingRequest::TellParking(bool is_parked) {
  if (was_told_parked_ == is_parked) return;
  if (TryNote(wire::kPieceParking, is_parked ? 1 : 0, 0)) was_told_parked_ = is_parked;
}

void ComputingRequest::NoteStanding(wire::RequestState state, RequestTokens tokens,
                                    std::chrono::steady_clock::time_point parked_from) {
  parked_from_.store(parked_from.time_since_epoch(), std::memory_order_relaxed);
  tokens_done_.store(tokens.done, std::memory_order_relaxed);
  tokens_wanted_.store(tokens.wanted, std::memory_order_relaxed);
  state_.store(state, std::memory_order_release);
}

RequestStanding ComputingRequest::StandingAt(std::chrono::steady_clock::time_point now) const {
  RequestStanding standing{.state = state_.load(std::memory_order_acquire)};
  standing.tokens = {.done = tokens_done_.load(std::memory_order_relaxed),
                     .wanted = tokens_wanted_.load(std::memory_order_relaxed)};
  if (standing.state == wire::kRequestParked) {
    const auto waited = now.time_since_epoch() - parked_from_.load(std::memory_order_relaxed);
    standing.parked_for = std::chrono::duration_cast<std::chrono::milliseconds>(waited);
  }
  return standing;
}

}  // namespace kvd
