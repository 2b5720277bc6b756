// The model that the engine benches run on: the bundled one, or `--model FILE`.
#pragma once

#include <string>

namespace kvd::bench {

// Takes `--model FILE` (or --model=FILE) out of the arguments; empty: the bundled model. Exits with
// 2 on a missing value.
std::string TakeModelFlag(int* argument_count, char** arguments);

}  // namespace kvd::bench
