// A chunk's rows: kAll: one per token; kLast: one, in the chunk that holds the last token; kNone:
// none. The chunk that ends the tokens is answered finally, the others that have rows with kMore.
#include "daemon/decode_request.h"

#include <algorithm>
#include <utility>

#include "shm/check.h"

namespace kvd {

DecodeRequest::DecodeRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos,
                             std::vector<TokenId> tokens, wire::LogitsWanted wanted,
                             std::uint32_t vocab_size, const DecodeResumption& resumption)
    : ComputingRequest(std::move(origin), sequence),
      pos_(pos),
      tokens_(std::move(tokens)),
      wanted_(wanted),
      row_bytes_(std::size_t{vocab_size} * sizeof(float)),
      done_(resumption.done) {
  if (resumption.lost > 0) {
    take_back_.emplace(this->sequence(), Pos{pos_.value + static_cast<std::int32_t>(done_)});
  } else if (left() == 0) {  // without logits: all is said
    SetReply(wire::DecodeReply{.sequence = this->sequence(), .cells = done_});
  }
}

std::span<const TokenId> DecodeRequest::opening_prompt() const {
  if (pos_ != Pos{0} || left() == 0 || failure_) return {};
  return tokens_;
}

std::size_t DecodeRequest::wanted_tokens() const { return finishing() || take_back_ ? 0 : left(); }

void DecodeRequest::DoWork(Engine& engine, std::size_t tokens) {
  const Result<bool> is_done = take_back_->Advance(engine, tokens);
  if (is_done && !*is_done) return;
  take_back_.reset();
  if (failure_) {
    // A sequence that is gone has nothing to be taken back.
    const bool is_back = is_done || is_done.error().code == Code::kNotFound;
    if (is_back) has_appended = false;
    if (!is_back) failure_->message += "; what was appended stays: " + is_done.error().message;
    return EndWith(*failure_);
  }
  if (!is_done) EndWith(is_done.error());
}

void DecodeRequest::FailWith(const Error& error) {
  if (done_ == 0) return EndWith(error);
  failure_ = error;
  take_back_.emplace(sequence(), pos_);
}

void DecodeRequest::OnCancel() {
  take_back_.reset();
  ComputingRequest::OnCancel();
}

bool DecodeRequest::Fill(std::size_t tokens_max, float*, StepItem& item) {
  std::size_t tokens = std::min(tokens_max, left());
  std::size_t rows = 0;
  if (wanted_ == wire::LogitsWanted::kAll) rows = tokens;
  if (wanted_ == wire::LogitsWanted::kLast && tokens == left()) rows = 1;
  if (rows > 0) {
    // Fewer rows than tokens may have room: then fewer tokens are computed.
    space_ = session().ReserveLogits(row_bytes_, rows, /*more_follows=*/tokens < left());
    if (!space_) return false;
    if (space_->rows < rows) tokens = space_->rows;
    rows = space_->rows;
  }
  item.sequence = sequence();
  item.pos = Pos{pos_.value + static_cast<std::int32_t>(done_)};
  item.tokens = std::span(tokens_).subspan(done_, tokens);
  item.first_logits_row = tokens - rows;
  // The end of a prompt; a client that decodes token by token is in the middle of its answer.
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
    return EndWith({Code::kCancelled, "cancelled; what was committed stays"});
  }
  done_ += item.tokens.size();
  // Rows are counted among those wanted: with kLast there is one, row 0.
  const bool wants_all = wanted_ == wire::LogitsWanted::kAll;
  const wire::DecodeReply reply{.sequence = sequence(),
                                .cells = done_,
                                .row_first = wants_all ? done_ - space->rows : 0,
                                .reuse = PackReuse(opening.reuse)};
  wire::Completion completion = MakeCompletion();
  wire::PutReply(reply, &completion);
  if (space) {
    const bool is_final = !space->holds_slot;
    KVD_ASSERT(is_final == (left() == 0));
    session().PublishLogits(*space, completion);
    if (is_final) SetEnded();
  } else if (left() == 0) {
    SetFinal({.completion = completion, .output = {}});
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
