// Engine: computes logits from tokens. The engine owns the weights (a mapped GGUF file), the memory
// and the compute threads, and does not know about clients.
//
// Threads: the verbs of memory() may be called from any thread; Step, Replay and all work
// (EngineWork) run on one thread, the engine thread. Lifetime: one engine per daemon. Everything
// that a step needs is allocated when the engine is created; no memory is allocated per token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory.h"
#include "engine/model/numeric_form.h"
#include "engine/model/weight_reader.h"
#include "engine/work/defragmentation.h"
#include "engine/work/engine_work.h"
#include "kernels/kernel_table.h"

namespace kvd {

class ModelRopes;
class StepProfile;
class Vocabulary;
struct CellLayout;
struct ModelConfig;
struct ModelFingerprint;
struct MemoryStart;
struct Tuning;
struct TuningState;
class TuningRun;

struct EngineOptions {
  std::string model_path{};  // a file or the first of its parts; empty: the bundled model
  // Size of the pool in cells. 0: the model's trained context, at least 4096. (The option -c of kvd
  // rejects 0.)
  std::uint64_t cells = 0;
  // The most sequences. 0: four for each cell, from 1024 to 16384, and more if a stored state has
  // more.
  std::uint32_t sequence_capacity = 0;
  std::uint32_t snapshot_capacity = 1024;
  std::uint32_t session_capacity = 1024;
  // Recurrent models: number of slots for states of sequences and checkpoints. 0: as many as fit in
  // 1 GiB, but at least 16 and at most 1024.
  std::uint32_t state_slots = 0;
  std::uint32_t checkpoint_mb = 0;  // MiB of state slots for checkpoints; 0: half of the slots
  // Tokens between checkpoints; 0: only at prompt ends and forks.
  std::uint32_t checkpoint_every = 512;
  // True: layers with a sliding window keep all cells, so that every edit is possible.
  bool swa_full = false;
  std::uint32_t threads = 0;  // 0: one per usable logical processor, at most 256
  // Pin each thread, including the engine thread, to a different processor.
  bool pin_threads = false;
  std::uint32_t ubatch_tokens = 512;  // the most rows (tokens) of one pass
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;
  bool deterministic = false;
  // False: the choices of products are the defaults, and StartTuning returns null.
  bool tunes = true;
  // Shift and divide positions as llama.cpp of August 2026 does (docs/decisions/0005).
  bool llama_shifts = false;
  std::string kernel_table{};  // empty: $KVD_KERNELS, or the best that the machine supports
  // Descriptor of a private directory for `pool` and `meta`; -1: anonymous memory.
  int state_directory = -1;
  // True: state_directory survives a reboot; files from before the last boot are not used.
  bool state_outlives_boot = false;
  // Opens the directory for the state of a model, which replaces state_directory. Called once, when
  // the model is read. The descriptor stays open as long as the engine exists. May be empty.
  std::function<Result<int>(const ModelFingerprint& model)> open_state{};
  bool starts_cold = false;  // the state found in the directory is not used
  // Whether the client of a stored session may still return (MemoryHome::may_return).
  std::function<bool(const SessionEntry& session)> may_return{};
  bool verify_pool = false;  // at the start, check the K, V and states found in state_directory
  // Called when the model's files are validated, before the vocabulary and the memory are made, so
  // that another thread can read the weights meanwhile. May be empty.
  std::function<void(const WeightReader& weights)> on_weights{};
};

// The tokens of one sequence in a step.
struct StepItem {
  SequenceHandle sequence = SequenceHandle::kNone;
  Pos pos;  // position of the first token; must be the sequence's next position
  std::span<const TokenId> tokens{};  // at least one
  // Rows of logits are written for tokens [first_logits_row, tokens.size()). tokens.size(): none.
  std::size_t first_logits_row = 0;
  // Address of the written rows of logits: the last matrix product writes the k-th row directly to
  // logits + k * vocab_size. REQUIRES: space for all rows.
  float* logits = nullptr;
  // Recurrent models: the state after the last token becomes a checkpoint, and the last token's row
  // of logits is kept if it is among the written rows. Set for the ends of prompts.
  bool keeps_state = false;
  RequestTag applied{};             // the request that the tokens belong to
  layout::SamplerRecord sampler{};  // state of the sampler that drew the last token; flags 0: none
  // Output: success if the cells of this item were committed. On error no cell of this item was
  // committed; other items are not affected.
  Status status{};
};

struct EngineCounters {
  std::uint64_t steps = 0;
  std::uint64_t tokens_computed = 0;
};

class Engine {
 public:
  // Errors: those of the GGUF reader and of the model config, naming the field; kInvalidArgument
  // (options); kNoSpace; kUnsupported (architecture, a kernel table that this machine does not
  // support).
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual Memory& memory() = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const kernels::KernelTable& kernels() const = 0;
  virtual const EngineOptions& options() const = 0;  // with defaults filled in
  virtual const ModelFingerprint& fingerprint() const = 0;
  virtual NumericForm numeric_form() const = 0;
  virtual const TuningState& tuning() const = 0;
  // The layout of rows in a block of cells, and the rotations of keys.
  virtual const CellLayout& cell_layout() const = 0;
  virtual const ModelRopes& ropes() const = 0;
  virtual const MemoryStart& memory_start() const = 0;
  virtual std::uint64_t weight_bytes() const = 0;
  // A reader of the mapped weights. Any thread.
  virtual WeightReader weight_reader() const = 0;
  // Keeps weights in memory that are there already or are loaded later (GgufFile::Lock). Any
  // thread.
  virtual Status LockWeights() const = 0;
  virtual std::uint64_t cell_bytes() const = 0;   // K and V of one token in all layers
  virtual std::uint64_t state_bytes() const = 0;  // recurrent state of one sequence; 0: none

