// The engine turns step items into ubatches: it reserves cells, runs the forward pass, and commits
// the new cells sequence by sequence. If an item fails, its sequence is unchanged and the other
// items are not affected. engine_parts.h builds the parts of an engine.
#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine_parts.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/forward/compute/thread_pool.h"
#include "engine/forward/decoder.h"
#include "engine/forward/encoder.h"
#include "engine/memory/memory.h"
#include "engine/tuning/tuning_run.h"
#include "engine/work/encoder_work.h"
#include "engine/work/engine_work.h"
#include "engine/work/pool_cells.h"
#include "engine/work/replay_slice.h"

namespace kvd {
namespace {

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(EngineParts parts)
      : options_(std::move(parts.options)),
        model_(std::move(parts.model)),
        cells_(std::move(parts.cells)),
        kernels_(*parts.kernels),
        numeric_form_(parts.numeric_form),
        tuning_(std::move(parts.tuning)),
        memory_(std::move(parts.memory.memory)),
        memory_start_(std::move(parts.memory.start)),
        pool_(options_.threads, options_.pin_threads ? UsableProcessors() : std::vector<int>{}),
        decoder_(model_->config, model_->weights, cells_, kernels_, pool_, options_.deterministic,
                 options_.ubatch_tokens, &profile_),
        encoder_(model_->config, model_->weights, kernels_, pool_, options_.deterministic),
        divider_(options_.llama_shifts ? RotationKind::kLlamaDivide : RotationKind::kExact,
                 model_->config, cells_, kernels_, decoder_.ropes(), *memory_),
        llama_shifter_(RotationKind::kLlamaShift, model_->config, cells_, kernels_,
                       decoder_.ropes(), *memory_),
        settler_(RotationKind::kExact, model_->config, cells_, kernels_, decoder_.ropes(),
                 *memory_),
        mover_(cells_, *memory_) {
    decoder_.UseChoices(tuning_.tuning.choices);
    encoder_.UseChoices(tuning_.tuning.choices);
    const std::uint32_t forms = decoder_.ropes().form_count();
    for (std::uint32_t form = 0; forms > 1 && form < forms; ++form) {
      form_changers_.emplace_back(RotationKind::kExact, model_->config, cells_, kernels_,
                                  decoder_.ropes(), *memory_, form);
    }
  }

  Memory& memory() override { return *memory_; }
  const Vocabulary& vocabulary() const override { return *model_->vocabulary; }
  const ModelConfig& config() const override { return model_->config; }
  const kernels::KernelTable& kernels() const override { return kernels_; }
  const EngineOptions& options() const override { return options_; }
  const ModelFingerprint& fingerprint() const override { return model_->fingerprint; }
  NumericForm numeric_form() const override { return numeric_form_; }
  const TuningState& tuning() const override { return tuning_; }
  const CellLayout& cell_layout() const override { return cells_; }
  const ModelRopes& ropes() const override { return decoder_.ropes(); }
  const MemoryStart& memory_start() const override { return memory_start_; }
  std::uint64_t weight_bytes() const override { return model_->weight_bytes; }
  WeightReader weight_reader() const override { return model_->file.weight_reader(); }
  Status LockWeights() const override { return model_->file.Lock(); }
  std::uint64_t cell_bytes() const override { return cells_.cell_bytes(); }
  std::uint64_t state_bytes() const override { return StateFloats(model_->config) * sizeof(float); }
  const StepProfile& profile() const override { return profile_; }
  EngineCounters counters() const override {
    return {.steps = steps_.load(std::memory_order_relaxed),
            .tokens_computed = tokens_computed_.load(std::memory_order_relaxed)};
  }

  std::unique_ptr<TuningRun> StartTuning(bool reads_weights) override {
    if (tuning_.source == ChoiceSource::kOff || tuning_.source == ChoiceSource::kDeterministic) {
      return nullptr;
    }
    auto run = std::make_unique<TuningRun>(decoder_.compute(), model_->file.tensors(),
                                           model_->weights.in_features_max, reads_weights,
                                           tuning_.defaults, options_.ubatch_tokens);
    return run->done() ? nullptr : std::move(run);
  }

