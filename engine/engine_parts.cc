#include "engine/engine_parts.h"
#include "engine/forward/architectures/architecture.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/forward/compute/thread_pool.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "engine/model/bundled_model.h"
#include "engine/model/gguf_parts.h"
#include "engine/tuning/tuning_file.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "engine/work/verify_pool.h"
#include "kernels/data_type.h"

namespace kvd {
namespace {

constexpr std::uint64_t kCellsDefaultMin = 4096;
// For each sequence, `meta` has about 2 KiB, so that a small pool has few.
constexpr std::uint64_t kSequencesDefaultMin = 1024;
constexpr std::uint64_t kSequencesDefaultMax = 16384;
constexpr std::uint32_t kThreadsMax = 256;
constexpr std::uint32_t kUbatchTokensMax = 1u << 16;
constexpr std::uint64_t kStateBytesDefault = 1ull << 30;
constexpr std::uint64_t kStateSlotsMin = 16;
constexpr std::uint64_t kStateSlotsMax = 1024;
constexpr std::uint64_t kLogitsBytesDefault = 64ull << 20;
constexpr std::uint64_t kLogitsRowsMin = 4;
constexpr std::uint64_t kLogitsRowsMax = 1024;

Result<const kernels::KernelTable*> ChooseKernels(const std::string& wanted) {
  const char* name = wanted.empty() ? std::getenv("KVD_KERNELS") : wanted.c_str();
  const kernels::KernelChoice choice = kernels::SelectKernels(name);
  if (choice.table != nullptr) return choice.table;
  return Fail(Code::kUnsupported, "kernels '", name, "': ", choice.problem);
}

Status CheckPinning(const EngineOptions& options) {
  const std::size_t usable = options.pin_threads ? UsableProcessors().size() : options.threads;
  if (options.threads <= usable) return {};
  return Fail(Code::kInvalidArgument, "threads: ", options.threads,
              " to be pinned, but this process may use ", usable, " processors");
}

Status CheckOptions(const EngineOptions& options) {
  if (options.threads > kThreadsMax) {
    return Fail(Code::kInvalidArgument, "threads: ", options.threads, ", at most ", kThreadsMax);
  }
  if (options.ubatch_tokens == 0 || options.ubatch_tokens > kUbatchTokensMax) {
    return Fail(Code::kInvalidArgument, "ubatch tokens: ", options.ubatch_tokens, ", 1 to ",
                kUbatchTokensMax);
  }
  return {};
}

Status CheckCellType(const std::string& option, kernels::DataType type, std::uint32_t head_dim) {
  const std::string given = option + " " + kernels::DataTypeName(type) + ": ";
  if (!kernels::IsCellType(type)) {
    return Fail(Code::kUnsupported, given, "cells are f32, f16, bf16, q8_0 or q4_0");
  }
  const std::size_t packed = kernels::ElementsPerBlock(type);
  if (head_dim % packed == 0) return {};
  return Fail(Code::kUnsupported, given, "packs ", packed,
              " elements of a head together, this model's heads have ", head_dim);
}

// Checks that the heads of the model, if it has any, can be stored in the requested types.
Status CheckCellTypes(const EngineOptions& options, const ModelConfig& config) {
  const bool has_heads =
      std::ranges::any_of(config.kv_head_count, [](std::uint32_t heads) { return heads != 0; });
  KVD_CHECK_OK(CheckCellType("cache-type-k", options.k_type, has_heads ? config.head_dim_k : 0));
  KVD_CHECK_OK(CheckCellType("cache-type-k", options.k_type, config.window_head_dim));
  KVD_CHECK_OK(CheckCellType("cache-type-v", options.v_type, config.window_head_dim));
  // The values of a model whose values are in its keys have the type of keys.
  return config.values_in_keys()
             ? CheckCellType("cache-type-k", options.k_type, config.head_dim_v)
             : CheckCellType("cache-type-v", options.v_type, has_heads ? config.head_dim_v : 0);
}

Result<std::unique_ptr<LoadedModel>> LoadModel(const EngineOptions& options) {
  const std::string& path = options.model_path;
  KVD_TRY(GgufFile file,
          path.empty() ? GgufFile::FromStaticBytes(BundledModel()) : OpenModelFile(path));
  // Until the engine computes, a few bytes of every tensor are read. Read-ahead would read most of
  // the file for the few bytes.
  file.Advise(GgufFile::Access::kRandom);
  KVD_TRY(ModelConfig config, ReadModelConfig(file));
  KVD_TRY(ModelWeights weights, BindWeights(file, config));
  if (options.on_weights) options.on_weights(file.weight_reader());
  KVD_TRY(VocabularyData vocabulary_data, ReadVocabulary(file));
  if (vocabulary_data.tokens.empty()) vocabulary_data.vocab_size = config.vocab_size;
  KVD_TRY(std::unique_ptr<Vocabulary> vocabulary, Vocabulary::Create(std::move(vocabulary_data)));
  if (vocabulary->vocab_size() > config.vocab_size) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: ", vocabulary->vocab_size(),
                " tokens, the model has rows for ", config.vocab_size);
  }
  const ModelFingerprint fingerprint = ComputeFingerprint(file, config);
  file.Advise(GgufFile::Access::kNormal);
  std::uint64_t weight_bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) weight_bytes += tensor.bytes;
  return std::unique_ptr<LoadedModel>(new LoadedModel{.file = std::move(file),
                                                      .config = std::move(config),
                                                      .weights = std::move(weights),
                                                      .fingerprint = fingerprint,
                                                      .vocabulary = std::move(vocabulary),
                                                      .weight_bytes = weight_bytes});
}

