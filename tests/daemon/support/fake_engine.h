// FakeEngine: an Engine over real memory whose "model" is one line: the likeliest token after t is
// NextToken(t).
//
// For tests of everything above the engine. Step appends to real sequences (K and V are left as
// they are) and records what it was asked to compute; a test may hold steps at a gate to look at
// what happens meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/engine.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_home.h"
#include "engine/model_config.h"
#include "engine/model_fingerprint.h"
#include "engine/model_ropes.h"
#include "engine/step_profile.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd::test {

// What one item of a step was.
struct RecordedItem {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::size_t tokens = 0;
  bool wants_logits = false;
};

struct FakeEngineOptions {
  std::uint64_t cells = 1024;
  std::uint32_t sequence_capacity = 256;
  std::uint32_t snapshot_capacity = 16;
  std::uint32_t ubatch_tokens = 128;
  std::uint32_t vocab_size = 64;
  bool has_tokenizer = true;
  bool has_state = false;   // a recurrent model
  bool is_encoder = false;  // its rows are {3, 4}
  bool has_cross_attention = false;
};

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(const FakeEngineOptions& options = {});
  ~FakeEngine() override;

  static constexpr TokenId kBos = 1;
  static constexpr TokenId kEos = 2;
  static constexpr TokenId kFirstLetter = 3;  // "a", then "b" …, in a circle
  TokenId NextToken(TokenId token) const;
  // The id of a letter 'a'..'z'.
  static TokenId Letter(char letter) { return kFirstLetter + (letter - 'a'); }

  Memory& memory() override { return *memory_; }
  const Vocabulary& vocabulary() const override { return *vocabulary_; }
  const ModelConfig& config() const override { return config_; }
  const kernels::KernelTable& kernels() const override;
  const EngineOptions& options() const override { return options_; }
  const ModelFingerprint& fingerprint() const override { return fingerprint_; }
  NumericForm numeric_form() const override { return NumericForm::kFree; }
  const CellLayout& cell_layout() const override { return cell_layout_; }
  const ModelRopes& ropes() const override { return ropes_; }
  const MemoryStart& memory_start() const override { return memory_start_; }
  std::uint64_t weight_bytes() const override { return 1000; }
  void BringInWeights(const std::stop_token&) const override {}
  const StepProfile& profile() const override { return profile_; }
  std::uint64_t cell_bytes() const override { return 8; }
  std::uint64_t state_bytes() const override { return has_state_ ? 64 : 0; }
  std::size_t StepTokens(std::uint32_t cell_count, Pos next_pos, std::size_t wanted) const override;
  Result<bool> Replay(Rewind& rewind, std::size_t tokens_max) override;
  void Step(std::span<StepItem> items) override;
  Defragmentation StartDefragmentation() override;
  Result<std::unique_ptr<CellWork>> StartDivide(SequenceHandle sequence, PosRange range,
                                                std::int32_t divisor,
                                                const RequestTag& applied) override;
  // Shifted sequences are settled before their next step, as with --llama-shifts, if told to.
  void PrepareShifted() { prepares_shifted_ = true; }
  std::size_t CellsToPrepare(SequenceHandle sequence) override;
  Result<std::unique_ptr<CellWork>> StartPreparing(SequenceHandle sequence) override;
  Result<std::unique_ptr<EmbedWork>> StartEmbed(std::span<const TokenId> tokens) override;
  Result<std::unique_ptr<EngineWork>> StartEncode(SequenceHandle sequence,
                                                  std::span<const TokenId> tokens,
                                                  const RequestTag& applied) override;
  EngineCounters counters() const override { return {}; }

  // Every step so far.
  std::vector<std::vector<RecordedItem>> steps() const;
  // Every slice of work so far: how many tokens of it were asked for, and at which number of steps.
  struct RecordedWork {
    std::size_t tokens = 0;
    std::size_t step = 0;
  };
  std::vector<RecordedWork> works() const;
  // Texts whose embedding or encoding is begun and not over.
  std::size_t open_texts() const { return *open_texts_; }
  // Seconds that pass on the clock for each token: of a step, of work.
  struct Costs {
    double step_token = 0.001;
    double work_token = 0.001;
  };
  void SetCosts(const Costs& costs) { costs_ = costs; }
  std::chrono::steady_clock::time_point now() const { return now_; }
  // Called at the start of every step, on the engine thread.
  void OnStep(std::function<void()> hook) { on_step_ = std::move(hook); }
  // Computed after that token is the end token.
  void EndAfter(TokenId token) { end_after_ = token; }
  // From now on several tokens are likely after each, not one.
  void Spread() { spreads_ = true; }
  // Items that append this token fail with kNumerical.
  void FailAt(TokenId token) { fail_at_ = token; }

 private:
  EngineOptions options_;
  ModelConfig config_;
  ModelFingerprint fingerprint_{{1, 2, 3, 4}};
  CellLayout cell_layout_;
  ModelRopes ropes_{{}, {}};  // nothing is rotated
  std::unique_ptr<Vocabulary> vocabulary_;
  std::unique_ptr<Memory> memory_;
  MemoryStart memory_start_;
  StepProfile profile_;
  std::function<void()> on_step_;
  TokenId end_after_ = -1;
  TokenId fail_at_ = -1;
  bool spreads_ = false;
  bool prepares_shifted_ = false;
  bool has_state_ = false;
  void RecordWork(std::size_t tokens);
  void Pass(double seconds);

  StepPlan plan_;
  Costs costs_;
  std::chrono::steady_clock::time_point now_{};
  const std::shared_ptr<std::size_t> open_texts_ = std::make_shared<std::size_t>(0);
  mutable std::mutex mutex_;  // guards steps_ and works_
  std::vector<std::vector<RecordedItem>> steps_;
  std::vector<RecordedWork> works_;
};

}  // namespace kvd::test
