// Runs ServerSimulation, which simulates the daemon's io side, with seeds of 200 operations each:
// 5,000 seeds with AddressSanitizer, which detects uses after free, and 500 without it.
//
// KVD_TEST_SCALE multiplies the number of seeds; KVD_SIMULATION_SEEDS sets it. KVD_TEST_SEED
// replays one seed.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/sanitizers.h"
#include "daemon/process/log.h"
#include "tests/daemon/support/server_simulation.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/test_scale.h"

#if KVD_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace kvd {
namespace {

std::uint64_t SeedCount() {
  return static_cast<std::uint64_t>(test::Scaled(KVD_ADDRESS_SANITIZER ? 5000 : 500));
}
constexpr int kOperations = 200;

std::atomic<std::uint64_t> current_seed{0};

// Prints the current seed when AddressSanitizer ends the process.
void PrintSeed() {
  std::fprintf(stderr, "server simulation: the process ends in seed %llu\n",
               static_cast<unsigned long long>(current_seed.load()));
}

TEST(ServerSimulationTest, RandomHellosTakeoversRestartsAndRequestsKeepTheInvariants) {
  SetLogLevel(LogLevel::kOff);
#if KVD_ADDRESS_SANITIZER
  __sanitizer_set_death_callback(PrintSeed);
#endif
  std::signal(SIGABRT, [](int) { PrintSeed(); });
  const char* const one = std::getenv("KVD_TEST_SEED");
  const char* const count = std::getenv("KVD_SIMULATION_SEEDS");
  const std::uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const std::uint64_t last = one != nullptr     ? first
                             : count != nullptr ? std::strtoull(count, nullptr, 10)
                                                : SeedCount();
  const test::TemporaryFolder stores("/dev/shm");  // a tmpfs, so that no operation waits for a disk
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    current_seed = seed;
    const test::TemporaryFolder store(stores.path());
    test::ServerSimulation simulation(seed, store.path().string());
    const Status status = simulation.Run(kOperations);
    ASSERT_TRUE(status) << "seed " << seed << ", " << status.error().message;
  }
  std::signal(SIGABRT, SIG_DFL);
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace kvd
