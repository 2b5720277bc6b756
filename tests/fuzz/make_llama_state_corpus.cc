// Writes the seeds of llama_state_fuzz into a directory: a file of each structure and type.
#include <cstdio>

#include "tests/engine/saved_state/llama_samples.h"
#include "tests/fuzz/make_wire_corpus.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_llama_state_corpus DIRECTORY\n");
    return 2;
  }
  for (const auto& [name, sample] : kvd::test::LlamaSamples()) {
    kvd::test::WriteSeed(argv[1], name, kvd::test::LlamaSampleFile(sample).bytes);
  }
  return 0;
}
