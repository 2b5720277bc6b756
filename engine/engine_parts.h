// What an engine is built from, before it can step: its options checked and filled in, the model
// read from its file, the memory laid out for that model and opened.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/cell_layout.h"
#include "engine/engine.h"
#include "engine/gguf_file.h"
#include "engine/memory/memory_home.h"
#include "engine/model_config.h"
#include "engine/model_fingerprint.h"
#include "engine/model_weights.h"
#include "engine/numeric_form.h"
#include "engine/vocabulary/vocabulary.h"
#include "kernels/kernel_table.h"
#include "shm/error.h"

namespace kvd {

// Everything read from the model file, which stays mapped. Not movable: views point into it.
struct LoadedModel {
  GgufFile file;
  ModelConfig config;
  ModelWeights weights;
  ModelFingerprint fingerprint;
  std::unique_ptr<Vocabulary> vocabulary;
  std::uint64_t weight_bytes = 0;
};

struct EngineParts {
  EngineOptions options;  // with the kernels, threads and cells that were left to the engine
  const kernels::KernelTable* kernels = nullptr;
  std::unique_ptr<LoadedModel> model;
  NumericForm numeric_form = NumericForm::kFree;
  CellLayout cells;
  OpenedMemory memory;
};

// Errors: those of Engine::Create.
Result<EngineParts> BuildEngineParts(const EngineOptions& wanted);

}  // namespace kvd
