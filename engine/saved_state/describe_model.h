// Describes the model of an engine in the form that is stored in saved states
// (state_layout/state_model.h).
#pragma once

#include <vector>

#include "engine/engine.h"
#include "state_layout/state_model.h"

namespace kvd {

StateModel DescribeModel(const Engine& engine);

// The shapes of the recurrent states, in the order of the layers; layers without a recurrent state
// are left out.
std::vector<StateShape> StateShapesOf(const ModelConfig& config);

}  // namespace kvd
