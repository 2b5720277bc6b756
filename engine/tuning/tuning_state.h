// TuningState: which choices of products an engine uses, and why.
#pragma once

#include <string>
#include <vector>

#include "engine/tuning/tuning_file.h"
#include "kernels/product_choice.h"
#include "shm/choice_source.h"

namespace kvd {

struct TuningState {
  TuningKey key;
  kernels::ProductChoices defaults;
  Tuning tuning;                         // in use
  std::vector<kernels::DataType> types;  // of the model's matrices
  ChoiceSource source = ChoiceSource::kDefaults;
  std::string why_ignored;  // not empty: there is a file, and why it is not used
};

// Reads the file in `directory` (-1: there is none) and decides which choices are used. `state` has
// the key and a source that is kDefaults, kOff or kDeterministic; with the latter two no file is
// read.
void ChooseTuning(int directory, const kernels::KernelTable& table, TuningState* state);

}  // namespace kvd
