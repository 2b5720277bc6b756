// The engine: tokens in, logits out. Owns the weights (a mapped GGUF), the memory and the compute
// threads; knows no client.
//
// Threads: `memory()`'s verbs may be called from any thread; Step, Replay and all work (EngineWork)
// belong to one, the engine thread. Lifetime: one per daemon. Everything a step needs is allocated at creation: no
// allocation per token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "engine/defragmentation.h"
#include "engine/engine_work.h"
#include "engine/memory/memory.h"
#include "engine/numeric_form.h"
#include "kernels/kernel_table.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class ModelRopes;
class StepProfile;
class Vocabulary;
struct CellLayout;
struct ModelConfig;
struct ModelFingerprint;
struct MemoryStart;

struct EngineOptions {
  std::string model_path{};  // empty: the bundled model
  std::uint64_t cells =
      0;  // of the pool; 0: the model's trained context, at least 4096. -c 0 is the flag's error
  std::uint32_t sequence_capacity = 16384;
  std::uint32_t snapshot_capacity = 1024;
  std::uint32_t session_capacity = 1024;
  // Recurrent models: states that are kept (of sequences and of checkpoints); 0: what 1 GiB holds, 16
  // to 1024.
  std::uint32_t state_slots = 0;
  std::uint32_t checkpoint_mb = 0;       // of those, for checkpoints; 0: half of the slots
  std::uint32_t checkpoint_every = 512;  // tokens; 0: at prompt ends and forks alone
  // Layers with a sliding window keep all cells, so that every edit is possible.
  bool swa_full = false;
  std::uint32_t threads = 0;  // 0: as many as logical processors may be used
  bool pin_threads = false;   // each on a processor of its own; the engine thread is one of them
  std::uint32_t ubatch_tokens = 512;  // rows of one pass
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;
  bool deterministic = false;
  bool llama_shifts =
      false;  // shift and divide as llama.cpp of August 2026 does (docs/decisions/0005)
  std::string kernel_table{};  // "": $KVD_KERNELS, else the best
  int state_directory =
      -1;  // descriptor of a private directory for pool and meta; -1: anonymous memory
  bool state_outlives_boot = false;  // that directory does: what an earlier boot left is not used
  bool verify_pool = false;          // of what is found there, look at K, V and states too
};

// One sequence's tokens in a step.
struct StepItem {
  SequenceHandle sequence = SequenceHandle::kNone;
  Pos pos;                            // of the first token: the sequence's next position
  std::span<const TokenId> tokens{};  // at least one
  // Rows are written for tokens [first_logits_row, tokens.size()); tokens.size(): none.
  std::size_t first_logits_row = 0;
  // Row k lands at logits + k * vocab_size, written there by the last product itself. REQUIRES:
  // room for all rows.
  float* logits = nullptr;
  // Recurrent models: the state behind the last token becomes a checkpoint, and its row of logits is
  // kept if it is among those wanted. For the ends of prompts.
  bool keeps_state = false;
  RequestTag applied{};             // whose tokens they are
  layout::SamplerRecord sampler{};  // what drew the last one; flags 0: nothing did
  // Out: whether this item's cells were committed; on error nothing of it was, and the other items
  // are not affected.
  Status status{};
};

struct EngineCounters {
  std::uint64_t steps = 0;
  std::uint64_t tokens_computed = 0;
};

class Engine {
 public:
  // Errors: those of the GGUF reader and model config (named), kInvalidArgument (options),
  // kNoSpace, kUnsupported (architecture, a kernel table that this machine lacks).
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual Memory& memory() = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const kernels::KernelTable& kernels() const = 0;
  virtual const EngineOptions& options() const = 0;  // with defaults filled in
  virtual const ModelFingerprint& fingerprint() const = 0;
  virtual NumericForm numeric_form() const = 0;
  // How rows lie in a block of cells, and how keys are rotated.
  virtual const CellLayout& cell_layout() const = 0;
  virtual const ModelRopes& ropes() const = 0;
  virtual const MemoryStart& memory_start() const = 0;
  virtual std::uint64_t weight_bytes() const = 0;
  // GgufFile::BringIn, for any thread.
  virtual void BringInWeights(const std::stop_token& stop) const = 0;
  virtual std::uint64_t cell_bytes() const = 0;   // K and V of one token in all layers
  virtual std::uint64_t state_bytes() const = 0;  // recurrent state of one sequence; 0: none

