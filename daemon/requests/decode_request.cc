// A chunk is the tokens of the request in one step. The number of a chunk's rows of logits is: with
// kAll, one row per token; with kLast, one row in the chunk with the last token and no row in other
// chunks; with kNone, no rows. The last chunk is sent as the final answer. Each earlier chunk that
// has rows is sent as a piece (kMore).
#include "daemon/requests/decode_request.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvd {

DecodeRequest::DecodeRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos,
                             std::vector<TokenId> tokens, wire::LogitsWanted wanted,
                             std::uint32_t vocab_size, const DecodeResumption& resumption)
    : AppendingRequest(std::move(origin), sequence),
      pos_(pos),
      tokens_(std::move(tokens)),
      wanted_(wanted),
      row_bytes_(std::size_t{vocab_size} * sizeof(float)),
      first_cell_(resumption.first_cell),
      done_(resumption.done) {
  if (resumption.lost > 0) {
    TakeBackFrom(Pos{pos_.value + static_cast<std::int32_t>(done_)});
  } else if (left() == 0) {  // all tokens are computed already, and no logits are wanted
    SetReply(wire::DecodeReply{.sequence = this->sequence(), .cells = first_cell_ + done_});
  }
}

std::span<const TokenId> DecodeRequest::opening_prompt() const {
  if (pos_ != Pos{0} || left() == 0 || has_failed()) return {};
  return tokens_;
}

std::size_t DecodeRequest::wanted_tokens() const {
  return finishing() || takes_back() ? 0 : left();
}

bool DecodeRequest::Fill(std::size_t tokens_max, float*, StepItem& item) {
  std::size_t tokens = std::min(tokens_max, left());
  std::size_t rows = 0;
  if (wanted_ == wire::LogitsWanted::kAll) rows = tokens;
  if (wanted_ == wire::LogitsWanted::kLast && tokens == left()) rows = 1;
  if (rows > 0) {
    // If the output arena has room for fewer rows than wanted, the step computes fewer tokens.
    space_ = session().ReserveLogits(row_bytes_, rows, /*more_follows=*/tokens < left());
    if (!space_) return false;
    if (space_->rows < rows) tokens = space_->rows;
    rows = space_->rows;
  }
  item.sequence = sequence();
  item.pos = Pos{pos_.value + static_cast<std::int32_t>(done_)};
  item.tokens = std::span(tokens_).subspan(done_, tokens);
  item.first_logits_row = tokens - rows;
  // The recurrent state is kept at the end of a prompt. A request of one token is assumed to come
  // from a client that decodes its answer token by token, so no state is kept after a request of
  // one token.
  item.keeps_state = tokens == left() && tokens_.size() > 1;
  item.applied = applied();
  item.logits = rows > 0 ? reinterpret_cast<float*>(space_->piece.bytes.data()) : nullptr;
  return true;
}

void DecodeRequest::Finish(const StepItem& item, std::span<const float>) {
  const auto space = std::exchange(space_, std::nullopt);
  if (!item.status) {
    if (space) session().AbandonLogits(*space);
    if (!cancelled()) return FailWith(item.status.error());
    return EndWith(CancelledError());
  }
  done_ += item.tokens.size();
  // row_first counts wanted rows: with kLast there is only row 0.
  const bool wants_all = wanted_ == wire::LogitsWanted::kAll;
  const wire::DecodeReply reply{.sequence = sequence(),
                                .cells = first_cell_ + done_,
                                .row_first = wants_all ? done_ - space->rows : 0,
                                .reuse = PackReuse(opening().reuse)};
  wire::Completion completion = MakeCompletion();
  wire::PutReply(reply, &completion);
  if (space) {
    const bool is_final = !space->holds_slot;
    KVD_ASSERT(is_final == (left() == 0));
    session().PublishLogits(*space, completion);
    if (is_final) SetEnded();
  } else if (left() == 0) {
    SetFinal({.completion = completion});
  }
  if (left() > 0) TryProgress(done_, tokens_.size());
}

DivideRequest::DivideRequest(RequestOrigin origin, SequenceHandle sequence, PosRange range,
                             std::int32_t divisor, std::size_t cell_count)
    : ComputingRequest(std::move(origin), sequence),
      range_(range),
      divisor_(divisor),
      cell_count_(cell_count) {}

std::size_t DivideRequest::work_left() const {
  if (finishing()) return 0;
  return work_ ? work_->tokens_left() : std::max<std::size_t>(cell_count_, 1);
}

void DivideRequest::DoWork(Engine& engine, std::size_t tokens) {
  if (!work_) {
    auto work = engine.StartDivide(sequence(), range_, divisor_, applied());
    if (!work) return EndWith(work.error());
    work_ = std::move(*work);
  }
  const Result<bool> is_done = work_->Advance(tokens);
  if (is_done && !*is_done) return;
  const std::unique_ptr<CellWork> over = std::move(work_);
  if (!is_done) return EndWith(is_done.error());
  SetReply(wire::DivideReply{.sequence = sequence(), .cells = over->cell_count()});
}

void DivideRequest::OnCancel() {
  work_.reset();
  ComputingRequest::OnCancel();
}

}  // namespace kvd
