#include "state_layout/row_types.h"

#include "kernels/scalar/functions.h"

namespace kvd {

void DecodeRows(kernels::DataType type, const std::byte* rows, float* floats,
                std::size_t element_count) {
  kernels::scalar::DecodeRow(type, rows, floats, element_count);
}

bool EncodeRows(kernels::DataType type, const float* floats, std::byte* rows,
                std::size_t element_count) {
  return kernels::scalar::EncodeRow(type, floats, rows, element_count);
}

}  // namespace kvd
