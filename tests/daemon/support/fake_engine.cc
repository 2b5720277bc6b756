#include "tests/daemon/support/fake_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/forward/encoder.h"
#include "engine/memory/holds_and_restores.h"
#include "engine/memory/memory_segments.h"
#include "engine/work/encoder_work.h"
#include "engine/work/engine_work.h"
#include "tests/support/into.h"

namespace kvd::test {
namespace {

VocabularyData MakeVocabulary(const FakeEngineOptions& options) {
  VocabularyData data;
  data.vocab_size = options.vocab_size;
  data.model = "no_vocab";
  if (!options.has_tokenizer) return data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.token_types = {2, 3, 3};
  for (std::uint32_t id = FakeEngine::kFirstLetter; id < options.vocab_size; ++id) {
    const auto letter = static_cast<char>('a' + (id - FakeEngine::kFirstLetter));
    data.tokens.push_back(letter <= 'z' ? std::string(1, letter) : "[" + std::to_string(id) + "]");
    data.token_types.push_back(1);
  }
  data.scores.assign(data.tokens.size(), 0.0f);
  data.bos = FakeEngine::kBos;
  data.eos = FakeEngine::kEos;
  data.unk = 0;
  data.add_bos = false;
  data.add_space_prefix = false;
  return data;
}

template <class T>
T Must(Result<T> result) {
  if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
  KVD_ASSERT(result.has_value());
  return std::move(*result);
}

}  // namespace

FakeEngine::FakeEngine(const FakeEngineOptions& options) : has_state_(options.has_state) {
  options_.cells = options.cells;
  options_.ubatch_tokens = options.ubatch_tokens;
  options_.threads = 1;
  config_.name = "fake";
  config_.vocab_size = options.vocab_size;
  config_.context_length = 4096;
  config_.layer_count = 1;
  config_.head_dim_k = 2;
  config_.head_dim_v = 2;
  config_.has_rope = false;
  if (options.is_encoder) {
    config_.has_decoder = false;
    config_.embedding_size = 2;
    config_.encoder.layer_count = 1;
    config_.encoder.pooling = Pooling::kMean;
    config_.encoder.classifier.is_present = options.has_classifier;
  }
  if (options.has_cross_attention) {
    config_.encoder.layer_count = 1;
    config_.decoder_start_token = kBos;
  }
  vocabulary_ = Must(Vocabulary::Create(MakeVocabulary(options)));
  options_.checkpoint_every = 16;
  MemoryOptions memory{.groups = {{.cells = options.cells,
                                   .layers = {{.kv_head_count = 1, .k_dim = 2, .v_dim = 2}}}},
                       .sequence_capacity = options.sequence_capacity,
                       .snapshot_capacity = options.snapshot_capacity,
                       .session_capacity = 16};
  if (options.has_cross_attention) {
    memory.groups.push_back(
        {.cells = options.cells, .layers = memory.groups[0].layers, .is_cross = true});
  }
  if (has_state_) {
    memory.state_bytes = 64;
    memory.state_slots = 32;
    memory.checkpoint_slots = 16;
    memory.logits_bytes = options.vocab_size * sizeof(float);
    memory.logits_rows = 4;
  }
  const MemoryGeometry geometry = Must(ComputeGeometry(memory));
  cell_layout_ = {.layers = geometry.groups[0].layers, .groups = {0}};
  memory_ = Memory::Create(Must(MemorySegments::CreateAnonymous(geometry)));
}

FakeEngine::~FakeEngine() = default;

const kernels::KernelTable& FakeEngine::kernels() const {
  static const kernels::KernelTable table = [] {
    kernels::KernelTable made{};
    made.name = "fake";
    return made;
  }();
  return table;
}

TokenId FakeEngine::NextToken(TokenId token) const {
  if (token == end_after_) return kEos;
  const auto letters = static_cast<TokenId>(config_.vocab_size) - kFirstLetter;
  return kFirstLetter + (std::max(token, kFirstLetter) - kFirstLetter + 1) % letters;
}

void FakeEngine::Step(std::span<StepItem> items) {
  if (on_step_) on_step_();
  {
    const std::lock_guard lock(mutex_);
    auto& step = steps_.emplace_back();
    for (const StepItem& item : items) {
      step.push_back(
          {item.sequence, item.tokens.size(), item.first_logits_row < item.tokens.size()});
      Pass(costs_.step_token * static_cast<double>(item.tokens.size()));
    }
  }
  for (StepItem& item : items) {
    const AppendRequest request{.handle = item.sequence,
                                .pos = item.pos,
                                .tokens = item.tokens,
                                .applied = item.applied,
                                .sampler = item.sampler};
    if (std::ranges::find(item.tokens, lacks_room_at_) != item.tokens.end()) {
      item.status = Fail(Code::kNoSpace, "no list units");
      continue;
    }
    item.status = memory_->steps().Reserve(std::span(&request, 1), plan_);
    if (!item.status) continue;
    if (std::ranges::find(item.tokens, fail_at_) != item.tokens.end()) {
      memory_->steps().Abandon(plan_, 0);
      item.status = Fail(Code::kNumerical, "not finite");
    } else {
      item.status = memory_->steps().Commit(plan_, 0);
    }
    memory_->steps().EndStep(plan_);
    for (std::size_t row = item.first_logits_row; row < item.tokens.size(); ++row) {
      float* const logits = item.logits + (row - item.first_logits_row) * config_.vocab_size;
      std::fill_n(logits, config_.vocab_size, 0.0f);
      logits[NextToken(item.tokens[row])] = spreads_ ? 3.0f : 10.0f;
      if (!spreads_) continue;
      for (std::uint32_t token = kFirstLetter; token < config_.vocab_size; ++token) {
        const auto from = static_cast<std::uint32_t>(item.tokens[row]);
        logits[token] += static_cast<float>((from * 31 + token * 17) % 13) * 0.25f;
      }
    }
    if (item.status && item.keeps_state && has_state_) {
      (void)memory_->states().KeepCheckpoint(item.sequence);
      const std::size_t rows = item.tokens.size() - item.first_logits_row;
      if (rows > 0) {
        (void)memory_->states().KeepLogits(item.sequence,
                                           item.logits + (rows - 1) * config_.vocab_size);
      }
    }
  }
}

std::size_t FakeEngine::StepTokens(std::uint32_t cell_count, Pos, std::size_t wanted) const {
  if (!has_state_) return wanted;
  return std::min<std::size_t>(wanted,
                               options_.checkpoint_every - cell_count % options_.checkpoint_every);
}

// Replays one token per call.
Result<bool> FakeEngine::Replay(Rewind& rewind, std::size_t) {
  if (fails_replays_) return Fail(Code::kIo, "the replay failed");
  if (on_step_) on_step_();
  RecordWork(1);
  if (rewind.done < rewind.tokens.size()) {
    rewind.last_slot = rewind.slots[rewind.done % 2];
    ++rewind.done;
  }
  if (rewind.done < rewind.tokens.size()) return false;
  KVD_CHECK_OK(memory_->states().CommitRewind(rewind));
  return true;
}

namespace {

struct NoRotation final : CellRotator {
  Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                    Pos) override {
    return {};
  }
};

// Divides positions and reports each slice to the fake engine.
class FakeDivide final : public CellWork {
 public:
  using Record = std::function<void(std::size_t)>;
  FakeDivide(Memory& memory, CellRewrite rewrite, Record record)
      : record_(std::move(record)), work_(memory, rotator_, std::move(rewrite)) {}
  std::size_t tokens_left() const override { return work_.tokens_left(); }
  Result<bool> Advance(std::size_t tokens) override {
    record_(std::min(tokens, tokens_left()));
    return work_.Advance(tokens);
  }
  std::uint32_t cell_count() const override { return work_.cell_count(); }

