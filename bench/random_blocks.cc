#include "bench/random_blocks.h"

#include <random>

#include "kernels/half.h"

namespace kvd::bench {

using kernels::BytesPerBlock;
using kernels::DataType;

void FillFloats(float* to, std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (std::size_t i = 0; i < count; ++i) to[i] = uniform(random);
}

void FillBlocks(DataType type, std::uint8_t* to, std::size_t bytes) {
  std::mt19937 random(9);
  if (type == DataType::kF32) return FillFloats(reinterpret_cast<float*>(to), bytes / 4);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(random());
  const std::uint16_t scale = kernels::F16FromF32(0.01f);
  const std::size_t block = BytesPerBlock(type);
  const bool minimum = type == DataType::kQ4_1 || type == DataType::kQ5_1 ||
                       type == DataType::kQ4_K || type == DataType::kQ5_K ||
                       type == DataType::kQ2_K;
  const std::size_t scale_at = type == DataType::kQ6_K   ? 208
                               : type == DataType::kQ3_K ? 108
                               : type == DataType::kQ2_K ? 80
                                                         : 0;
  for (std::size_t at = 0; at < bytes; at += block) {
    if (type == DataType::kMXFP4) {
      to[at] = 120;  // 2^-8
      continue;
    }
    std::memcpy(to + at + scale_at, &scale, 2);
    if (minimum) std::memcpy(to + at + scale_at + 2, &scale, 2);
  }
}

}  // namespace kvd::bench
