#include "llama_files/llama_rows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace kvd {
namespace {

constexpr std::size_t kRotationMin = 64;

}  // namespace

std::size_t LlamaRotationOf(const CachePlane& plane, kernels::DataType type) {
  if (kernels::ElementsPerBlock(type) == 1 || plane.dim % kRotationMin != 0) return 0;
  // For keys the matrix has the largest power of two of rows that divides the head's dim; for
  // values it always has kRotationMin rows.
  return plane.side == CacheSide::kKeys ? plane.dim & (~plane.dim + 1) : kRotationMin;
}

Status CheckQuantizedRows(const StateModel& model, kernels::DataType type) {
  if (kernels::ElementsPerBlock(type) == 1) return {};
  for (const CachePlane& plane : model.planes) {
    const auto other = std::ranges::find_if(
        model.planes, [&](const CachePlane& p) { return p.side == plane.side; });
    if (other->dim == plane.dim) continue;
    return Fail(Code::kUnsupported, "llama.cpp state: heads of ", other->dim, " and ", plane.dim,
                " elements in ", kernels::DataTypeName(type),
                ", those supported are f32, f16 and bf16");
  }
  if (!model.values_in_keys) return {};
  return Fail(Code::kUnsupported, "llama.cpp state: latent rows in ", kernels::DataTypeName(type),
              ", those supported are f32, f16 and bf16");
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
