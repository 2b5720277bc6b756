// A GenerationRequest is in one of three states. While prompt_left() > 0, the prompt is being
// computed. While drawn_ is set, a drawn token must be computed. When finish_ is set, the last
// token was drawn.
#include "daemon/generation_request.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "shm/piece_codec.h"

namespace kvd {
namespace {

SamplerOptions SamplerOf(const wire::GenerateRequest& generate) {
  const wire::GenerateParams& params = generate.params;
  SamplerOptions options{.sampling = params.sampling,
                         .seed = params.seed,
                         .logprob_count = params.logprob_count,
                         .ignore_eos = (params.flags & wire::kIgnoreEos) != 0,
                         .biases = generate.biases};
  if ((params.flags & wire::kOwnBreakers) != 0) options.breakers = generate.breakers;
  return options;
}

// The number of bytes of the longest piece: a header, a token, the token's text (padded) and the
// token's log-probabilities. The text may include text that earlier pieces held back: the start of
// a character or of a stop string.
constexpr std::size_t kPieceBytesMax = sizeof(wire::GeneratePiece) + sizeof(TokenId) +
                                       TokenTable::kTokenBytesMax + wire::kStopBytesMax +
                                       2 * sizeof(std::uint32_t) +
                                       (1 + wire::kLogprobsMax) * sizeof(wire::TokenLogprob);
static_assert(kPieceBytesMax <= wire::kArenaBytesMin);

// Number of tokens whose texts are searched for breakers between two steps.
constexpr std::size_t kSearchedTokens = 8192;

}  // namespace

const std::vector<std::string>& BreakersOf(const SamplerOptions& options) {
  return options.breakers ? *options.breakers : DefaultBreakers();
}

void TakeSampler(const SamplerOptions& options, wire::GenerateRequest* generate) {
  wire::GenerateParams& params = generate->params;
  params.sampling = options.sampling;
  params.seed = options.seed;
  params.flags &= ~std::uint32_t{wire::kIgnoreEos | wire::kOwnBreakers};
  if (options.ignore_eos) params.flags |= wire::kIgnoreEos;
  if (options.breakers) params.flags |= wire::kOwnBreakers;
  generate->biases = options.biases;
  params.bias_count = static_cast<std::uint32_t>(options.biases.size());
  generate->breakers = options.breakers.value_or(std::vector<std::string>());
  params.breaker_count = static_cast<std::uint32_t>(generate->breakers.size());
}

Result<std::unique_ptr<GenerationRequest>> GenerationRequest::Create(
    RequestOrigin origin, SequenceHandle sequence, Pos pos, std::uint32_t cells_held,
    wire::GenerateRequest generate, std::span<const TokenId> history, const Vocabulary& vocabulary,
    std::uint32_t vocab_size, GenerationState state,
    std::optional<GenerationResumption> resumption) {
  KVD_TRY(Sampler sampler,
          Sampler::Create(SamplerOf(generate), vocab_size, vocabulary.end_of_generation()));
  if (state.progress) {
    sampler.SkipDraws(state.progress->draw_count);
    sampler.SetAdaptation(state.progress->adaptation, state.progress->adaptation_before);
  }
  for (const TokenId token : history) sampler.Accept(token);
  for (const TokenId token : generate.tokens) sampler.Accept(token);
  if (!generate.stops.empty() && vocabulary.kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, "stop strings: ", vocabulary.no_tokenizer_reason());
  }
  if (!generate.breakers.empty() && vocabulary.kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, "breakers: ", vocabulary.no_tokenizer_reason());
  }
  KVD_TRY(StopMatcher stops, StopMatcher::Create(std::move(generate.stops)));
  return std::unique_ptr<GenerationRequest>(new GenerationRequest(
      std::move(origin), sequence, pos, cells_held, std::move(generate), vocabulary,
      std::move(sampler), std::move(stops), std::move(state), std::move(resumption)));
}

GenerationRequest::GenerationRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos,
                                     std::uint32_t cells_held, wire::GenerateRequest generate,
                                     const Vocabulary& vocabulary, Sampler sampler,
                                     StopMatcher stops, GenerationState state,
                                     std::optional<GenerationResumption> resumption)
    : AppendingRequest(std::move(origin), sequence),
      vocabulary_(vocabulary),
      params_(generate.params),
      prompt_(std::move(generate.tokens)),
      cells_held_(cells_held),
      state_(std::move(state)),
      sampler_(std::move(sampler)),
      sampling_(state_.samplers == nullptr
                    ? nullptr
                    : std::make_shared<const SamplerOptions>(sampler_.options())),
      stops_(std::move(stops)),
      detokenizer_(vocabulary, (params_.flags & wire::kShowSpecial) != 0),
      has_text_(vocabulary.kind() != Vocabulary::Kind::kNone &&
                (params_.flags & wire::kNoText) == 0),
      reads_text_(has_text_ || params_.stop_count > 0),
      resumption_(std::move(resumption)),
      next_pos_(pos) {
  if (resumption_) prompt_done_ = resumption_->prompt_done;
  if (!PenalisesRepetitions(params_.sampling)) return;
  if (state_.breakers) {
    sampler_.SetBreakers(state_.breakers);
  } else {
    breaker_search_.emplace(vocabulary_, BreakersOf(sampler_.options()));
  }
}

