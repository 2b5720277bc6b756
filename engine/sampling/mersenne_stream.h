// MersenneStream: the outputs of std::mt19937 of a seed by their number, and the uniform numbers
// that libstdc++'s std::uniform_real_distribution makes of them, which are llama.cpp's draws.
//
// The number of an output is the whole state, so a stream resumes anywhere. An output that follows
// the last one takes constant time; a step ahead takes about a nanosecond for each output between,
// and a step back begins again at the seed. Not thread-safe. The generator has 5 KB and is made for
// the first output.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

namespace kvd {

class MersenneStream {
 public:
  explicit MersenneStream(std::uint32_t seed) : seed_(seed) {}
  // A copy makes its own generator.
  MersenneStream(const MersenneStream& other) : seed_(other.seed_) {}
  MersenneStream& operator=(const MersenneStream& other) { return *this = MersenneStream(other); }
  MersenneStream(MersenneStream&&) noexcept = default;
  MersenneStream& operator=(MersenneStream&&) noexcept = default;
  ~MersenneStream() = default;

  // Output `number`, counted from 0.
  std::uint32_t Output(std::uint64_t number);

  // Number `draw` of uniform_real_distribution<double>(0, 1), in [0, 1): two outputs each.
  double Uniform(std::uint64_t draw);
  // Number `draw` of uniform_real_distribution<float>(0, 1), in [0, 1): one output each.
  float UniformFloat(std::uint64_t draw);

 private:
  std::uint32_t seed_;
  std::uint64_t next_ = 0;  // number of the generator's next output
  std::unique_ptr<std::mt19937> generator_;
};

}  // namespace kvd
