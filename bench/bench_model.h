// Selects the model of the engine benches (the bundled model, or the file of `--model FILE`), and
// runs the benches of a program that has this flag.
#pragma once

#include <string>

namespace kvd::bench {

// Removes `--model FILE` (or --model=FILE) from the arguments and returns FILE; empty: the bundled
// model. Exits with 2 if the value is missing.
std::string TakeModelFlag(int* argument_count, char** arguments);

// Sets `model_path` to the value of TakeModelFlag and runs the program's benches. Returns the exit
// status of the program: 2 if an argument is unknown.
int RunBenches(int argument_count, char** arguments, std::string& model_path);

}  // namespace kvd::bench