void GenerationRequest::SearchBreakers() {
  breaker_search_->Advance(kSearchedTokens);
  if (!breaker_search_->is_done()) return;
  const std::shared_ptr<const DryBreakers> found = breaker_search_->Take();
  if (state_.breaker_cache != nullptr) {
    state_.breaker_cache->Put(breaker_search_->breakers(), found);
  }
  sampler_.SetBreakers(found);
  breaker_search_.reset();
}

std::span<const TokenId> GenerationRequest::opening_prompt() const {
  if (cells_held_ != 0 || prompt_left() == 0 || has_failed()) return {};
  return prompt_;
}

void GenerationRequest::SkipTo(std::size_t cells) {
  if (!started_) started_ = Clock::now();
  prompt_done_ = cells;
  next_pos_ = Pos{static_cast<std::int32_t>(cells)};
}

std::size_t GenerationRequest::wanted_tokens() const {
  if (finishing() || has_piece() || runs_alone() || takes_back()) return 0;
  return prompt_left() > 0 ? prompt_left() : 1;
}

bool GenerationRequest::needs_row(std::size_t tokens) const {
  if (prompt_left() > 0) {
    return tokens == prompt_left() && (params_.predict_max != 0 || state_.keeps_logits);
  }
  return known_ || (!cancelling_ && (!finish_ || state_.keeps_logits));
}

bool GenerationRequest::Fill(std::size_t tokens_max, float* row, StepItem& item) {
  if (!started_) started_ = Clock::now();
  item.sequence = sequence();
  item.pos = next_pos_;
  if (recomputes_last()) {
    item.sequence = state_.scratch.handle();
    item.pos = state_.last_pos;
    item.tokens = std::span(&state_.last_token, 1);
  } else if (prompt_left() > 0) {
    item.tokens = std::span(prompt_).subspan(prompt_done_, std::min(tokens_max, prompt_left()));
  } else {
    KVD_ASSERT(drawn_.has_value());
    item.tokens = std::span(&*drawn_, 1);
    if (sampling_) item.sampler = RecordOf(*sampling_, sampler_.state());
  }
  item.first_logits_row = item.tokens.size() - (row != nullptr ? 1 : 0);
  item.logits = row;
  item.applied = applied();
  // A generation keeps the recurrent state at the end of the prompt and at the end of the answer.
  item.keeps_state = recomputes_last()   ? false
                     : prompt_left() > 0 ? item.tokens.size() == prompt_left()
                                         : finish_.has_value();
  return true;
}

void GenerationRequest::Finish(const StepItem& item, std::span<const float> row) {
  if (!item.status) {
    if (!cancelled()) return FailWith(item.status.error());
    return EndWith({Code::kCancelled, "cancelled; committed tokens stay"});
  }
  if (recomputes_last()) {
    state_.scratch.Drop();
    prompt_ended_ = Clock::now();
    if (known_) return AdoptKnown(row);
    if (params_.predict_max != 0) return Draw(row);
    finish_ = wire::kFinishLength;
    return Conclude();
  }
  next_pos_.value += static_cast<std::int32_t>(item.tokens.size());
  if (prompt_left() > 0) {
    prompt_done_ += item.tokens.size();
    if (prompt_left() > 0) return TryProgress(prompt_done_, prompt_.size());
    prompt_ended_ = Clock::now();
    if (params_.predict_max == 0) finish_ = wire::kFinishLength;
  } else {
    drawn_.reset();
    if (sampling_) state_.samplers->Put(sequence(), sampling_, sampler_.state());
  }
  if (cancelling_) return AppendingRequest::OnCancel();
  if (finish_) return Conclude();
  Draw(row);
}

void GenerationRequest::RunAlone(Engine&) {
  if (breaker_search_) return SearchBreakers();
  if (resumption_) return CatchUp();
  started_ = Clock::now();
  prompt_ended_ = *started_;
  const std::vector<float> row = std::exchange(state_.last_logits, {});
  if (params_.predict_max == 0) {
    finish_ = wire::kFinishLength;
    return Conclude();
  }
  Draw(row);
}

