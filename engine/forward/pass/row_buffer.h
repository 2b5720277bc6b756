// RowBuffer: rows of f32, stored back to back.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/forward/compute/float_buffer.h"

namespace kvd {

class RowBuffer {
 public:
  float* operator[](std::size_t row) const { return pointers_[row]; }
  float* const* pointers() const { return pointers_.data(); }
  std::size_t width() const { return width_; }

  // Gives the buffer row_count_max rows of `width` floats with undefined content. The buffer's
  // memory grows to the largest shape and is kept.
  void Shape(std::size_t row_count_max, std::size_t width);

 private:
  FloatBuffer buffer_;
  std::size_t capacity_ = 0;  // floats
  std::size_t width_ = 0;
  std::vector<float*> pointers_;
};

}  // namespace kvd