 private:
  NoRotation rotator_;
  const Record record_;
  RewriteWork work_;
};

// A text whose tokens all take the same time. `finish` is called after the last token.
class FakeText final : public EmbedWork {
 public:
  using Record = std::function<void(std::size_t)>;
  FakeText(std::size_t tokens, std::shared_ptr<std::size_t> open, Record record,
           std::function<Status()> finish)
      : left_(tokens),
        open_(std::move(open)),
        record_(std::move(record)),
        finish_(std::move(finish)) {
    ++*open_;
  }
  ~FakeText() override { --*open_; }
  std::size_t tokens_left() const override { return left_; }
  Result<bool> Advance(std::size_t tokens) override {
    const std::size_t done = std::min(tokens, left_);
    record_(done);
    left_ -= done;
    if (left_ > 0) return false;
    if (finish_) KVD_CHECK_OK(finish_());
    return true;
  }
  Embedding TakeEmbedding() override {
    return {.values = {3.0f, 4.0f}, .row_count = 1, .width = 2};
  }

 private:
  std::size_t left_;
  const std::shared_ptr<std::size_t> open_;
  const Record record_;
  const std::function<Status()> finish_;
};

}  // namespace

Result<std::unique_ptr<CellWork>> FakeEngine::StartDivide(SequenceHandle sequence, PosRange range,
                                                          std::int32_t divisor,
                                                          const RequestTag& applied) {
  CellRewrite rewrite;
  KVD_CHECK_OK(Into(memory_->rewrites().Begin({.handle = sequence,
                                               .kind = RewriteRequest::Kind::kDivide,
                                               .range = range,
                                               .divisor = divisor,
                                               .applied = applied}),
                    &rewrite));
  return std::make_unique<FakeDivide>(*memory_, std::move(rewrite),
                                      [this](std::size_t tokens) { RecordWork(tokens); });
}

