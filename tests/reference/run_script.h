// Computes the expected rows of a golden script with a reference model.
#pragma once

#include <vector>

#include "tests/reference/model.h"
#include "tools/golden/golden_case.h"

namespace kvd::reference {

// Returns the rows of all scenarios one after another, as in expect.f32. Throws std::runtime_error
// for a step that the reference does not implement.
std::vector<float> RunScript(const Model& model, const std::vector<golden::Scenario>& scenarios);

}  // namespace kvd::reference
