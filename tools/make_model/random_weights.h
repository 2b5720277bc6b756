// RandomWeights: a stream of seeded random weights in any type, about as fast as a copy.
//
// For each seed one pool of normal numbers is drawn. For each pair of type and deviation the pool
// is encoded once, and tensors are cut from the encoded pool at random places. Tensors therefore
// share runs of weights, which is no problem for tests and benches. The bytes of the weights depend
// only on the seed and the order of the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_writer.h"
#include "kernels/data_type.h"

namespace kvd {

class RandomWeights {
 public:
  explicit RandomWeights(std::uint64_t seed);

  // Writes `element_count` weights with mean 0 and the given deviation. REQUIRES: `element_count`
  // is a multiple of the type's block.
  Status Matrix(kernels::DataType type, std::uint64_t element_count, float deviation,
                GgufSink& sink);
  // Writes `element_count` f32 numbers with the given mean and deviation.
  Status Vector(std::uint64_t element_count, float mean, float deviation, GgufSink& sink);

 private:
  std::uint64_t Next();  // returns the next number of splitmix64
  // Returns a number of an approximately normal distribution with mean 0 and standard deviation 1,
  // at most 3.5 in magnitude.
  float NextNormal();
  const std::vector<std::byte>& Pool(kernels::DataType type, float deviation);

  std::uint64_t state_;
  std::vector<float> normal_;
  std::map<std::pair<kernels::DataType, float>, std::vector<std::byte>> encoded_;
};

}  // namespace kvd
