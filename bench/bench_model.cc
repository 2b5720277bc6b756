#include "bench/bench_model.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace kvd::bench {

std::string TakeModelFlag(int* argument_count, char** arguments) {
  std::string model;
  int kept = 1;
  for (int i = 1; i < *argument_count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with("--model=")) {
      model = argument.substr(8);
    } else if (argument == "--model") {
      if (i + 1 == *argument_count) {
        std::fprintf(stderr, "--model: needs a file\n");
        std::exit(2);
      }
      model = arguments[++i];
    } else {
      arguments[kept++] = arguments[i];
    }
  }
  *argument_count = kept;
  arguments[kept] = nullptr;
  return model;
}

int RunBenches(int argument_count, char** arguments, std::string& model_path) {
  model_path = TakeModelFlag(&argument_count, arguments);
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace kvd::bench