  void UseTuning(const Tuning& tuning) override {
    KVD_ASSERT(counters().steps == 0);
    tuning_.tuning = tuning;
    tuning_.source = ChoiceSource::kMeasuredAtStart;
    decoder_.UseChoices(tuning.choices);
    encoder_.UseChoices(tuning.choices);
  }

  void Rest() override { pool_.Rest(); }
  void Step(std::span<StepItem> items) override {
    profile_.BeginStep();
    if (!PlanStep(items)) return;
    Compute(items);
    std::size_t tokens = 0;
    for (std::size_t s = 0; s < plan_.count; ++s) tokens += plan_.sequences[s].new_cells;
    const bool is_decode = tokens == plan_.count;
    CommitStep(items);
    profile_.EndStep(is_decode, tokens);
    steps_.fetch_add(1, std::memory_order_relaxed);
  }

  std::size_t StepTokens(std::uint32_t cell_count, Pos next_pos,
                         std::size_t wanted) const override {
    const std::uint32_t long_from = model_->config.long_rope_from;
    if (long_from != 0 && std::cmp_less(next_pos.value, long_from)) {
      wanted =
          std::min<std::size_t>(wanted, long_from - static_cast<std::uint32_t>(next_pos.value));
    }
    if (options_.checkpoint_every == 0 || state_bytes() == 0) return wanted;
    return std::min<std::size_t>(
        wanted, options_.checkpoint_every - cell_count % options_.checkpoint_every);
  }

  Result<bool> Replay(Rewind& rewind, std::size_t tokens_max) override {
    if (rewind.tokens.empty()) {  // a checkpoint at the target was found: nothing to replay
      KVD_CHECK_OK(memory_->states().CommitRewind(rewind));
      return true;
    }
    replay_.Fill(rewind, std::clamp<std::size_t>(tokens_max, 1, options_.ubatch_tokens));
    ForwardItem item{.first_logits_row = replay_.row_count(),
                     .state_from = StateOrNull(replay_.state_from()),
                     .state_to = memory_->StateBytes(replay_.state_to()),
                     .writes_cells = false};
    decoder_.Run(replay_.plan(), *memory_, {&item, 1});
    tokens_computed_.fetch_add(replay_.row_count(), std::memory_order_relaxed);
    if (!item.finite) {
      rewind.reservation.End();
      return Fail(Code::kNumerical, "a state is not finite; the sequence is unchanged");
    }
    if (!replay_.Advance(rewind)) return false;
    KVD_CHECK_OK(memory_->states().CommitRewind(rewind));
    return true;
  }

  Defragmentation StartDefragmentation() override { return {*memory_, mover_, settler_}; }

  Result<std::unique_ptr<CellWork>> StartDivide(SequenceHandle sequence, PosRange range,
                                                std::int32_t divisor,
                                                const RequestTag& applied) override {
    KVD_TRY(CellRewrite rewrite, memory_->rewrites().Begin({.handle = sequence,
                                                            .kind = RewriteRequest::Kind::kDivide,
                                                            .range = range,
                                                            .divisor = divisor,
                                                            .applied = applied}));
    return std::make_unique<RewriteWork>(*memory_, divider_, std::move(rewrite));
  }

  std::size_t CellsToPrepare(SequenceHandle sequence) override {
    return PreparationOf(sequence).cells;
  }

  Result<std::unique_ptr<CellWork>> StartPreparing(SequenceHandle sequence) override {
    const Preparation preparation = PreparationOf(sequence);
    CellRewrite rewrite;
    if (preparation.cells > 0) {
      KVD_TRY(rewrite, memory_->rewrites().Begin(preparation.request));
    }
    return std::make_unique<RewriteWork>(
        *memory_, preparation.rotator != nullptr ? *preparation.rotator : settler_,
        std::move(rewrite));
  }

