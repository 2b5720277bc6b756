// A unit of work is one head of the text's attention.
#include "engine/forward/attention/plain_text_attention.h"

#include <algorithm>

#include "engine/forward/attention/head_keys.h"

namespace kvd {

void RunPlainTextAttention(const Compute& compute, const PlainTextShape& shape,
                           const PositionBias& bias, const float* q, const float* k, const float* v,
                           float* out) {
  const std::size_t head_dim = shape.head_dim;
  const std::size_t row_floats = shape.head_count * head_dim;
  compute.pool->Run(shape.head_count, [&](std::uint32_t, std::size_t head) {
    HeadKeys keys(*compute.kernels, shape.key_count, shape.key_count, head_dim);
    for (std::size_t i = 0; i < shape.key_count; ++i) {
      const std::size_t at = i * row_floats + head * head_dim;
      std::copy_n(k + at, head_dim, keys.key(i));
      keys.SetValue(i, v + at);
    }
    constexpr auto kReach = static_cast<std::ptrdiff_t>(kBiasReach);
    const float* const middle = bias.table.data() + head * bias.distances + kReach;
    for (std::size_t row = 0; row < shape.row_count; ++row) {
      const auto position = static_cast<std::ptrdiff_t>(shape.first_row + row);
      const auto bias_of = [&](std::size_t i) {
        return middle[std::clamp(static_cast<std::ptrdiff_t>(i) - position, -kReach, kReach)];
      };
      const std::size_t at = row * row_floats + head * head_dim;
      keys.Attend(q + at, shape.key_count, bias_of, out + at);
    }
  });
}

}  // namespace kvd
