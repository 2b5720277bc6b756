// A GenerationRequest is in one of three states. While prompt_left() > 0, the prompt is being
// computed. While run_.left() > 0, a drawn token and the tokens that the grammar forces after it
// must be computed. When finish_ is set, the last token was drawn. Before all of them, the request
// waits for its grammar.
#include "daemon/requests/generation_request.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace kvd {
namespace {

SamplerOptions SamplerOf(const wire::GenerateRequest& generate) {
  const wire::GenerateParams& params = generate.params;
  SamplerOptions options{.sampling = params.sampling,
                         .seed = params.seed,
                         .logprob_count = params.logprob_count,
                         .ignore_eos = (params.flags & wire::kIgnoreEos) != 0,
                         .biases = generate.biases,
                         .llama_draws = (params.flags & wire::kLlamaDraws) != 0};
  if ((params.flags & wire::kOwnBreakers) != 0) options.breakers = generate.breakers;
  return options;
}

// Number of tokens whose texts are searched for breakers between two steps.
constexpr std::size_t kSearchedTokens = 8192;

AllowedTokens AllowedOf(const TokenMask& mask) {
  return {.list = mask.list(), .bits = mask.bits()};
}

}  // namespace

const std::vector<std::string>& BreakersOf(const SamplerOptions& options) {
  return options.breakers ? *options.breakers : DefaultBreakers();
}

