// What random tests against a model of the memory draw from: the seed and the size of a run, and a
// generator that gives the same numbers with every standard library.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace kvd::memory_model {

// KVD_TEST_SEED, or a seed of its own.
inline std::uint64_t SeedOfRun() {
  if (const char* text = std::getenv("KVD_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return std::random_device()();
}

// KVD_TEST_SCALE, what the number of operations is multiplied by.
inline double Scale() {
  const char* text = std::getenv("KVD_TEST_SCALE");
  return text == nullptr ? 1.0 : std::strtod(text, nullptr);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Uniform in [least, most].
  std::int64_t In(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool OneIn(int chances) { return In(1, chances) == 1; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvd::memory_model
