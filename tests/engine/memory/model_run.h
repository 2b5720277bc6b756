// Seed, size and random numbers of the tests that compare the memory with a reference. The
// generator yields the same numbers with every standard library.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace kvd::memory_model {

// The seed in KVD_TEST_SEED, or a random one if the variable is not set.
inline std::uint64_t SeedOfRun() {
  if (const char* text = std::getenv("KVD_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return std::random_device()();
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Returns a uniformly distributed number in [least, most].
  std::int64_t In(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool OneIn(int chances) { return In(1, chances) == 1; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvd::memory_model
