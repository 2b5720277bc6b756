// Views of weights in the mapping of a GGUF file.
#pragma once

#include <cstddef>

#include "kernels/data_type.h"

namespace kvd {

// A matrix [out_features, in_features], row after row, each row RowBytes(type, in_features) long.
// `data` is aligned to 8 at least for a whole tensor, to the row's bytes for a slice of a fused
// one.
struct WeightView {
  kernels::DataType type = kernels::DataType::kF32;
  std::size_t in_features = 0;
  std::size_t out_features = 0;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
};

// A matrix with the optional vector and number that may come with it:
//   y = scale * (W x) + bias                    or, with scale_after_bias,
//   y = scale * (W x + bias).
struct LinearView {
  WeightView weight;
  const float* bias = nullptr;  // [out_features] or null
  float scale = 1.0f;           // NAME.scale of the file; finite
  bool scale_after_bias =
      false;  // the order in which llama.cpp applies them: feed-forward after, all others before
};

}  // namespace kvd
