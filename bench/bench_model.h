// Selects the model of the engine benches: the bundled model, or the file of `--model FILE`.
#pragma once

#include <string>

namespace kvd::bench {

// Removes `--model FILE` (or --model=FILE) from the arguments and returns FILE; empty: the bundled
// model. Exits with 2 if the value is missing.
std::string TakeModelFlag(int* argument_count, char** arguments);

}  // namespace kvd::bench