  // Computes all items in one pass through the model and sets the status of each item. An item
  // whose cells cannot be reserved fails alone (kNoSpace with the numbers); the other items are
  // computed. A step never blocks operations on metadata. REQUIRES: the items together have at most
  // options().ubatch_tokens tokens; each sequence appears at most once.
  virtual void Step(std::span<StepItem> items) = 0;
  // Informs the engine that no step follows soon. The compute threads go to sleep.
  virtual void Rest() = 0;
  // Returns how many of the next `wanted` tokens one step may compute for a sequence of cell_count
  // cells. A step must end where a checkpoint is due, and where the rotation changes with the
  // sequence's length. Step refuses an item that passes the position where the rotation changes
  // (kInvalidArgument).
  virtual std::size_t StepTokens(std::uint32_t cell_count, Pos next_pos,
                                 std::size_t wanted) const = 0;
  // Computes up to tokens_max tokens of a rewind's replay (RecurrentStates::BeginRewind), at most
  // one ubatch. The last slice commits the rewind. Returns whether the replay is done. Errors:
  // kNumerical, those of CommitRewind. After an error the rewind has ended and nothing has changed.
  virtual Result<bool> Replay(Rewind& rewind, std::size_t tokens_max) = 0;
  // Returns a defragmentation of this engine's memory. The caller runs its slices between steps.
  virtual Defragmentation StartDefragmentation() = 0;
  // Divides the positions of a range with this model's rotation, in slices. Errors: those of
  // CellRewrites::Begin; of a slice: those of CellRewrites::Advance.
  virtual Result<std::unique_ptr<CellWork>> StartDivide(SequenceHandle sequence, PosRange range,
                                                        std::int32_t divisor,
                                                        const RequestTag& applied = {}) = 0;
  // The number of the sequence's cells that must be rewritten before its next step: shifted cells
  // (llama_shifts), or all cells where the rotation changes with the sequence's length. 0: no cell
  // must be rewritten, or the sequence does not exist. Step itself rewrites, without slices, the
  // cells that StartPreparing has not rewritten.
  virtual std::size_t CellsToPrepare(SequenceHandle sequence) = 0;
  // Starts rewriting, in slices, the cells that CellsToPrepare counts; the count may be 0. Errors:
  // those of CellRewrites::Begin; of a slice: those of CellRewrites::Advance.
  virtual Result<std::unique_ptr<CellWork>> StartPreparing(SequenceHandle sequence) = 0;
  // Starts computing the embedding of a text, which may be as long as the model's trained context,
  // with the given pooling or the file's. The text takes no cells. Errors: those of CheckEmbed
  // (engine/forward/encoder.h); of a slice: kNumerical, kNoSpace.
  virtual Result<std::unique_ptr<EmbedWork>> StartEmbed(std::span<const TokenId> tokens,
                                                        std::optional<Pooling> pooling) = 0;
  // Starts encoding the text that the sequence's decoder attends to. The keys and values of the
  // text become cells, which forks share. A sequence can have one encoded text, which must be
  // encoded before the sequence has tokens. Errors: those of CheckEncode; kExists (the sequence has
  // an encoded text); kInvalidArgument (the sequence has tokens); those of Restores::Begin; of a
  // slice: kNumerical, kNoSpace, those of Restores::Commit. After an error the sequence is
  // unchanged.
  virtual Result<std::unique_ptr<EngineWork>> StartEncode(SequenceHandle sequence,
                                                          std::span<const TokenId> tokens,
                                                          const RequestTag& applied = {}) = 0;
  // Divide, Embed and Encode run all slices of StartDivide, StartEmbed and StartEncode in one call.
  Result<std::uint32_t> Divide(SequenceHandle sequence, PosRange range, std::int32_t divisor);
  Result<Embedding> Embed(std::span<const TokenId> tokens,
                          std::optional<Pooling> pooling = std::nullopt);
  Status Encode(SequenceHandle sequence, std::span<const TokenId> tokens);
  // Starts measuring the choices of products (docs/tuning.md). The engine thread runs the slices
  // between steps. Returns null if there is nothing to choose. reads_weights: weights that are not
  // in memory are read; otherwise products with them are not timed.
  virtual std::unique_ptr<TuningRun> StartTuning(bool reads_weights) = 0;
  // Uses the choices that a TuningRun has measured. REQUIRES: no step and no other work has begun.
  virtual void UseTuning(const Tuning& tuning) = 0;
  virtual EngineCounters counters() const = 0;     // any thread
  virtual const StepProfile& profile() const = 0;  // times of the parts of Step; any thread
};

}  // namespace kvd
