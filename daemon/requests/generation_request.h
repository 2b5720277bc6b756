// GenerationRequest: kGenerate: computes a prompt, then draws, streams and computes tokens one by
// one.
//
// Every drawn token is committed, including the last one. A token is streamed as soon as it is
// drawn, and is computed in the next step; for the last token, the step computes no logits. With
// kSkipLast, the generation ends when the last token is drawn, which is then not committed.
// Tokens that a grammar forces are not drawn: they are computed together with the token before them
// and streamed afterwards. When the final answer comes, the sequence therefore holds exactly the
// tokens that the client has seen, also after a cancel. An error during the prompt leaves the
// sequence as it was before the request, unless the tokens cannot be removed (a sliding window has
// lost its first cells, or there is no room to recompute a recurrent state); if so, the error
// message says that the tokens stay. An error after the prompt (a full pool) leaves the committed
// tokens, which may lack the last token that the client has seen.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/requests/appending_request.h"
#include "daemon/requests/breaker_search.h"
#include "daemon/requests/generation_start.h"
#include "daemon/requests/grammar_worker.h"
#include "daemon/requests/token_run.h"
#include "daemon/schedule/computing_request.h"
#include "daemon/stores/kept_samplers.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_matcher.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {

// The data with which a generation starts, in addition to its prompt, and the places where the
// generation stores data at its end.
struct GenerationState {
  // True for recurrent models: the logits of the prompt's last token, also if no token is drawn,
  // and of the answer's last token are kept.
  bool keeps_logits = false;
  // With kContinue, the row from which the first token is drawn. Of a retried generation, the row
  // from which its next token is drawn, or from which an earlier attempt has drawn the token that
  // the sampler must still adapt to.
  LastRow last_row{};

  // With kResumeSampler: what the earlier draws have changed, without the draws of an earlier
  // attempt of this request. For an earlier attempt that has drawn tokens: the adaptation after
  // them.
  std::optional<SamplerProgress> progress{};
  // The token sequences of the request's breakers; null if a search must find them first.
  std::shared_ptr<const DryBreakers> breakers{};
  // The object that receives the result of a search and outlives the request; null: the result is
  // not stored.
  BreakerCache* breaker_cache = nullptr;
  // The object that receives the sampler's state and outlives the request; null: the state is not
  // stored.
  KeptSamplers* samplers = nullptr;

  // The grammar of the answer; null: none. The request waits for it before it computes anything.
  std::shared_ptr<GrammarJob> grammar_job{};
  GrammarWorker* grammars = nullptr;  // computes masks; outlives the request
  KeptGrammar kept_grammar{};         // what is recorded with the drawn tokens
};

// Returns DRY's breakers as texts.
const std::vector<std::string>& BreakersOf(const SamplerOptions& options);

// Replaces the sampling parameters of `generate` by those of `options`.
void TakeSampler(const SamplerOptions& options, wire::GenerateRequest* generate);

class GenerationRequest final : public AppendingRequest, public LoneWork {
 public:
  // `generate` has passed wire::ParseGenerate. `history`: the tokens of the sequence that penalties
  // take into account. `pos`: the position of the first prompt token; with a `resumption`, the
  // sequence's next position. `cells_held`: the cells that the sequence held before the request.
  // `vocab_size`: the length of a row of logits, which may exceed the number of tokens in the
  // vocabulary. `vocabulary` outlives the request. Errors: those of ValidateSampling and
  // StopMatcher; kNoTokenizer (stop strings or breakers are given, but the model has no tokenizer).
  static Result<std::unique_ptr<GenerationRequest>> Create(
      RequestOrigin origin, SequenceHandle sequence, Pos pos, std::uint32_t cells_held,
      wire::GenerateRequest generate, std::span<const TokenId> history,
      const Vocabulary& vocabulary, std::uint32_t vocab_size, GenerationState state = {},
      std::optional<GenerationResumption> resumption = std::nullopt);