  Result<std::unique_ptr<EmbedWork>> StartEmbed(std::span<const TokenId> tokens,
                                                std::optional<Pooling> wanted) override {
    KVD_CHECK_OK(CheckEmbed(model_->config, tokens, wanted));
    KVD_TRY(const Pooling pooling, PoolingFor(model_->config, wanted));
    return std::make_unique<TextEmbedWork>(
        encoder_, std::vector<TokenId>(tokens.begin(), tokens.end()), pooling, tokens_computed_);
  }

  Result<std::unique_ptr<EngineWork>> StartEncode(SequenceHandle sequence,
                                                  std::span<const TokenId> tokens,
                                                  const RequestTag& applied) override {
    KVD_CHECK_OK(CheckEncode(model_->config, tokens));
    KVD_CHECK_OK(CheckNothingEncoded(*memory_, sequence));
    KVD_TRY(
        Restore restore,
        memory_->restores().Begin(
            {.handle = sequence, .cross_tokens = tokens, .grows_later = true, .applied = applied}));
    return std::make_unique<TextEncodeWork>(encoder_, model_->config, cells_, *memory_,
                                            std::vector<TokenId>(tokens.begin(), tokens.end()),
                                            std::move(restore), tokens_computed_);
  }

 private:
  struct Preparation {
    RewriteRequest request;
    CellRotator* rotator = nullptr;
    std::uint32_t cells = 0;
  };

  // Returns the first rewrite that the sequence needs before its next step. `cells` is 0 if the
  // sequence needs no rewrite.
  Preparation PreparationOf(SequenceHandle sequence) {
    if (!options_.llama_shifts && form_changers_.empty()) return {};
    const Result<SequenceInfo> info = memory_->sequences().Query(sequence);
    if (!info) return {};
    for (Preparation& preparation : PreparationsAt(sequence, info->next_pos)) {
      if (preparation.rotator == nullptr) continue;
      preparation.cells = memory_->rewrites().Count(preparation.request).value_or(0);
      if (preparation.cells > 0) return preparation;
    }
    return {};
  }

  // The rewrites that a step at position `pos` may need, in the order in which they are done. An
  // entry of the array without a rotator is unused.
  std::array<Preparation, 2> PreparationsAt(SequenceHandle sequence, Pos pos) {
    std::array<Preparation, 2> preparations;
    if (options_.llama_shifts) {  // llama.cpp shifts the keys of a sequence before the next decode
      preparations[0].request = {.handle = sequence,
                                 .kind = RewriteRequest::Kind::kSettle,
                                 .range = {},
                                 .scope = SettleScope::kAll};
      preparations[0].rotator = &llama_shifter_;
    }
    if (!form_changers_.empty()) {
      // When a sequence's length crosses the limit between two rotations, all its keys change to
      // the other rotation.
      const std::uint32_t form = KeyFormAt(model_->config, pos.value);
      preparations[1].request = {.handle = sequence,
                                 .kind = RewriteRequest::Kind::kChangeForm,
                                 .range = {},
                                 .key_form = form};
      preparations[1].rotator = &form_changers_[form];
    }
    return preparations;
  }

  // Performs the rewrites that the item's sequence needs and that the caller has not done with
  // StartPreparing.
  Status Prepare(const StepItem& item) {
    for (const Preparation& preparation : PreparationsAt(item.sequence, item.pos)) {
      if (preparation.rotator == nullptr) continue;
      KVD_TRY(CellRewrite rewrite, memory_->rewrites().Begin(preparation.request));
      RewriteWork work(*memory_, *preparation.rotator, std::move(rewrite));
      while (work.tokens_left() > 0) KVD_CHECK_OK(work.Advance(work.tokens_left()));
    }
    return {};
  }

