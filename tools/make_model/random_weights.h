// A stream of seeded random weights in any type, as fast as a copy.
//
// One pool of normal numbers is drawn per seed; for each pair of type and deviation it is encoded
// once, and tensors are cut from the encoded pool at random places. So two tensors share runs of
// weights, which no test or bench minds, and the bytes depend on the seed and the order of the
// calls alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/gguf_writer.h"
#include "kernels/data_type.h"
#include "shm/error.h"

namespace kvd {

class RandomWeights {
 public:
  explicit RandomWeights(std::uint64_t seed);

  // `element_count` weights of mean 0 and the given deviation. REQUIRES: a multiple of the type's
  // block.
  Status Matrix(kernels::DataType type, std::uint64_t element_count, float deviation,
                GgufSink& sink);
  // `element_count` f32 of the given mean and deviation.
  Status Vector(std::uint64_t element_count, float mean, float deviation, GgufSink& sink);

 private:
  std::uint64_t Next();  // splitmix64
  float NextNormal();    // close to normal, mean 0, deviation 1, at most 3.5 in magnitude
  const std::vector<std::byte>& Pool(kernels::DataType type, float deviation);

  std::uint64_t state_;
  std::vector<float> normal_;
  std::map<std::pair<kernels::DataType, float>, std::vector<std::byte>> encoded_;
};

}  // namespace kvd