// The block group of a layer's cells. Layers with a sliding window have their own group, because
// layers with a window drop cells earlier.
std::uint32_t GroupOf(const EngineOptions& options, const ModelConfig& config,
                      std::uint32_t layer) {
  return config.window[layer] != 0 && !options.swa_full ? 1 : 0;
}

MemoryOptions MemoryOptionsOf(const EngineOptions& options, const ModelConfig& config) {
  MemoryOptions memory{.groups = {{.cells = options.cells, .layers = {}}},
                       .k_type = options.k_type,
                       .v_type = options.v_type,
                       .sequence_capacity = options.sequence_capacity,
                       .snapshot_capacity = options.snapshot_capacity,
                       .session_capacity = options.session_capacity};
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    if (!config.caches(layer)) continue;
    const std::uint32_t group = GroupOf(options, config, layer);
    if (group == memory.groups.size()) {
      // The group of layers with a window has as many cells as group 0. Sequences use fewer cells
      // of the window group than of group 0, and unused cells take no memory.
      memory.groups.push_back(
          {.cells = options.cells, .layers = {}, .window = config.window[layer]});
    }
    memory.groups[group].layers.push_back({.kv_head_count = config.kv_head_count[layer],
                                           .k_dim = config.key_dim(layer),
                                           .v_dim = config.value_dim(layer),
                                           .values_in_keys = config.values_in_keys()});
  }
  if (config.has_cross_attention()) {
    // Every layer has K and V of the encoded text in addition to the K and V of the tokens.
    memory.groups.push_back(
        {.cells = options.cells, .layers = memory.groups[0].layers, .is_cross = true});
  }
  if (!config.has_decoder) {
    // Sequences of a model without a decoder stay empty, but a pool without any bytes cannot be
    // mapped.
    memory.logits_bytes = sizeof(float);
    memory.logits_rows = 1;
  }
  memory.state_bytes = StateFloats(config) * sizeof(float);
  if (memory.state_bytes == 0) return memory;
  memory.state_slots = options.state_slots;
  if (memory.state_slots == 0) {
    memory.state_slots = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        kStateBytesDefault / memory.state_bytes, kStateSlotsMin, kStateSlotsMax));
  }
  const std::uint64_t checkpoint_bytes = std::uint64_t{options.checkpoint_mb} << 20;
  memory.checkpoint_slots =
      options.checkpoint_mb == 0
          ? memory.state_slots / 2
          : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                checkpoint_bytes / memory.state_bytes, memory.state_slots - 1));
  memory.logits_bytes = std::uint64_t{config.vocab_size} * sizeof(float);
  memory.logits_rows = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      kLogitsBytesDefault / memory.logits_bytes, kLogitsRowsMin, kLogitsRowsMax));
  return memory;
}

// The layout of a block by layer of the model; layers that cache no K and V have an
// empty entry.
CellLayout CellLayoutOf(const EngineOptions& options, const ModelConfig& config,
                        const MemoryGeometry& geometry) {
  CellLayout cells{.k_type = options.k_type, .v_type = options.v_type, .layers = {}, .groups = {}};
  // By group: number of layers placed so far.
  std::vector<std::size_t> placed(geometry.groups.size());
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    const std::uint32_t group =
        config.kv_head_count[layer] == 0 ? 0 : GroupOf(options, config, layer);
    cells.layers.push_back(config.caches(layer) ? geometry.groups[group].layers[placed[group]++]
                                                : LayerLayout{});
    cells.groups.push_back(group);
  }
  if (!config.has_cross_attention()) return cells;
  cells.cross_group = geometry.meta.cross_group;
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    cells.layers.push_back(geometry.groups[cells.cross_group].layers[layer]);
    cells.groups.push_back(cells.cross_group);
  }
  return cells;
}

// What the caller's options have left to the engine, and what not.
struct OptionChoices {
  bool has_kernels = false;            // the caller has named the table of kernels
  bool has_default_sequences = false;  // the number of sequences is a default
};