void TakeSampler(const SamplerOptions& options, wire::GenerateRequest* generate) {
  wire::GenerateParams& params = generate->params;
  params.sampling = options.sampling;
  params.seed = options.seed;
  params.flags &= ~std::uint32_t{wire::kIgnoreEos | wire::kOwnBreakers | wire::kLlamaDraws};
  if (options.ignore_eos) params.flags |= wire::kIgnoreEos;
  if (options.breakers) params.flags |= wire::kOwnBreakers;
  if (options.llama_draws) params.flags |= wire::kLlamaDraws;
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
  if (state.progress) sampler.SetProgress(*state.progress);
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
      next_pos_(pos) {
  if (params_.predict_max >= 0) answer_end_ = AnswerEnd(pos, resumption);
  if (resumption) {
    prompt_done_ = resumption->prompt_done;
    resumed_.emplace(std::move(*resumption));
  }
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
  if (given_left() > 0 && gives_from_start()) return given_;
  if (cells_held_ != 0 || prompt_left() == 0 || has_failed() || state_.grammar_job) return {};
  return prompt_;
}

void GenerationRequest::SkipTo(std::size_t cells) {
  if (!started_) started_ = Clock::now();
  (given_left() > 0 ? given_done_ : prompt_done_) = cells;
  next_pos_ = Pos{static_cast<std::int32_t>(cells)};
}

std::size_t GenerationRequest::wanted_tokens() const {
  if (finishing() || has_piece() || runs_alone() || takes_back() || state_.grammar_job) return 0;
  if (given_left() > 0) return given_left();
  if (state_.last_row.is_on_fork()) return 1;
  return prompt_left() > 0 ? prompt_left() : run_.left();
}

bool GenerationRequest::is_last_run() const {
  if (finish_) return true;
  return params_.predict_max > 0 &&
         predicted_ + run_.forced_left() == static_cast<std::size_t>(params_.predict_max);
}

Pos GenerationRequest::AnswerEnd(Pos pos,
                                 const std::optional<GenerationResumption>& resumption) const {
  std::size_t left = prompt_.size() + static_cast<std::size_t>(params_.predict_max);
  if (params_.predict_max > 0 && skips_last()) --left;
  if (resumption) {
    left -= resumption->prompt_done + resumption->drawn.size();
    left += resumption->is_last_drawn ? 1 : 0;
  }
  return Pos{pos.value + static_cast<std::int32_t>(left)};
}

// After the given tokens there is room for a block of further ones, so that the request does not
// give them back again at once, but not for more than the answer has.
std::size_t GenerationRequest::promised_tokens() const {
  if (given_left() == 0) return wanted_tokens();
  if (prompt_left() > 0) return given_left() + prompt_left();
  if (is_last_room_) return given_left();
  std::size_t further = layout::kBlockCells;
  if (answer_end_) {
    const std::int64_t left = std::int64_t{answer_end_->value} - next_pos_.value -
                              static_cast<std::int64_t>(given_left());
    further = static_cast<std::size_t>(std::clamp<std::int64_t>(left, 0, layout::kBlockCells));
  }
  return given_left() + further;
}

RequestTokens GenerationRequest::tokens() const {
  RequestTokens tokens{.done = prompt_done_ + predicted_};
  if (params_.predict_max >= 0) {
    tokens.wanted = prompt_.size() + static_cast<std::size_t>(params_.predict_max);
  }
  return tokens;
}

// A prompt has cells while it waits if an earlier attempt has computed a part of it.
std::optional<std::uint32_t> GenerationRequest::kept_cells() const {
  const bool catches_up = resumed_ && given_left() == 0;
  if (finishing() || catches_up || takes_back() || cancelling_ || state_.last_row.exists()) {
    return std::nullopt;
  }
  if (prompt_left() == 0) return cells_held_ + static_cast<std::uint32_t>(prompt_.size());
  if (prompt_done_ == 0) return std::nullopt;
  return cells_held_;
}

void GenerationRequest::OnGivenBack(std::vector<TokenId> tokens, Pos pos) {
  tokens.resize(tokens.size() - std::min(given_left_out_, tokens.size()));
  given_ = std::move(tokens);
  given_done_ = 0;
  next_pos_ = pos;
  // The request could take no prefix, because its sequence was not empty.
  const bool shares = opening().reuse.limit == PrefixLimit::kNotEmpty;
  if (gives_from_start() && shares) opening().may_take = true;
}

bool GenerationRequest::needs_row(std::size_t tokens) const {
  if (given_left() > 0) return false;
  if (prompt_left() > 0) {
    return tokens == prompt_left() && (params_.predict_max != 0 || state_.keeps_logits);
  }
  if (known_ || state_.last_row.is_on_fork()) return true;
  return tokens == run_.left() && !cancelling_ && (!is_last_run() || state_.keeps_logits);
}

bool GenerationRequest::Fill(std::size_t tokens_max, float* row, StepItem& item) {
  if (!started_) started_ = Clock::now();
  item.sequence = sequence();
  item.pos = next_pos_;
  if (given_left() > 0) {
    item.tokens = std::span(given_).subspan(given_done_, std::min(tokens_max, given_left()));
  } else if (state_.last_row.is_on_fork()) {
    state_.last_row.Fill(item);
  } else if (prompt_left() > 0) {
    item.tokens = std::span(prompt_).subspan(prompt_done_, std::min(tokens_max, prompt_left()));
  } else {
    KVD_ASSERT(run_.left() > 0);
    item.tokens = run_.Next(tokens_max);
    if (sampling_) {
      SamplerProgress progress = sampler_.state();
      // Each forced token counts as a draw, so that draw n is always that of token n.
      const std::size_t forced = run_.ForcedIn(item.tokens.size());
      if (!IsGreedy(params_.sampling)) progress.draw_count += forced;
      if (forced > 0) progress.adaptation_before = progress.adaptation;
      item.sampler = RecordOf(*sampling_, progress, state_.kept_grammar);
    }
  }
  item.first_logits_row = item.tokens.size() - (row != nullptr ? 1 : 0);
  item.logits = row;
  item.applied = applied();
  // A generation keeps the recurrent state at the end of the prompt and at the end of the answer.
  item.keeps_state = given_left() > 0               ? item.tokens.size() == given_left()
                     : state_.last_row.is_on_fork() ? false
                     : prompt_left() > 0            ? item.tokens.size() == prompt_left()
                                         : item.tokens.size() == run_.left() && is_last_run();
  return true;
}

void GenerationRequest::Finish(const StepItem& item, std::span<const float> row) {
  if (!item.status) {
    if (!cancelled()) return FailWith(item.status.error());
    return EndWith(CancelledError());
  }
  if (given_left() > 0) {
    given_done_ += item.tokens.size();
    next_pos_.value += static_cast<std::int32_t>(item.tokens.size());
    if (given_left() == 0) given_.clear();
    if (given_.empty()) given_done_ = 0;
    return;
  }
  if (state_.last_row.is_on_fork()) {
    state_.last_row.DropFork();
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
    const Status taken = TakeForced(run_.Commit(item.tokens.size()));
    if (!taken) return EndWith(taken.error());
    if (sampling_) state_.samplers->Put(sequence(), sampling_, sampler_.state());
    if (run_.left() > 0) return;
  }
  if (cancelling_) return AppendingRequest::OnCancel();
  if (skips_open_) return ConcludeSkipping();
  if (known_) return AdoptKnown(row);
  if (finish_) return Conclude();
  Draw(row);
}

void GenerationRequest::TakeGrammar() {
  Result<AnswerGrammar> grammar = std::exchange(state_.grammar_job, nullptr)->Take();
  if (!grammar) return EndWith(grammar.error());
  grammar_.emplace(std::move(*grammar));
  if (grammar_->has_begun()) state_.grammars->PrepareMask(grammar_->matcher());
}

void GenerationRequest::RunAlone(Engine&) {
  if (state_.grammar_job) return TakeGrammar();
  if (breaker_search_) return SearchBreakers();
  if (resumed_) return CatchUp();
  started_ = Clock::now();
  prompt_ended_ = *started_;
  const std::vector<float> row = state_.last_row.Take();
  if (params_.predict_max == 0) {
    finish_ = wire::kFinishLength;
    return Conclude();
  }
  Draw(row);
}

void GenerationRequest::CatchUp() {
  constexpr int kTokensOfOneRound = 1024;
  if (!started_) prompt_ended_ = *(started_ = Clock::now());
  for (int tokens = 0; resumed_->has_next() && !finish_; ++tokens) {
    if (tokens == kTokensOfOneRound) return;
    const auto [token, is_open, is_received] = resumed_->Next();
    if (is_open && adopts_last()) {
      const bool has_mask = grammar_ && grammar_->has_begun();
      known_ = Known{.token = token, .allowed = has_mask ? grammar_->matcher().Mask() : nullptr};
    } else {
      sampler_.SkipDraw();
      sampler_.Accept(token);
    }
    if (grammar_) {
      if (const Status read = grammar_->Accept(token); !read) return EndWith(read.error());
    }
    const Result<std::string> text = Take(token);
    if (!text) return EndWith(text.error());
    if (is_received) continue;
    // CatchUp streams a token of the earlier attempt without log-probabilities. If the client wants
    // log-probabilities, ResumeGeneration has such tokens computed again, so CatchUp does not
    // stream them.
    StreamToken({.token = token, .logprob = 0.0f}, *text);
    return;
  }
  EndCatchingUp();
}

void GenerationRequest::RestoreLastDraws() {
  if (!state_.progress || (resumed_->is_last_open() && !adopts_last())) return;
  SamplerProgress progress = sampler_.state();
  progress.draw_last = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(state_.progress->draw_last, progress.draw_count));
  progress.xtc_draw_last = std::min(state_.progress->xtc_draw_last, progress.xtc_draw_count);
  sampler_.SetProgress(progress);
}

