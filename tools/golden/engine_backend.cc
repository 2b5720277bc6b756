// A Backend with an engine in this process, whose memory is anonymous.
#include <map>

#include "engine/engine.h"
#include "engine/forward/encoder.h"
#include "engine/model/model_config.h"
#include "kernels/data_type.h"
#include "tools/golden/backend.h"

namespace kvd::golden {
namespace {

Result<kernels::DataType> CellType(const std::string& name) {
  for (const auto type : kernels::kCellTypes) {
    if (name == kernels::DataTypeName(type)) return type;
  }
  return Fail(Code::kInvalidArgument, "cell type '", name,
              "': must be f32, f16, bf16, q8_0 or q4_0");
}

class EngineBackend : public Backend {
 public:
  explicit EngineBackend(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  Status Reset() override {
    for (const auto& [name, handle] : handles_) KVD_CHECK_OK(memory().sequences().Drop(handle));
    handles_.clear();
    return {};
  }

  Status Decode(const Step& step, std::vector<float>* logits) override {
    KVD_TRY(const SequenceHandle handle, Named(step.sequence));
    std::span<const TokenId> tokens = step.tokens;
    std::int32_t pos = step.pos;
    std::size_t wanted_from = step.all_rows ? 0 : tokens.size() - 1;
    // The tokens are computed in several steps if a batch of the script is larger than the engine's
    // largest step.
    for (std::size_t done = 0; done < tokens.size();) {
      KVD_TRY(const SequenceInfo info, memory().sequences().Query(handle));
      const std::size_t take = engine_->StepTokens(
          info.cell_count, Pos{pos},
          std::min<std::size_t>(tokens.size() - done, engine_->options().ubatch_tokens));
      const std::size_t first_row = std::min(take, wanted_from > done ? wanted_from - done : 0);
      StepItem item{.sequence = handle,
                    .pos = Pos{pos},
                    .tokens = tokens.subspan(done, take),
                    .first_logits_row = first_row};
      const std::size_t old_floats = logits->size();
      logits->resize(old_floats + (take - first_row) * vocab_size());
      item.logits = logits->data() + old_floats;
      engine_->Step({&item, 1});
      if (!item.status) return item.status;
      done += take;
      pos += static_cast<std::int32_t>(take);
    }
    return {};
  }

  Status DecodeBatch(const Step& step, std::vector<float>* logits) override {
    const std::size_t old_floats = logits->size();
    logits->resize(old_floats + step.rows.size() * vocab_size());
    std::vector<StepItem> items;
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      KVD_TRY(const SequenceHandle handle, Named(step.rows[i].sequence));
      items.push_back({.sequence = handle,
                       .pos = Pos{step.rows[i].pos},
                       .tokens = {&step.rows[i].token, 1},
                       .logits = logits->data() + old_floats + i * vocab_size()});
    }
    engine_->Step(items);
    for (const StepItem& item : items) {
      if (!item.status) return item.status;
    }
    return {};
  }

  Status Embed(const Step& step, std::vector<float>* rows) override {
    KVD_TRY(const Embedding embedding, engine_->Embed(step.tokens, PoolingByName(step.pooling)));
    rows->insert(rows->end(), embedding.values.begin(), embedding.values.end());
    return {};
  }

  Status Encode(const Step& step) override {
    KVD_TRY(const SequenceHandle handle, Named(step.sequence));
    return engine_->Encode(handle, step.tokens);
  }

  Status Edit(const Step& step) override {
    const bool whole = step.p0 < 0 && step.p1 < 0;
    switch (step.op) {
      case Op::kCopy: {
        KVD_TRY(const SequenceHandle source, Named(step.sequence));
        if (whole && !handles_.contains(step.destination)) {
          SequenceHandle fork;
          KVD_CHECK_OK(memory().sequences().Fork(source, {}, {&fork, 1}));
          handles_[step.destination] = fork;
          return {};
        }
        KVD_TRY(const SequenceHandle destination, Named(step.destination));
        KVD_TRY([[maybe_unused]] const auto cells,
                memory().sequences().CopyRange(source, destination, RangeOf(step)));
        return {};
      }
      case Op::kRemove: {
        KVD_TRY(const SequenceHandle handle, Named(step.sequence));
        KVD_TRY([[maybe_unused]] const auto cells,
                memory().sequences().RemoveRange(handle, RangeOf(step)));
        return {};
      }
      case Op::kKeep: {
        KVD_TRY(const SequenceHandle kept, Named(step.sequence));
        KVD_CHECK_OK(memory().sequences().Keep(kept, SessionId::kNone));
        handles_ = {{step.sequence, kept}};
        return {};
      }
      case Op::kAdd: {
        KVD_TRY(const SequenceHandle handle, Named(step.sequence));
        return memory().sequences().AddPositions(handle, RangeOf(step), step.number);
      }
      case Op::kDivide: {
        KVD_TRY(const SequenceHandle handle, Named(step.sequence));
        KVD_TRY([[maybe_unused]] const auto cells,
                engine_->Divide(handle, RangeOf(step), step.number));
        return {};
      }
      default: return Fail(Code::kUnsupported, "this model has no such operation yet");
    }
  }

 private:
  Memory& memory() { return engine_->memory(); }
  std::size_t vocab_size() const { return engine_->config().vocab_size; }

  // Returns the sequence that the script calls `name`; creates it at its first use.
  Result<SequenceHandle> Named(std::int64_t name) {
    if (const auto found = handles_.find(name); found != handles_.end()) return found->second;
    KVD_TRY(const SequenceHandle handle, memory().sequences().Create({}));
    handles_[name] = handle;
    return handle;
  }

  std::unique_ptr<Engine> engine_;
  std::map<std::int64_t, SequenceHandle> handles_;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeEngineBackend(const BackendOptions& options) {
  EngineOptions engine_options{.model_path = options.model_path,
                               .cells = 4096,
                               .swa_full = true,
                               .deterministic = options.deterministic,
                               .llama_shifts = options.llama_shifts};
  KVD_TRY(engine_options.k_type, CellType(options.k_type));
  KVD_TRY(engine_options.v_type, CellType(options.v_type));
  KVD_TRY(std::unique_ptr<Engine> engine, Engine::Create(engine_options));
  return std::make_unique<EngineBackend>(std::move(engine));
}

}  // namespace kvd::golden
