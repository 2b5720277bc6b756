#include "daemon/schedule/computing_request.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "shm/piece_codec.h"

namespace kvd {

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

void ComputingRequest::OnCancel() {
  EndWith({Code::kCancelled, "cancelled; committed tokens stay"});
}

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

void ComputingRequest::TryProgress(std::uint64_t done, std::uint64_t total) {
  if (!origin_.wants_progress) return;
  wire::PieceView view;
  view.kind = wire::kPieceProgress;
  view.done = done;
  view.total = total;
  alignas(8) std::byte bytes[sizeof(wire::GeneratePiece)];
  KVD_ASSERT(wire::PieceBytes(view) == sizeof bytes);
  wire::EncodePiece(view, bytes);
  (void)session().TryMore(MakeCompletion(), bytes);
}

}  // namespace kvd
