// Engines over random models of a few layers, one for each way in which a sequence is kept: cells
// of all tokens, cells in a window, recurrent states, and cells of an encoded text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/saved_state/sequence_export.h"
#include "tools/make_model/model_shape.h"

namespace kvd::test {

inline constexpr std::size_t kSmallEngines = 4;
inline constexpr std::uint32_t kSmallEngineCells = 256;

// "llama", "gemma2", "lfm2", "t5". REQUIRES: number < kSmallEngines.
std::string SmallEngineName(std::size_t number);

// Made at the first call, kept to the end of the process.
Engine& SmallEngine(std::size_t number);

// An engine over a random model of that shape. REQUIRES: the shape and the options are valid.
std::unique_ptr<Engine> MakeSmallEngine(const ModelShape& shape, EngineOptions options);

// A sequence of that many tokens, the first of which is `first`, and whose last one keeps its state
// and its row of logits; of t5 also with an encoded text.
SequenceHandle MakeSequence(Engine& engine, std::size_t token_count, std::size_t first = 0);

}  // namespace kvd::test
