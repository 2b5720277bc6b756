// Attention of t5's encoder. Scores are not scaled but get a bias by distance, and nothing is
// rotated.
//
// All scores of a query are computed before one softmax, and the weights are normalised before they
// are multiplied with the values. Computing all scores first requires that texts are short. The
// order of every sum is that of ggml's CPU backend without flash attention, so results equal ggml's
// bit for bit. Equality of every bit matters because kvd and ggml round the input of GELU to f16,
// where a difference of one bit becomes visible (docs/decisions/0017). A row's result depends on
// the row's sequence only.
#pragma once

#include <cstddef>

#include "engine/forward/compute/compute.h"
#include "engine/model/position_bias.h"

namespace kvd {

// Queries of rows [first_row, first_row + row_count) of a text of key_count tokens.
struct PlainTextShape {
  std::size_t head_count = 0;
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  std::size_t first_row = 0;
  std::size_t row_count = 0;
};

// Every row sees the whole text. q and out: [row_count, head_count * head_dim]; k and v:
// [key_count, head_count * head_dim]. bias: from EncoderBias.
void RunPlainTextAttention(const Compute& compute, const PlainTextShape& shape,
                           const PositionBias& bias, const float* q, const float* k, const float* v,
                           float* out);

}  // namespace kvd
