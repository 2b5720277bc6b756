#include "client/llama_state/llama_rotation.h"

#include <cmath>

namespace kvd {
namespace {

constexpr std::size_t kRotationMin = 64;

}  // namespace

std::size_t LlamaRotationOf(const CachePlane& plane, kernels::DataType type) {
  if (kernels::ElementsPerBlock(type) == 1 || plane.dim % kRotationMin != 0) return 0;
  // Of keys the largest power of two that divides the head; of values always the smallest.
  return plane.side == CacheSide::kKeys ? plane.dim & (~plane.dim + 1) : kRotationMin;
}

void RotateHeads(float* x, std::size_t count, std::size_t side) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(side));
  for (float* piece = x; piece < x + count; piece += side) {
    for (std::size_t half = 1; half < side; half *= 2) {
      for (std::size_t i = 0; i < side; i += 2 * half) {
        for (std::size_t j = i; j < i + half; ++j) {
          const float a = piece[j], b = piece[j + half];
          piece[j] = a + b;
          piece[j + half] = a - b;
        }
      }
    }
    for (std::size_t i = 0; i < side; ++i) piece[i] *= scale;
  }
}

}  // namespace kvd
