// Engines over random models of a few layers, one for each way in which state files of llama.cpp
// hold a model's cells and states. They are made as those of tests/fuzz/small_engines.h.
#pragma once

#include <cstddef>
#include <string>

#include "engine/engine.h"

namespace kvd::test {

inline constexpr std::size_t kLlamaEngines = 8;

// "llama", "rotated", ... REQUIRES: number < kLlamaEngines.
std::string LlamaEngineName(std::size_t number);

// Made at the first call, kept to the end of the process.
Engine& LlamaEngine(std::size_t number);

}  // namespace kvd::test