std::size_t FakeEngine::CellsToPrepare(SequenceHandle sequence) {
  if (!prepares_shifted_) return 0;
  return memory_->rewrites()
      .Count({.handle = sequence, .kind = RewriteRequest::Kind::kSettle, .range = {}})
      .value_or(0);
}

Result<std::unique_ptr<CellWork>> FakeEngine::StartPreparing(SequenceHandle sequence) {
  CellRewrite rewrite;
  KVD_CHECK_OK(Into(memory_->rewrites().Begin(
                        {.handle = sequence, .kind = RewriteRequest::Kind::kSettle, .range = {}}),
                    &rewrite));
  return std::make_unique<FakeDivide>(*memory_, std::move(rewrite),
                                      [this](std::size_t tokens) { RecordWork(tokens); });
}

Result<std::unique_ptr<EmbedWork>> FakeEngine::StartEmbed(std::span<const TokenId> tokens,
                                                          std::optional<Pooling> pooling) {
  KVD_CHECK_OK(CheckEmbed(config_, tokens, pooling));
  return std::make_unique<FakeText>(
      tokens.size(), open_texts_, [this](std::size_t done) { RecordWork(done); }, nullptr);
}

Result<std::unique_ptr<EngineWork>> FakeEngine::StartEncode(SequenceHandle sequence,
                                                            std::span<const TokenId> tokens,
                                                            const RequestTag& applied) {
  KVD_CHECK_OK(CheckEncode(config_, tokens));
  KVD_CHECK_OK(CheckNothingEncoded(*memory_, sequence));
  std::vector<TokenId> text(tokens.begin(), tokens.end());
  const auto finish = [this, sequence, text = std::move(text), applied]() -> Status {
    Restore restore;
    KVD_CHECK_OK(Into(
        memory_->restores().Begin({.handle = sequence, .cross_tokens = text, .applied = applied}),
        &restore));
    return memory_->restores().Commit(restore);
  };
  return std::make_unique<FakeText>(
      tokens.size(), open_texts_, [this](std::size_t done) { RecordWork(done); }, finish);
}

void FakeEngine::Pass(double seconds) {
  now_ +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

void FakeEngine::RecordWork(std::size_t tokens) {
  const std::lock_guard lock(mutex_);
  works_.push_back({tokens, steps_.size()});
  Pass(costs_.work_token * static_cast<double>(tokens));
}

std::vector<FakeEngine::RecordedWork> FakeEngine::works() const {
  const std::lock_guard lock(mutex_);
  return works_;
}

Defragmentation FakeEngine::StartDefragmentation() {
  struct Nothing final : CellRotator, CellMover {
    Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                      Pos) override {
      return {};
    }
    void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                   std::uint32_t) override {}
  };
  static Nothing nothing;
  return {*memory_, nothing, nothing};
}

std::vector<std::vector<RecordedItem>> FakeEngine::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

}  // namespace kvd::test
