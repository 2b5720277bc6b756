// The part of GenerationRequest that sends: the text of tokens, pieces, the final answer, and the
// tokens that a cancelled generation still shows.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "daemon/requests/generation_request.h"
#include "shm/piece_codec.h"

namespace kvd {
namespace {

// The number of bytes of the longest piece: a header, a token, the token's text (padded) and the
// token's log-probabilities. The text may include text that earlier pieces held back: the start of
// a character or of a stop string.
constexpr std::size_t kPieceBytesMax = sizeof(wire::GeneratePiece) + sizeof(TokenId) +
                                       TokenTable::kTokenBytesMax + wire::kStopBytesMax +
                                       2 * sizeof(std::uint32_t) +
                                       (1 + wire::kLogprobsMax) * sizeof(wire::TokenLogprob);
static_assert(kPieceBytesMax <= wire::kArenaBytesMin);

}  // namespace

Result<std::string> GenerationRequest::Take(TokenId token) {
  ++predicted_;
  std::string text;
  if (reads_text_) {
    KVD_TRY(text, TextOf(token));
  }
  if (!finish_ && vocabulary_.IsEndOfGeneration(token)) finish_ = wire::kFinishEnd;
  if (!finish_ && params_.predict_max > 0 &&
      predicted_ == static_cast<std::uint32_t>(params_.predict_max)) {
    finish_ = wire::kFinishLength;
  }
  if (finish_ && reads_text_) {
    text += stops_.Feed(detokenizer_.Flush());
    text += stops_.Flush();
  }
  if (!has_text_) text.clear();
  return text;
}

Result<std::string> GenerationRequest::TextOf(TokenId token) {
  // A row of logits may be longer than the vocabulary; ids outside the vocabulary have no text.
  if (!vocabulary_.Contains(token)) return std::string();
  KVD_TRY(const std::string whole, detokenizer_.Push(token));
  std::string shown(stops_.Feed(whole));
  if (stops_.matched()) finish_ = wire::kFinishStop;
  return shown;
}

void GenerationRequest::StreamToken(const SampledToken& drawn, std::string_view text) {
  std::vector<wire::TokenLogprob> logprobs;
  if (params_.logprob_count > 0) {
    logprobs.push_back({.token = drawn.token, .logprob = drawn.logprob});
    const auto top = sampler_.top_logprobs();
    logprobs.insert(logprobs.end(), top.begin(), top.end());
  }
  if (unseen_.is_shown) unseen_ = {};
  std::vector<TokenId> tokens = unseen_.tokens;
  tokens.push_back(drawn.token);
  StreamPiece(tokens, Concat(unseen_.text, text), logprobs);
  unseen_.is_shown = true;
}

void GenerationRequest::StreamUnseen() {
  if (!unseen_.tokens.empty()) StreamPiece(unseen_.tokens, unseen_.text, {});
  unseen_.is_shown = true;
}

void GenerationRequest::StreamPiece(std::span<const TokenId> tokens, std::string_view text,
                                    std::span<const wire::TokenLogprob> logprobs) {
  const wire::PieceView view{
      .kind = wire::kPieceTokens,
      .done = predicted_,
      .total = params_.predict_max > 0 ? static_cast<std::uint64_t>(params_.predict_max) : 0,
      .tokens = tokens,
      .text = text,
      .logprobs = logprobs};
  // A piece of one token has at most kPieceBytesMax bytes, which fit into every arena. The check of
  // the piece's size makes a larger piece an error of the request instead of a failed assertion.
  const std::size_t piece_bytes = wire::PieceBytes(view);
  if (piece_bytes > session().output_bytes_max()) {
    return EndWith(
        {Code::kTooLarge, Concat("result arena: a piece has ", piece_bytes,
                                 " bytes, the arena has ", session().output_bytes_max())});
  }
  WireReply piece{.completion = MakeCompletion()};
  piece.output.resize(piece_bytes);
  wire::EncodePiece(view, piece.output);
  SetPiece(std::move(piece));
}

void GenerationRequest::Conclude() {
  if (!unseen_.is_shown) StreamUnseen();
  if (finishing()) return;
  const auto now = Clock::now();
  const auto nanoseconds = [](Clock::duration duration) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  };
  const wire::GenerateResult result{
      .seed = params_.seed,
      .finish = *finish_,
      .prompt_reused = cells_held_,
      .prompt_computed = static_cast<std::uint32_t>(prompt_.size() - opening().reuse.tokens),
      .predicted = predicted_,
      .prompt_ns = nanoseconds(prompt_ended_ - *started_),
      .predict_ns = nanoseconds(now - prompt_ended_),
      .prompt_shared = opening().reuse.tokens,
      .shared_origin = static_cast<std::uint8_t>(opening().reuse.origin),
      .share_limit = static_cast<std::uint8_t>(opening().reuse.limit),
      .skipped = static_cast<std::uint8_t>(skipped_ ? 1 : 0),
      .is_full = static_cast<std::uint8_t>(is_full_ ? 1 : 0)};
  SetReply(wire::OneReply<wire::GenerateResult>{result});
}

void GenerationRequest::ConcludeSkipping() {
  skipped_ = true;
  Conclude();
}

std::optional<std::chrono::milliseconds> GenerationRequest::room_wait() const {
  if (params_.room_wait_ms == 0) return std::nullopt;
  return std::chrono::milliseconds(std::max(params_.room_wait_ms, 0));
}

bool GenerationRequest::EndFull() {
  if (params_.predict_max != -1 || prompt_left() > 0 || run_.left() == 0 || has_piece()) {
    return false;
  }
  // The tokens that have given their cells back get them first.
  if (given_left() > 0) {
    is_last_room_ = true;
    return false;
  }
  finish_ = wire::kFinishLength;
  is_full_ = true;
  skipped_ = run_.has_drawn_left();
  run_.DropForced();
  if (unseen_.is_shown) unseen_ = {};
  if (reads_text_) {
    std::string held(stops_.Feed(detokenizer_.Flush()));
    held += stops_.Flush();
    if (has_text_) unseen_.text += held;
  }
  if (!unseen_.tokens.empty() || !unseen_.text.empty()) {
    StreamPiece(unseen_.tokens, unseen_.text, {});
  }
  unseen_.is_shown = true;
  if (!finishing()) Conclude();
  return true;
}

void GenerationRequest::OnCancel() {
  // If the client has seen a token that is not computed yet, the token is computed before the
  // request ends, so that the token becomes part of the sequence (unless kSkipLast is set).
  if ((run_.has_drawn_left() || known_) && !skips_last() && !has_piece() && !session().closed()) {
    run_.DropForced();
    cancelling_ = true;
    return;
  }
  const bool shows_unseen = has_piece() || !unseen_.is_shown;
  AppendingRequest::OnCancel();
  if (shows_unseen && !session().closed()) StreamUnseen();
}

}  // namespace kvd
