// Views of weights in a mapped GGUF file.
#pragma once

#include <cstddef>

#include "kernels/data_type.h"

namespace kvd {

// A matrix [out_features, in_features], stored row by row; a row has RowBytes(type, in_features)
// bytes. The `data` of a whole tensor is aligned to at least 8 bytes. The `data` of a slice of a
// fused tensor is aligned only to the row size.
struct WeightView {
  kernels::DataType type = kernels::DataType::kF32;
  std::size_t in_features = 0;
  std::size_t out_features = 0;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
};

// A matrix with an optional bias vector and an optional scale:
//   y = scale * (W x) + bias      or, with scale_after_bias,
//   y = scale * (W x + bias).
struct LinearView {
  WeightView weight;
  const float* bias = nullptr;  // [out_features] or null
  float scale = 1.0f;           // NAME.scale of the file; finite
  // Whether the bias is added before the multiplication by `scale`; as in llama.cpp, true for
  // feed-forward layers and false for all others.
  bool scale_after_bias = false;
};

// Weights of a norm.
struct NormWeights {
  const float* weight = nullptr;  // [elements]; null: there is no norm
  const float* bias = nullptr;    // [elements]; or null
};

}  // namespace kvd