  const std::byte* StateOrNull(std::uint32_t slot) {
    return slot == layout::kNoSlot ? nullptr : memory_->StateBytes(slot);
  }

  Status CheckItem(const StepItem& item) const {
    KVD_CHECK_OK(CheckDecoder(model_->config));
    if (item.tokens.empty()) return Fail(Code::kInvalidArgument, "tokens: none given");
    const std::uint32_t positions = model_->config.position_count;
    const std::int64_t end = item.pos.value + static_cast<std::int64_t>(item.tokens.size());
    if (positions != 0 && end > positions) {
      return Fail(Code::kInvalidArgument, "tokens: ", item.tokens.size(), " from position ",
                  item.pos.value, ": the model has embeddings of ", positions, " positions");
    }
    if (FormOf(item, 0) != FormOf(item, item.tokens.size() - 1)) {
      return Fail(Code::kInvalidArgument, "tokens: ", item.tokens.size(), " from position ",
                  item.pos.value, ": a step may not pass position ", model_->config.long_rope_from,
                  ", where the rotation changes");
    }
    for (std::size_t i = 0; i < item.tokens.size(); ++i) {
      const TokenId token = item.tokens[i];
      if (token < 0 || static_cast<std::uint32_t>(token) >= model_->config.vocab_size) {
        return Fail(Code::kInvalidArgument, "token ", i, ": id ", token, ", the vocabulary has ",
                    model_->config.vocab_size);
      }
    }
    return {};
  }

  // The form that the keys of a sequence must have when the sequence ends with token number `token`
  // of the item.
  std::uint32_t FormOf(const StepItem& item, std::size_t token) const {
    return KeyFormAt(model_->config, item.pos.value + static_cast<std::int64_t>(token));
  }

