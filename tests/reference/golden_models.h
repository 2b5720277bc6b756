// The models of the project's own golden folders: at least one for each kind of memory, and one
// with quantised weights.
#pragma once

#include <string>
#include <vector>

#include "tests/reference/scenarios.h"
#include "tools/make_model/model_shape.h"

namespace kvd::reference {

struct GoldenModel {
  std::string folder;
  ModelShape shape;
  MemoryKind memory = MemoryKind::kCells;
  // largest normalised mean squared error of a row of logits that the engine computes with f32
  // cells
  double tolerance = 0;
};

std::vector<GoldenModel> GoldenModels();

// Returns the case of the model's golden folder without the expected rows and without the paths.
golden::Case CaseWithoutRows(const GoldenModel& model);

}  // namespace kvd::reference
