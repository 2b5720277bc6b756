// The description of an engine's model that goes with its saved states (state_form/state_model.h).
#pragma once

#include <vector>

#include "engine/engine.h"
#include "state_form/state_model.h"

namespace kvd {

StateModel DescribeModel(const Engine& engine);

// The layers that keep a recurrent state, by layer.
std::vector<StateShape> StateShapesOf(const ModelConfig& config);

}  // namespace kvd