  // One pass through the model over all items together; each item's status is set. The tokens of
  // all items are at most options().ubatch_tokens. A sequence may appear once. Items whose cells
  // cannot be had fail alone (kNoSpace with the numbers), the others go on. Never blocks metadata
  // verbs.
  virtual void Step(std::span<StepItem> items) = 0;
  // How many of `wanted` next tokens of a sequence that holds cell_count cells may be computed in
  // one step: steps end where a checkpoint is due, and where the rotation changes with the
  // sequence's length. Step refuses an item that passes the latter (kInvalidArgument).
  virtual std::size_t StepTokens(std::uint32_t cell_count, Pos next_pos,
                                 std::size_t wanted) const = 0;
  // Up to tokens_max tokens of a rewind's replay (RecurrentStates::BeginRewind), a ubatch at most;
  // the last one commits. Returns whether it is done. Errors: kNumerical, CommitRewind's; the
  // rewind is over then and nothing has changed.
  virtual Result<bool> Replay(Rewind& rewind, std::size_t tokens_max) = 0;
  // A defragmentation with this model's cells, to be done slice by slice between steps.
  virtual Defragmentation StartDefragmentation() = 0;
  // Memory::DividePositions with this model's rotation, in slices. Errors: those of
  // CellRewrites::Begin; of a slice: Advance's.
  virtual Result<std::unique_ptr<CellWork>> StartDivide(SequenceHandle sequence, PosRange range,
                                                        std::int32_t divisor,
                                                        const RequestTag& applied = {}) = 0;
  // Cells of the sequence that must be rewritten before its next step: those behind shifts
  // (llama_shifts), or all of them where the rotation changes with the sequence's length. 0: none, or
  // there is no such sequence. Step itself rewrites, in one go, what is left of them.
  virtual std::size_t CellsToPrepare(SequenceHandle sequence) = 0;
  // That rewrite in slices; it may have no cells. Errors: those of CellRewrites::Begin; of a slice:
  // RewriteSlice's.
  virtual Result<std::unique_ptr<CellWork>> StartPreparing(SequenceHandle sequence) = 0;
  // The embedding of a text, which may be as long as the model's trained context. Models with an
  // encoder alone. Errors: CheckEmbed's (engine/encoder.h); of a slice: kNumerical.
  virtual Result<std::unique_ptr<EmbedWork>> StartEmbed(std::span<const TokenId> tokens) = 0;
  // The text that the sequence's decoder attends to, through the encoder; its keys and values become
  // cells that forks share. Before the sequence's first token, once. Errors: CheckEncode's; kExists
  // (it has one); kInvalidArgument (it has tokens); Restores::Begin's; of a slice: kNumerical,
  // kNoSpace, Restores::Commit's. Nothing has changed then.
  virtual Result<std::unique_ptr<EngineWork>> StartEncode(SequenceHandle sequence,
                                                          std::span<const TokenId> tokens,
                                                          const RequestTag& applied = {}) = 0;
  // The same three in one go.
  Result<std::uint32_t> Divide(SequenceHandle sequence, PosRange range, std::int32_t divisor);
  Result<Embedding> Embed(std::span<const TokenId> tokens);
  Status Encode(SequenceHandle sequence, std::span<const TokenId> tokens);
  virtual EngineCounters counters() const = 0;     // any thread
  virtual const StepProfile& profile() const = 0;  // of Step; any thread may read it
};

}  // namespace kvd
