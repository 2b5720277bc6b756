// FakeEngine: an Engine over real memory with a trivial model: the likeliest token after t is
// NextToken(t).
//
// Tests of the code that uses an engine run with a FakeEngine. FakeEngine::Step appends to real
// sequences (without writing K and V) and records the tokens that it was asked to compute. OnStep
// installs a hook, with which a test can act during a step.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_home.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/rope_table.h"
#include "engine/tuning/tuning_run.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd::test {

// One item of a recorded step.
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
  bool has_state = false;   // the model has recurrent states
  bool is_encoder = false;  // the embedding of every text is {3, 4}
  bool has_cross_attention = false;
  bool has_classifier = false;  // with is_encoder: the model ranks texts; every score is 3
};

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(const FakeEngineOptions& options = {});
  ~FakeEngine() override;

  static constexpr TokenId kBos = 1;
  static constexpr TokenId kEos = 2;
  // The id of "a"; the following ids are "b" and so on. "a" follows after the last id.
  static constexpr TokenId kFirstLetter = 3;
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
  WeightReader weight_reader() const override { return WeightReader({}); }
  Status LockWeights() const override { return {}; }
  const StepProfile& profile() const override { return profile_; }
  std::uint64_t cell_bytes() const override { return 8; }
  std::uint64_t state_bytes() const override { return has_state_ ? 64 : 0; }
  std::size_t StepTokens(std::uint32_t cell_count, Pos next_pos, std::size_t wanted) const override;
  Result<bool> Replay(Rewind& rewind, std::size_t tokens_max) override;
  void Step(std::span<StepItem> items) override;
  void Rest() override {}
  Defragmentation StartDefragmentation() override;
  Result<std::unique_ptr<CellWork>> StartDivide(SequenceHandle sequence, PosRange range,
                                                std::int32_t divisor,
                                                const RequestTag& applied) override;
  // After PrepareShifted, shifted sequences are settled before their next step, as with
  // --llama-shifts.
  void PrepareShifted() { prepares_shifted_ = true; }
  std::size_t CellsToPrepare(SequenceHandle sequence) override;
  Result<std::unique_ptr<CellWork>> StartPreparing(SequenceHandle sequence) override;
  Result<std::unique_ptr<EmbedWork>> StartEmbed(std::span<const TokenId> tokens,
                                                std::optional<Pooling> pooling) override;
  Result<std::unique_ptr<EngineWork>> StartEncode(SequenceHandle sequence,
                                                  std::span<const TokenId> tokens,
                                                  const RequestTag& applied) override;
  const TuningState& tuning() const override { return tuning_; }
  std::unique_ptr<TuningRun> StartTuning(bool) override { return nullptr; }
  void UseTuning(const Tuning& tuning) override { tuning_.tuning = tuning; }
  EngineCounters counters() const override { return {}; }

  // Returns the recorded steps in order.
  std::vector<std::vector<RecordedItem>> steps() const;
  // A recorded slice of work: its number of tokens, and the number of steps before it.
  struct RecordedWork {
    std::size_t tokens = 0;
    std::size_t step = 0;
  };
  std::vector<RecordedWork> works() const;
  // The number of texts whose embedding or encoding has begun and not ended.
  std::size_t open_texts() const { return *open_texts_; }
  // Seconds by which the fake clock advances for each token of a step and of work.
  struct Costs {
    double step_token = 0.001;
    double work_token = 0.001;
  };
  void SetCosts(const Costs& costs) { costs_ = costs; }
  std::chrono::steady_clock::time_point now() const { return now_; }
  // Sets a hook that is called at the start of every step, on the engine thread.
  void OnStep(std::function<void()> hook) { on_step_ = std::move(hook); }
  // Makes the end token follow `token`.
  void EndAfter(TokenId token) { end_after_ = token; }
  // After Spread several tokens are likely after each token, instead of one.
  void Spread() { spreads_ = true; }
  // Makes items that append `token` fail with kNumerical.
  void FailAt(TokenId token) { fail_at_ = token; }
  // Makes items that append `token` fail with kNoSpace, as if a list of cells could not grow.
  void LackRoomAt(TokenId token) { lacks_room_at_ = token; }
  // Makes replays fail with kIo.
  void FailReplays() { fails_replays_ = true; }

 private:
  EngineOptions options_;
  ModelConfig config_;
  ModelFingerprint fingerprint_{{1, 2, 3, 4}};
  CellLayout cell_layout_;
  ModelRopes ropes_{{}, {}};  // no layer rotates its keys
  std::unique_ptr<Vocabulary> vocabulary_;
  std::unique_ptr<Memory> memory_;
  MemoryStart memory_start_;
  StepProfile profile_;
  TuningState tuning_;
  std::function<void()> on_step_;
  TokenId end_after_ = -1;
  TokenId fail_at_ = -1;
  TokenId lacks_room_at_ = -1;
  bool spreads_ = false;
  bool fails_replays_ = false;
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
