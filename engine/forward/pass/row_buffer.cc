#include "engine/forward/pass/row_buffer.h"

namespace kvd {

void RowBuffer::Shape(std::size_t row_count_max, std::size_t width) {
  if (width == width_ && row_count_max == pointers_.size()) return;
  if (row_count_max * width > capacity_) {
    capacity_ = row_count_max * width;
    buffer_ = FloatBuffer(capacity_);
  }
  width_ = width;
  pointers_.resize(row_count_max);
  for (std::size_t row = 0; row < row_count_max; ++row) {
    pointers_[row] = buffer_.data() + row * width;
  }
}

}  // namespace kvd
