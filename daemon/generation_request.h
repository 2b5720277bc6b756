// GenerationRequest: kGenerate: a prompt is computed, then tokens are drawn, streamed and computed
// one by one.
//
// Every drawn token is committed, the last one included: a token is streamed as soon as it is
// drawn, and computed in the next step, without logits if it is the last. So what the client has
// seen is what the sequence holds when the final answer comes, also after a cancel. An error while
// the prompt is computed leaves the sequence as it was before the request, unless it cannot go back
// (a window that has lost its first cells, no room to compute a state again): the message says so
// then. An error later (a full pool) leaves what is committed, which may lack the last token that
// the client has seen.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/computing_request.h"
#include "daemon/sampler_states.h"
#include "daemon/take_back.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "engine/vocabulary/streaming_detokenizer.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {

// A sequence that is gone with this object.
class ScratchSequence {
 public:
  ScratchSequence() = default;
  // The memory outlives it.
  ScratchSequence(Memory& memory, SequenceHandle handle) : memory_(&memory), handle_(handle) {}
  ScratchSequence(ScratchSequence&& other) noexcept
      : memory_(other.memory_), handle_(std::exchange(other.handle_, SequenceHandle::kNone)) {}
  ScratchSequence& operator=(ScratchSequence&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~ScratchSequence() { Drop(); }

  SequenceHandle handle() const { return handle_; }  // kNone: there is none
  void Drop() {
    const SequenceHandle handle = std::exchange(handle_, SequenceHandle::kNone);
    if (handle != SequenceHandle::kNone) (void)memory_->sequences().Drop(handle);
  }

 private:
  Memory* memory_ = nullptr;
  SequenceHandle handle_ = SequenceHandle::kNone;
};

// Where a generation begins and what it leaves, beside its prompt.
struct GenerationState {
  bool keeps_logits = false;       // of the prompt's last token, also if nothing is drawn, and the
                                   // answer's last: models with recurrent state
  std::vector<float> last_logits;  // kContinue: the first token is drawn from these
  // kContinue where no logits are kept: the sequence without its last token, which is computed there
  // for its logits.
  ScratchSequence scratch{};
  TokenId last_token = 0;
  Pos last_pos{};

  std::uint64_t draw_count = 0;       // kResumeSampler: drawn by the sampler before
  SamplerStates* samplers = nullptr;  // null: nobody wants to know; outlives the request's steps
};

// The parameters of a sampler instead of the request's own.
void TakeSampler(const SamplerOptions& options, wire::GenerateRequest* generate);

// Where a generation goes on that was sent again: what it has committed, and what of it its client
// has.
struct GenerationResumption {
  std::size_t prompt_done = 0;
  // Tokens drawn before, in order; all committed but the last one, where is_last_drawn.
  std::vector<TokenId> drawn;
  bool is_last_drawn = false;
  std::size_t streamed = 0;   // of those, with the client
  std::size_t take_back = 0;  // last cells that are computed again, for the logits behind them
};

class GenerationRequest final : public ComputingRequest {
 public:
  // `generate` has passed wire::ParseGenerate; `history` are the sequence's tokens that penalties
  // look back at; `pos` is where the first prompt token goes; `cells_held` what the sequence holds
  // already; of a `resumption`, `pos` is where the sequence ends now, and `cells_held` what it held
  // before the request. `vocab_size` is the length of a row of logits, which may be more than the
  // vocabulary has tokens. `vocabulary` outlives the request. Errors: ValidateSampling's, StopMatcher's,
  // kNoTokenizer (stop strings without a tokenizer).
  static Result<std::unique_ptr<GenerationRequest>> Create(
      RequestOrigin origin, SequenceHandle sequence, Pos pos, std::uint32_t cells_held,
      wire::GenerateRequest generate, std::span<const TokenId> history,
      const Vocabulary& vocabulary, std::uint32_t vocab_size, GenerationState state = {},
      std::optional<GenerationResumption> resumption = std::nullopt);

  std::span<const TokenId> opening_prompt() const override;
  std::size_t opening_done() const override { return prompt_done_; }
  void SkipTo(std::size_t cells) override;
  std::size_t wanted_tokens() const override;
  bool needs_row(std::size_t tokens) const override;
  bool Fill(std::size_t tokens_max, float* row, StepItem& item) override;
  void Finish(const StepItem& item, std::span<const float> row) override;
  void OnCancel() override;
  // The first draw of a generation without a prompt; catching up with what was drawn before.
  bool runs_alone() const override {
    return (resumption_ || !state_.last_logits.empty()) && !has_piece() && !take_back_;
  }
  void RunAlone(Engine& engine) override;
  // Taking back what is drawn again, or a prompt that has failed.
  std::size_t work_left() const override {
    return take_back_ && !finishing() ? take_back_->tokens_left() : 0;
  }
  WorkKind work_kind() const override { return WorkKind::kReplay; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  // An error in the middle of the prompt: what the sequence holds of it is taken back.
  void FailWith(const Error& error) override;
  std::uint64_t TakeSampledCount() override { return std::exchange(sampled_count_, 0); }

 private:
  using Clock = std::chrono::steady_clock;

  GenerationRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos,
                    std::uint32_t cells_held, wire::GenerateRequest generate,
                    const Vocabulary& vocabulary, Sampler sampler, StopMatcher stops,
                    GenerationState state, std::optional<GenerationResumption> resumption);

  std::size_t prompt_left() const { return prompt_.size() - prompt_done_; }
  bool recomputes_last() const { return state_.scratch.handle() != SequenceHandle::kNone; }
  void Draw(std::span<const float> row);
  // Takes a drawn token into account; its text. Sets finish_ if it is the last.
  Result<std::string> Take(TokenId token);
  // Some of the tokens drawn before, up to the next one that has to be streamed. Then the rest, once.
  void CatchUp();
  void EndCatchingUp();
  // The text of a drawn token that may be shown now; ends the generation where a stop string is
  // complete.
  Result<std::string> TextOf(TokenId token);
  void StreamToken(const SampledToken& drawn, std::string_view text);
  void Conclude();

  const Vocabulary& vocabulary_;
  const wire::GenerateParams params_;
  const std::vector<TokenId> prompt_;
  const std::uint32_t cells_held_;
  GenerationState state_;
  Sampler sampler_;
  const std::shared_ptr<const SamplerOptions> sampling_;
  StopMatcher stops_;
  StreamingDetokenizer detokenizer_;
  const bool has_text_;    // pieces carry text
  const bool reads_text_;  // text is made at all: shown, or looked at for stop strings

  std::optional<GenerationResumption> resumption_;  // until it has caught up
  std::size_t caught_up_ = 0;                       // of its drawn tokens
  std::optional<TakeBack> take_back_;
  std::optional<Error> failure_;  // the answer, when the prompt is taken back
  Pos next_pos_;
  std::size_t prompt_done_ = 0;
  std::optional<TokenId> drawn_;              // streamed, not computed yet
  std::optional<wire::FinishReason> finish_;  // known once the last token is drawn
  bool cancelling_ = false;  // the drawn token is computed, then the request ends kCancelled
  std::uint32_t predicted_ = 0;
  std::uint64_t sampled_count_ = 0;
  std::optional<Clock::time_point> started_;
  Clock::time_point prompt_ended_;
};

}  // namespace kvd