  ~GenerationRequest() override {
    if (state_.grammar_job) state_.grammar_job->Cancel();
  }

  LoneWork* lone_work() override { return this; }
  std::span<const TokenId> opening_prompt() const override;
  std::size_t opening_done() const override {
    return given_left() > 0 ? given_done_ : prompt_done_;
  }
  void SkipTo(std::size_t cells) override;
  std::size_t wanted_tokens() const override;
  bool needs_row(std::size_t tokens) const override;
  bool Fill(std::size_t tokens_max, float* row, StepItem& item) override;
  bool ends_with(const StepItem&) const override { return false; }
  void Finish(const StepItem& item, std::span<const float> row) override;
  void OnCancel() override;
  bool wants_prompt() const override { return prompt_left() > 0; }
  std::optional<std::chrono::milliseconds> room_wait() const override;
  bool EndFull() override;
  RequestTokens tokens() const override;
  bool tells_parking() const override { return (params_.flags & wire::kTellParking) != 0; }
  std::size_t promised_tokens() const override;
  std::optional<std::uint32_t> kept_cells() const override;
  void OnGivenBack(std::vector<TokenId> tokens, Pos pos) override;
  std::size_t given_left() const override { return given_.size() - given_done_; }
  // Called before OnGivenBack: the last `count` tokens that the sequence of an earlier attempt has
  // given back are not computed with the others, but when the request has caught up.
  void LeaveOutGiven(std::size_t count) { given_left_out_ = count; }
  // runs_alone returns true while DRY's breakers are searched, before the first draw of a
  // generation without a prompt, and while the tokens of an earlier attempt are processed again.
  // It also returns true when the grammar is ready.
  bool runs_alone() const override {
    if (state_.grammar_job) return state_.grammar_job->is_done() && !finishing();
    return given_left() == 0 && (breaker_search_ || resumed_ || state_.last_row.is_kept()) &&
           !has_piece() && !takes_back();
  }
  void RunAlone(Engine& engine) override;
  std::uint64_t TakeSampledCount() override { return std::exchange(sampled_count_, 0); }

 private:
  using Clock = std::chrono::steady_clock;

  GenerationRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos,
                    std::uint32_t cells_held, wire::GenerateRequest generate,
                    const Vocabulary& vocabulary, Sampler sampler, StopMatcher stops,
                    GenerationState state, std::optional<GenerationResumption> resumption);

  std::optional<Pos> FirstAppended() const override;
  void OnTakenBack() override;
  // Returns the position after the last token of an answer with a limit. `pos`: of the first token
  // that the sequence has neither held nor given back.
  Pos AnswerEnd(Pos pos, const std::optional<GenerationResumption>& resumption) const;
  std::size_t prompt_left() const { return prompt_.size() - prompt_done_; }
  // Returns whether the sequence has given back all of its cells.
  bool gives_from_start() const {
    return next_pos_.value == static_cast<std::int32_t>(given_done_);
  }
  bool skips_last() const { return (params_.flags & wire::kSkipLast) != 0; }
  // Returns whether the run's last token is the answer's last one.
  bool is_last_run() const;
  // Returns whether the sampler must still adapt to the last token of the earlier attempt, and the
  // token's row is kept or can be computed.
  bool adopts_last() const {
    return resumed_ && resumed_->is_last_open() &&
           (state_.last_row.exists() || resumed_->take_back() > 0 || resumed_->lacks_last());
  }
  void SearchBreakers();
  void TakeGrammar();
  // Draws the next token, or begins a run of tokens that the grammar forces.
  void Draw(std::span<const float> row);
  // Draws a token that the grammar allows, and reads it. nullopt: there is none.
  Result<std::optional<SampledToken>> DrawAllowed(std::span<const float> row);
  // Makes the token the run's first one, and adds the tokens that the grammar forces after it.
  void BeginRun(TokenId token);
  void AddForced();
  // Returns how many of the tokens come before the one that completes a stop text.
  std::size_t TokensBeforeStop(std::span<const TokenId> tokens) const;
  // Takes committed tokens of the run that the client has not seen yet.
  Status TakeForced(std::span<const TokenId> forced);
  void StreamUnseen();
  // Adapts the sampler to the token that an earlier attempt has drawn from the same row.
  void AdoptKnown(std::span<const float> row);
  // Adds a drawn token to the counts, and returns the text to show. Take sets finish_ if the token
  // is the last one.
  Result<std::string> Take(TokenId token);
  // CatchUp processes tokens of the earlier attempt, up to and including the next token that has to
  // be streamed. EndCatchingUp is called once, after all tokens of the earlier attempt are
  // processed.
  void CatchUp();
  void EndCatchingUp();
  // Computes the last committed token, whose cell is gone, with its row of logits.
  void ComputeLastAgain();
  // Sets how many draws the last committed token took, as its record tells. CatchUp counts one.
  void RestoreLastDraws();
  // Returns the text that may be shown after a drawn token; text that may begin a stop string is
  // held back. TextOf sets finish_ if a stop string is complete.
  Result<std::string> TextOf(TokenId token);
  // Streams the tokens of unseen_, and then the drawn token.
  void StreamToken(const SampledToken& drawn, std::string_view text);
  void StreamPiece(std::span<const TokenId> tokens, std::string_view text,
                   std::span<const wire::TokenLogprob> logprobs);
  void Conclude();
  // Ends the generation without computing the last drawn token.
  void ConcludeSkipping();

  const Vocabulary& vocabulary_;
  const wire::GenerateParams params_;
  const std::vector<TokenId> prompt_;
  const std::uint32_t cells_held_;
  GenerationState state_;
  Sampler sampler_;
  const std::shared_ptr<const SamplerOptions> sampling_;
  std::optional<BreakerSearch> breaker_search_;
  StopMatcher stops_;
  StreamingDetokenizer detokenizer_;
  const bool has_text_;  // true: pieces contain text
  // True if tokens are converted to text, because the text is shown or searched for stop strings.
  const bool reads_text_;

  // The tokens of the earlier attempt; empty when they are processed.
  std::optional<ResumedDraws> resumed_;
  Pos next_pos_;
  std::optional<Pos> answer_end_;  // nullopt: the answer has no limit
  std::size_t prompt_done_ = 0;
  TokenRun run_;  // the tokens that are computed next
  // The tokens that the sequence has given back, which are computed before run_, and how many of
  // them are committed again.
  std::vector<TokenId> given_;
  std::size_t given_done_ = 0;
  std::size_t given_left_out_ = 0;  // of LeaveOutGiven, until the request has caught up
  // True: the answer has all the room, and asks for none after the given tokens.
  bool is_last_room_ = false;
  // Committed forced tokens and their text, which the next piece shows before its drawn token.
  struct Unseen {
    std::vector<TokenId> tokens;
    std::string text;
    bool is_shown = false;  // the last piece shows them
  };
  Unseen unseen_;
  std::optional<AnswerGrammar> grammar_;
  // The token that an earlier attempt has streamed, and the tokens that the grammar allowed before
  // it; the sampler adapts to the token with the next row.
  struct Known {
    TokenId token = 0;
    std::shared_ptr<const TokenMask> allowed;  // null: all tokens
  };
  std::optional<Known> known_;
  // The reason of the end; set when the last token is drawn.
  std::optional<wire::FinishReason> finish_;
  bool skipped_ = false;  // true: the last token is not computed (kSkipLast, is_full_)
  bool is_full_ = false;  // true: ended by EndFull
  // True: the answer ends when the run is committed; its last token is not computed (kSkipLast).
  bool skips_open_ = false;
  // True: the request ends with kCancelled after the drawn token is computed.
  bool cancelling_ = false;
  std::uint32_t predicted_ = 0;
  std::uint64_t sampled_count_ = 0;
  std::optional<Clock::time_point> started_;
  Clock::time_point prompt_ended_;
};

}  // namespace kvd