void GenerationRequest::EndCatchingUp() {
  given_left_out_ = 0;
  RestoreLastDraws();
  const bool is_prompt_done = prompt_left() == 0;
  if (is_prompt_done && !finish_ && params_.predict_max == 0) finish_ = wire::kFinishLength;
  const bool skips = resumed_->is_last_open() && finish_ && skips_last();
  if (resumed_->lacks_last()) {
    // The last committed token is computed again in every case. A token that may be skipped stays
    // open behind it.
    skips_open_ = skips;
    if (skips) known_.reset();
    ComputeLastAgain();
  } else if (skips) {
    ConcludeSkipping();
  } else if (resumed_->is_last_open() && !known_) {
    BeginRun(resumed_->last());
  } else if (!known_ && finish_) {
    Conclude();
  } else if (resumed_->take_back() > 0) {
    TakeBackFrom(Pos{next_pos_.value - static_cast<std::int32_t>(resumed_->take_back())});
    // OnTakenBack continues the generation after the tokens are removed. The row after the last
    // token that stays is then computed again, and known_ adopted.
    return;
  } else if (known_ && state_.last_row.is_kept()) {
    AdoptKnown(state_.last_row.Take());
  }
  resumed_.reset();
}

void GenerationRequest::OnTakenBack() {
  next_pos_.value -= static_cast<std::int32_t>(resumed_->take_back());
  ComputeLastAgain();
  resumed_.reset();
}

void GenerationRequest::ComputeLastAgain() {
  if (const std::optional<TokenId> token = resumed_->last_committed()) {
    // The tokens that the grammar forces after this one follow with the next draw.
    run_.Begin(*token);
  } else {
    --prompt_done_;
  }
}

std::optional<Pos> GenerationRequest::FirstAppended() const {
  if (prompt_done_ == 0 || prompt_left() == 0) return std::nullopt;
  const Pos end{next_pos_.value + static_cast<std::int32_t>(given_left())};
  const Pos first{end.value - static_cast<std::int32_t>(prompt_done_)};
  if (given_left() > 0 && first.value >= next_pos_.value) return std::nullopt;  // no cell is left
  return first;
}