Result<OpenedMemory> CreateMemory(const EngineOptions& options, const OptionChoices& choices,
                                  const MemoryGeometry& geometry, const LoadedModel& model,
                                  NumericForm form) {
  const CellLimits limits{.vocab_size = model.config.vocab_size,
                          .key_forms = model.config.long_rope_from != 0 ? 2u : 1u};
  KVD_TRY(OpenedMemory opened,
          OpenMemory({.directory = options.state_directory,
                      .checks_boot = options.state_outlives_boot,
                      .numeric_form = form,
                      .has_chosen_form = choices.has_kernels,
                      .model_name = model.config.name,
                      .starts_cold = options.starts_cold,
                      .may_raise_capacity = choices.has_default_sequences,
                      .may_return = options.may_return},
                     geometry, std::bit_cast<FingerprintBytes>(model.fingerprint.words), limits));
  if (options.verify_pool && opened.start.is_warm) {
    for (LostSequence& lost : DropWhatIsNotFinite(*opened.memory)) {
      opened.start.lost.push_back(std::move(lost));
    }
    opened.start.CountServed(*opened.memory);
    opened.start.cells_checked = true;
  }
  return opened;
}

TuningState TuningOf(const EngineOptions& options, const kernels::KernelTable& table,
                     const LoadedModel& model) {
  TuningState state{.key = {.machine = ReadMachineIdentity(),
                            .kernels = table.name,
                            .threads = options.threads,
                            .model = model.fingerprint.words[2]},
                    .defaults = {},
                    .tuning = {},
                    .types = {},
                    .why_ignored = {}};
  for (const kernels::DataType type : kernels::kDataTypes) {
    const bool is_used = std::ranges::any_of(model.file.tensors(), [type](const auto& tensor) {
      return tensor.type == type && tensor.rank > 1;
    });
    if (is_used) state.types.push_back(type);
  }
  if (!options.tunes) state.source = ChoiceSource::kOff;
  if (options.deterministic) state.source = ChoiceSource::kDeterministic;
  ChooseTuning(options.state_directory, table, &state);
  return state;
}

// Chooses the pool's size and the number of sequences if the caller did not set them.
void ChooseSizes(EngineOptions& options, const ModelConfig& config) {
  if (options.cells == 0) {
    options.cells = std::max<std::uint64_t>(kCellsDefaultMin, config.context_length);
  }
  if (options.sequence_capacity == 0) {
    options.sequence_capacity = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(4 * options.cells, kSequencesDefaultMin, kSequencesDefaultMax));
  }
}

}  // namespace

Result<ModelDescription> DescribeModel(const EngineOptions& wanted) {
  EngineOptions options = wanted;
  KVD_TRY(const std::unique_ptr<LoadedModel> model, LoadModel(options));
  KVD_CHECK_OK(CheckCellTypes(options, model->config));
  ChooseSizes(options, model->config);
  const MemoryOptions memory = MemoryOptionsOf(options, model->config);
  KVD_TRY(const MemoryGeometry geometry, ComputeGeometry(memory));
  return ModelDescription{.name = model->config.name,
                          .context_length = model->config.context_length,
                          .cell_bytes = CellLayoutOf(options, model->config, geometry).cell_bytes(),
                          .state_bytes = memory.state_bytes,
                          .weight_bytes = model->weight_bytes};
}

Result<EngineParts> BuildEngineParts(const EngineOptions& wanted) {
  KVD_CHECK_OK(CheckOptions(wanted));
  EngineOptions options = wanted;
  const OptionChoices choices{
      .has_kernels = !wanted.kernel_table.empty() || std::getenv("KVD_KERNELS") != nullptr,
      .has_default_sequences = wanted.sequence_capacity == 0};
  KVD_TRY(const kernels::KernelTable* kernels, ChooseKernels(options.kernel_table));
  options.kernel_table = kernels->name;
  KVD_TRY(std::unique_ptr<LoadedModel> model, LoadModel(options));
  KVD_CHECK_OK(CheckCellTypes(options, model->config));
  if (options.threads == 0)
    options.threads = std::max(1u, std::min(kThreadsMax, std::thread::hardware_concurrency()));
  KVD_CHECK_OK(CheckPinning(options));
  ChooseSizes(options, model->config);
  KVD_TRY(const MemoryGeometry geometry, ComputeGeometry(MemoryOptionsOf(options, model->config)));
  const NumericForm form = NumericFormOf(model->file, *kernels, options.deterministic);
  if (options.open_state) {
    KVD_TRY(options.state_directory, options.open_state(model->fingerprint));
  }
  TuningState tuning = TuningOf(options, *kernels, *model);
  KVD_TRY(OpenedMemory memory, CreateMemory(options, choices, geometry, *model, form));
  options.sequence_capacity = memory.memory->geometry().meta.sequence_capacity;
  CellLayout cells = CellLayoutOf(options, model->config, geometry);
  return EngineParts{.options = std::move(options),
                     .kernels = kernels,
                     .model = std::move(model),
                     .numeric_form = form,
                     .tuning = std::move(tuning),
                     .cells = std::move(cells),
                     .memory = std::move(memory)};
}

}  // namespace kvd
