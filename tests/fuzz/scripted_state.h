// The saved states of the scripted daemon (state_layout/state_layout.h): sequences of a model of
// one layer, whose rows are zero.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/error.h"
#include "shm/verb_table.h"
#include "state_layout/state_model.h"

namespace kvd::test {

const StateModel& ScriptedStateModel();
// The saved state of one sequence.
std::vector<std::byte> ScriptedState(std::span<const wire::TokenAndPosition> cells);
// The cells of each sequence of a saved state. Errors: those of StateImage::Open.
Result<std::vector<std::vector<wire::TokenAndPosition>>> ReadScriptedState(
    std::span<const std::byte> state);

}  // namespace kvd::test