  // Reserves cells for the items and sets the status of each item whose cells cannot be reserved.
  // planned_[i] is the index of the item that plan_.sequences[i] belongs to. Returns false if no
  // item is left.
  bool Plan(std::span<StepItem> items) {
    plan_.count = 0;
    planned_.clear();
    std::size_t rows = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].status = CheckItem(items[i]);
      if (items[i].status) items[i].status = Prepare(items[i]);
      if (!items[i].status) continue;
      rows += items[i].tokens.size();
      planned_.push_back(i);
    }
    KVD_ASSERT(rows <= options_.ubatch_tokens);
    while (!planned_.empty()) {
      requests_.clear();
      for (const std::size_t i : planned_) {
        requests_.push_back({.handle = items[i].sequence,
                             .pos = items[i].pos,
                             .tokens = items[i].tokens,
                             .key_form = FormOf(items[i], 0),
                             .applied = items[i].applied,
                             .sampler = items[i].sampler});
      }
      const Status reserved = memory_->steps().Reserve(requests_, plan_);
      if (reserved) return true;
      const std::size_t failed = std::min(plan_.failed, requests_.size() - 1);
      items[planned_[failed]].status = reserved;
      planned_.erase(planned_.begin() + static_cast<std::ptrdiff_t>(failed));
    }
    return false;
  }

  bool PlanStep(std::span<StepItem> items) {
    const StepProfile::Scope scope(&profile_, StepPhase::kMemory);
    return Plan(items);
  }

  void CommitStep(std::span<StepItem> items) {
    const StepProfile::Scope scope(&profile_, StepPhase::kMemory);
    Commit(items);
    memory_->steps().EndStep(plan_);
  }

  void Compute(std::span<StepItem> items) {
    forward_items_.clear();
    for (std::size_t s = 0; s < planned_.size(); ++s) {
      const StepItem& item = items[planned_[s]];
      const StepSequence& sequence = plan_.sequences[s];
      forward_items_.push_back({.first_logits_row = item.first_logits_row,
                                .logits = item.logits,
                                .state_from = StateOrNull(sequence.state_from),
                                .state_to = sequence.state_to == layout::kNoSlot
                                                ? nullptr
                                                : memory_->StateBytes(sequence.state_to)});
    }
    decoder_.Run(plan_, *memory_, forward_items_);
  }

  void Commit(std::span<StepItem> items) {
    for (std::size_t s = 0; s < plan_.count; ++s) {
      StepItem& item = items[planned_[s]];
      if (forward_items_[s].finite) {
        item.status = memory_->steps().Commit(plan_, s);
      } else {
        memory_->steps().Abandon(plan_, s);
        item.status = Fail(Code::kNumerical,
                           "a key, value, state or logit is not finite; no cell was committed");
      }
      if (!item.status) continue;
      tokens_computed_.fetch_add(item.tokens.size(), std::memory_order_relaxed);
      if (plan_.sequences[s].state_to != layout::kNoSlot) KeepState(item, plan_.sequences[s]);
    }
  }

  // Checkpoints and kept logits are caches, so a failure to keep one does not fail the step.
  void KeepState(const StepItem& item, const StepSequence& sequence) {
    const std::uint32_t cell_count = sequence.past_cells + sequence.new_cells;
    const bool is_due =
        options_.checkpoint_every != 0 && cell_count % options_.checkpoint_every == 0;
    if (item.keeps_state || is_due) (void)memory_->states().KeepCheckpoint(item.sequence);
    if (item.keeps_state && item.first_logits_row < item.tokens.size()) {
      const std::size_t last = item.tokens.size() - 1 - item.first_logits_row;
      (void)memory_->states().KeepLogits(item.sequence,
                                         item.logits + last * model_->config.vocab_size);
    }
  }

  const EngineOptions options_;
  const std::unique_ptr<LoadedModel> model_;
  const CellLayout cells_;
  const kernels::KernelTable& kernels_;
  const NumericForm numeric_form_;
  TuningState tuning_;
  const std::unique_ptr<Memory> memory_;
  const MemoryStart memory_start_;
  ThreadPool pool_;
  StepProfile profile_;
  Decoder decoder_;
  Encoder encoder_;
  ModelCellRotator divider_;
  ModelCellRotator llama_shifter_;
  // One rotator for each form of keys, which changes keys to the form; empty if the model has only
  // one form.
  std::vector<ModelCellRotator> form_changers_;
  ModelCellRotator settler_;
  PoolCellMover mover_;
  // Buffers of the current step, kept so that nothing is allocated per token.
  StepPlan plan_;
  ReplaySlice replay_;
  std::vector<std::size_t> planned_;
  std::vector<AppendRequest> requests_;
  std::vector<ForwardItem> forward_items_;
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> tokens_computed_{0};
};

}  // namespace

Result<std::uint32_t> Engine::Divide(SequenceHandle sequence, PosRange range,
                                     std::int32_t divisor) {
  KVD_TRY(const std::unique_ptr<CellWork> work, StartDivide(sequence, range, divisor));
  while (work->tokens_left() > 0) KVD_CHECK_OK(work->Advance(work->tokens_left()));
  return work->cell_count();
}

Result<Embedding> Engine::Embed(std::span<const TokenId> tokens, std::optional<Pooling> pooling) {
  KVD_TRY(const std::unique_ptr<EmbedWork> work, StartEmbed(tokens, pooling));
  while (work->tokens_left() > 0) KVD_CHECK_OK(work->Advance(work->tokens_left()));
  return work->TakeEmbedding();
}

Status Engine::Encode(SequenceHandle sequence, std::span<const TokenId> tokens) {
  KVD_TRY(const std::unique_ptr<EngineWork> work, StartEncode(sequence, tokens));
  while (work->tokens_left() > 0) KVD_CHECK_OK(work->Advance(work->tokens_left()));
  return {};
}

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& wanted) {
  KVD_TRY(EngineParts parts, BuildEngineParts(wanted));
  return std::make_unique<EngineImpl>(std::move(parts));
}

}  // namespace kvd
