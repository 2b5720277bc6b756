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

// Returns the name of an engine: "llama", "gemma2", "lfm2" or "t5". REQUIRES: number <
// kSmallEngines.
std::string SmallEngineName(std::size_t number);

// Returns an engine. The engine is made at the first call and kept until the end of the process.
Engine& SmallEngine(std::size_t number);

// Makes an engine over a random model of the shape. REQUIRES: the shape and the options are valid.
std::unique_ptr<Engine> MakeSmallEngine(const ModelShape& shape, EngineOptions options);

// Makes a sequence of `token_count` tokens, of which the first is `first`. The state and the row of
// logits after the last token are kept. With t5 the sequence also has an encoded text.
SequenceHandle MakeSequence(Engine& engine, std::size_t token_count, std::size_t first = 0);

}  // namespace kvd::test