void GenerationRequest::CatchUp() {
  constexpr int kTokensOfOneRound = 1024;
  if (!started_) prompt_ended_ = *(started_ = Clock::now());
  for (int tokens = 0; caught_up_ < resumption_->drawn.size() && !finish_; ++tokens) {
    if (tokens == kTokensOfOneRound) return;
    const TokenId token = resumption_->drawn[caught_up_++];
    if (!adopts_last() || caught_up_ < resumption_->drawn.size()) {
      sampler_.SkipDraw();
      sampler_.Accept(token);
    }
    const Result<std::string> text = Take(token);
    if (!text) return EndWith(text.error());
    if (caught_up_ <= resumption_->streamed) continue;
    // CatchUp streams a token of the earlier attempt without log-probabilities. If the client wants
    // log-probabilities, ResumeGeneration has such tokens computed again, so CatchUp does not
    // stream them.
    StreamToken({.token = token, .logprob = 0.0f}, *text);
    return;
  }
  EndCatchingUp();
}

void GenerationRequest::EndCatchingUp() {
  const std::vector<TokenId>& drawn = resumption_->drawn;
  const bool is_prompt_done = prompt_left() == 0;
  if (is_prompt_done && !finish_ && params_.predict_max == 0) finish_ = wire::kFinishLength;
  if (adopts_last()) {
    known_ = drawn.back();
    if (!recomputes_last()) AdoptKnown(std::exchange(state_.last_logits, {}));
  } else if (resumption_->is_last_drawn) {
    drawn_ = drawn.back();
  } else if (finish_) {
    Conclude();
  } else if (resumption_->take_back > 0) {
    const auto cells = static_cast<std::int32_t>(resumption_->take_back);
    TakeBackFrom(Pos{next_pos_.value - cells});
    return;  // OnTakenBack continues the generation after the tokens are removed
  }
  resumption_.reset();
}

void GenerationRequest::OnTakenBack() {
  next_pos_.value -= static_cast<std::int32_t>(resumption_->take_back);
  if (resumption_->drawn.empty()) {
    --prompt_done_;
  } else {
    drawn_ = resumption_->drawn.back();
  }
  resumption_.reset();
}

std::optional<Pos> GenerationRequest::FirstAppended() const {
  if (prompt_done_ == 0 || prompt_left() == 0) return std::nullopt;
  return Pos{next_pos_.value - static_cast<std::int32_t>(prompt_done_)};
}

void GenerationRequest::Draw(std::span<const float> row) {
  const Result<SampledToken> drawn = sampler_.Sample(row);
  if (!drawn) return EndWith(drawn.error());
  sampler_.Accept(drawn->token);
  const Result<std::string> text = Take(drawn->token);
  if (!text) return EndWith(text.error());
  drawn_ = drawn->token;
  ++sampled_count_;
  StreamToken(*drawn, *text);
}

void GenerationRequest::AdoptKnown(std::span<const float> row) {
  const TokenId token = *std::exchange(known_, std::nullopt);
  if (const Status adopted = sampler_.Adopt(row, token); !adopted) return EndWith(adopted.error());
  sampler_.Accept(token);
  drawn_ = token;
}

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
  const wire::PieceView view{
      .kind = wire::kPieceTokens,
      .done = predicted_,
      .total = params_.predict_max > 0 ? static_cast<std::uint64_t>(params_.predict_max) : 0,
      .tokens = std::span(&drawn.token, 1),
      .text = text,
      .logprobs = logprobs};
  // A piece has at most kPieceBytesMax bytes, which fit into every arena. The check of the piece's
  // size makes a larger piece an error of the request instead of a failed assertion.
  const std::size_t piece_bytes = wire::PieceBytes(view);
  if (piece_bytes > session().output_bytes_max()) {
    return EndWith(
        {Code::kNoSpace, Concat("result arena: a piece has ", piece_bytes, " bytes, the arena has ",
                                session().output_bytes_max())});
  }
  Answer piece{.completion = MakeCompletion(), .output = {}};
  piece.output.resize(piece_bytes);
  wire::EncodePiece(view, piece.output);
  SetPiece(std::move(piece));
}

void GenerationRequest::Conclude() {
  const auto now = Clock::now();
  const auto nanoseconds = [](Clock::duration duration) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  };
  const wire::GenerateResult result{
      .seed = params_.seed,
      .finish = *finish_,
      .prompt_reused = cells_held_,
      .prompt_computed = static_cast<std::uint32_t>(prompt_.size() - opening.reuse.tokens),
      .predicted = predicted_,
      .prompt_ns = nanoseconds(prompt_ended_ - *started_),
      .predict_ns = nanoseconds(now - prompt_ended_),
      .prompt_shared = opening.reuse.tokens,
      .shared_origin = static_cast<std::uint8_t>(opening.reuse.origin),
      .share_limit = static_cast<std::uint8_t>(opening.reuse.limit),
      .reserved = 0};
  SetReply(wire::OneReply<wire::GenerateResult>{result});
}

void GenerationRequest::OnCancel() {
  // If the client has seen a token that is not computed yet, the token is computed before the
  // request ends, so that the token becomes part of the sequence.
  if ((drawn_ || known_) && !has_piece() && !session().closed()) {
    cancelling_ = true;
    return;
  }
  AppendingRequest::OnCancel();
}

}  // namespace kvd
