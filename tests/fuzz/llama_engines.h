// Engines over random models of a few layers, one for each way in which state files of llama.cpp
// hold a model's cells and states. tests/fuzz/small_engines.h declares the function that makes
// them.
#pragma once

#include <cstddef>
#include <string>

#include "engine/engine.h"

namespace kvd::test {

inline constexpr std::size_t kLlamaEngines = 8;

// Returns the name of an engine: "llama", "rotated", ... REQUIRES: number < kLlamaEngines.
std::string LlamaEngineName(std::size_t number);

// Returns an engine. The engine is made at the first call and kept until the end of the process.
Engine& LlamaEngine(std::size_t number);

}  // namespace kvd::test