void GenerationRequest::Draw(std::span<const float> row) {
  AddForced();
  if (run_.left() > 0) return;
  const Result<std::optional<SampledToken>> drawn = DrawAllowed(row);
  if (!drawn) return EndWith(drawn.error());
  if (!*drawn) {
    finish_ = wire::kFinishGrammar;
    return Conclude();
  }
  const TokenId token = (*drawn)->token;
  sampler_.Accept(token);
  const Result<std::string> text = Take(token);
  if (!text) return EndWith(text.error());
  ++sampled_count_;
  const bool skips = finish_ && skips_last();
  if (!skips) BeginRun(token);
  StreamToken(**drawn, *text);
  if (skips) ConcludeSkipping();
}

Result<std::optional<SampledToken>> GenerationRequest::DrawAllowed(std::span<const float> row) {
  if (!grammar_) {
    KVD_TRY(const SampledToken drawn, sampler_.Sample(row));
    return drawn;
  }
  if (grammar_->has_begun()) {
    const std::shared_ptr<const TokenMask> mask = grammar_->matcher().Mask();
    const AllowedTokens allowed = AllowedOf(*mask);
    const Result<SampledToken> drawn = sampler_.Sample(row, &allowed);
    if (!drawn && drawn.error().code == Code::kNotFound) return std::nullopt;
    if (!drawn) return std::unexpected(drawn.error());
    KVD_CHECK_OK(grammar_->Accept(drawn->token));
    return *drawn;
  }
  // A token that completes a trigger and continues outside the language is refused and drawn again
  // without it; the draw keeps its number.
  std::vector<float> left;
  const SamplerProgress before = sampler_.state();
  for (;;) {
    KVD_TRY(const SampledToken drawn, sampler_.Sample(left.empty() ? row : left));
    if (grammar_->Accept(drawn.token)) return drawn;
    sampler_.SetProgress(before);
    if (left.empty()) left.assign(row.begin(), row.end());
    left[static_cast<std::size_t>(drawn.token)] = -std::numeric_limits<float>::infinity();
  }
}

void GenerationRequest::BeginRun(TokenId token) {
  run_.Begin(token);
  if (!finish_ && !cancelling_) AddForced();
}

// Log-probabilities belong to drawn tokens, so with them every token is drawn. llama.cpp draws
// every token. A stop text ends the answer at the token that completes it: that token and those
// after it are not forced but drawn.
void GenerationRequest::AddForced() {
  if (!grammar_) return;
  const bool draws_all = params_.logprob_count > 0 || sampler_.options().llama_draws;
  std::size_t tokens_max = draws_all ? 0 : AnswerGrammar::kForcedTokensMax;
  if (params_.predict_max > 0) {
    tokens_max = std::min<std::size_t>(
        tokens_max, static_cast<std::uint32_t>(params_.predict_max) - predicted_);
  }
  const std::vector<TokenId> forced = grammar_->ForcedTokens(tokens_max);
  const std::size_t before_stop =
      params_.stop_count == 0 || forced.empty() ? forced.size() : TokensBeforeStop(forced);
  for (const TokenId token : std::span(forced).first(before_stop)) {
    // A token that the grammar forces is in its language.
    if (!grammar_->Accept(token)) break;
    run_.AddForced(token);
  }
  if (grammar_->has_begun()) state_.grammars->PrepareMask(grammar_->matcher());
}

std::size_t GenerationRequest::TokensBeforeStop(std::span<const TokenId> tokens) const {
  StreamingDetokenizer detokenizer = detokenizer_;
  StopMatcher stops = stops_;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Result<std::string> text =
        vocabulary_.Contains(tokens[i]) ? detokenizer.Push(tokens[i]) : std::string();
    if (!text) return i;
    (void)stops.Feed(*text);
    if (stops.matched()) return i;
  }
  return tokens.size();
}

Status GenerationRequest::TakeForced(std::span<const TokenId> forced) {
  if (unseen_.is_shown) unseen_ = {};
  for (const TokenId token : forced) {
    sampler_.SkipDraw();
    sampler_.Accept(token);
    KVD_TRY(const std::string text, Take(token));
    unseen_.tokens.push_back(token);
    unseen_.text += text;
  }
  return {};
}

void GenerationRequest::AdoptKnown(std::span<const float> row) {
  const Known known = *std::exchange(known_, std::nullopt);
  std::optional<AllowedTokens> allowed;
  if (known.allowed) allowed = AllowedOf(*known.allowed);
  const Status adopted = sampler_.Adopt(row, known.token, allowed ? &*allowed : nullptr);
  if (!adopted) return EndWith(adopted.error());
  sampler_.Accept(known.token);
  BeginRun(known.token);
}

}  // namespace kvd
