// The element types that cached keys and values may have.
#pragma once

#include "kernels/data_type.h"

namespace kvd::kernels {

inline constexpr DataType kCellTypes[] = {DataType::kF32, DataType::kF16, DataType::kBF16,
                                          DataType::kQ8_0, DataType::kQ4_0};

constexpr bool IsCellType(DataType type) {
  for (const DataType cell_type : kCellTypes) {
    if (type == cell_type) return true;
  }
  return false;
}

}  // namespace kvd::kernels
