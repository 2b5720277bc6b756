// EngineParts: the parts from which an engine is built: the checked options with defaults filled
// in, the loaded model, and the opened memory laid out for that model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory_home.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_weights.h"
#include "engine/model/numeric_form.h"
#include "engine/tuning/tuning_run.h"
#include "engine/vocabulary/vocabulary.h"
#include "kernels/kernel_table.h"

namespace kvd {

// Everything read from the model file, which stays mapped. Not movable, because members point into
// other members.
struct LoadedModel {
  GgufFile file;
  ModelConfig config;
  ModelWeights weights;
  ModelFingerprint fingerprint;
  std::unique_ptr<Vocabulary> vocabulary;
  std::uint64_t weight_bytes = 0;
};

struct EngineParts {
  // The given options; values of kernels, threads and cells that the caller did not set are filled
  // in.
  EngineOptions options;
  const kernels::KernelTable* kernels = nullptr;
  std::unique_ptr<LoadedModel> model;
  NumericForm numeric_form = NumericForm::kFree;
  TuningState tuning;
  CellLayout cells;
  OpenedMemory memory;
};

// What a program that starts a daemon must know of the model to choose its options.
struct ModelDescription {
  std::string name;                  // as ModelConfig::name
  std::uint32_t context_length = 0;  // that the model was trained for
  std::uint64_t cell_bytes = 0;      // K and V of one token in all layers, with the options' types
  std::uint64_t state_bytes = 0;     // recurrent state of one sequence; 0: none
  std::uint64_t weight_bytes = 0;
};

// Loads the model without opening the memory. Errors: those of Engine::Create for the model and
// for the cell types.
Result<ModelDescription> DescribeModel(const EngineOptions& options);

// Checks the options, loads the model and opens the memory. Errors: those of Engine::Create.
Result<EngineParts> BuildEngineParts(const EngineOptions& wanted);

}  // namespace kvd
