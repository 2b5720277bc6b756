#include "llama_files/llama_states.h"

#include <algorithm>

#include "base/check.h"

namespace kvd {
namespace {

// Transposes a matrix: to[column][row] = from[row][column].
void Turn(const float* from, std::size_t rows, std::size_t columns, float* to) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      to[column * rows + row] = from[row * columns + column];
    }
  }
}

void CopyScan(const StateShape& shape, const float* from, float* to) {
  const std::size_t side = shape.matrix_side;
  if (side == 0) {
    std::copy_n(from, shape.scan_floats, to);
    return;
  }
  for (std::size_t at = 0; at < shape.scan_floats; at += side * side) {
    Turn(from + at, side, side, to + at);
  }
}

}  // namespace

void StateToLlamaR(const StateShape& shape, std::span<const float> state, std::span<float> r) {
  KVD_ASSERT(state.size() == shape.floats() && r.size() == shape.convolution_floats());
  Turn(state.data(), shape.kept, shape.channels, r.data());
}

void StateToLlamaS(const StateShape& shape, std::span<const float> state, std::span<float> s) {
  KVD_ASSERT(state.size() == shape.floats() && s.size() == shape.scan_floats);
  CopyScan(shape, state.data() + shape.convolution_floats(), s.data());
}

void StateFromLlama(const StateShape& shape, std::span<const float> r, std::span<const float> s,
                    std::span<float> state) {
  KVD_ASSERT(state.size() == shape.floats() && r.size() == shape.convolution_floats() &&
             s.size() == shape.scan_floats);
  Turn(r.data(), shape.channels, shape.kept, state.data());
  CopyScan(shape, s.data(), state.data() + shape.convolution_floats());
}

}  // namespace kvd
