// Fuzz target: every route of the gateway, over a daemon that a script plays. An input is a list of
// choices (tests/fuzz/choices.h) from which a setup, a script and one to four requests are made;
// README.md describes them.
//
// KVD_SHOW=1 prints each input as requests.
#include <sanitizer/lsan_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/http_program.h"
#include "tests/fuzz/http_world.h"
#include "tests/fuzz/mutate_choices.h"

namespace {

using namespace kvd::test;

// LeakSanitizer looks for leaks after as many inputs. libFuzzer would look after each input that
// has kept something, such as a parsed template.
constexpr std::size_t kLeakCheckEach = 50'000;

std::vector<Choices::Node> NodesOf(std::span<const std::uint8_t> bytes) {
  Choices choices(bytes);
  (void)MakeHttpProgram(choices);
  return choices.nodes();
}

}  // namespace

// Most of an input's time is spent in AddressSanitizer's allocator. ASAN_OPTIONS may ask for the
// stacks of allocations again.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64:"
         "max_malloc_fill_size=0:detect_stack_use_after_return=0";
}

extern "C" int LLVMFuzzerInitialize(int* argument_count, char*** arguments) {
  static std::vector<char*> all(*arguments, *arguments + *argument_count);
  static char no_leaks[] = "-detect_leaks=0";
  // Weighing inputs by their rare features takes a sixth of the time.
  static char no_weights[] = "-entropic=0";
  all.insert(all.begin() + 1, {no_leaks, no_weights});
  *argument_count = static_cast<int>(all.size());
  *arguments = all.data();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t byte_count,
                                               std::size_t bytes_max, unsigned int seed) {
  static const std::vector<std::vector<std::uint8_t>> usual_inputs = UsualInputs();
  if (seed % 4 == 0) return MakeNearUsual({data, bytes_max}, seed, usual_inputs);
  return MutateChoices({data, bytes_max}, byte_count, seed, NodesOf);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  static const bool shows = std::getenv("KVD_SHOW") != nullptr;
  static HttpWorld world;
  Choices choices(std::span(data, byte_count));
  const HttpProgram program = MakeHttpProgram(choices);
  if (shows) std::fprintf(stderr, "%s", ShownProgram(program).c_str());
  world.Run(program);
  static std::size_t runs = 0;
  if (++runs % kLeakCheckEach == 0) KVD_ASSERT(__lsan_do_recoverable_leak_check() == 0);
  return 0;
}
