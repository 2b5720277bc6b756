// What BindWeights reports about a file whose configuration a test has changed.
#pragma once

#include <string>

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"

namespace kvd::test {

// Returns the error's message; empty if the weights of `file` fit the changed configuration.
template <class Change>
std::string BindingProblem(const GgufFile& file, ModelConfig config, Change change) {
  change(config);
  const auto bound = BindWeights(file, config);
  return bound.has_value() ? std::string() : bound.error().message;
}

}  // namespace kvd::test
