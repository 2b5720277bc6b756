// Attention as t5 has it: scores that are not scaled get a bias by distance, and nothing rotates.
//
// The scores of a query with all keys stand side by side before one softmax, and the weights are
// normalised before they meet the values. Short texts allow that, and the order of every sum is then
// the one that ggml's CPU backend takes without flash attention, bit for bit: behind the GELU that
// both round to f16 one different bit would show (docs/decisions/0017). A row's result depends on
// its sequence alone.
#pragma once

#include <cstddef>

#include "engine/compute.h"
#include "engine/forward_pass.h"
#include "engine/layers/position_bias.h"

namespace kvd {

// Rows [first_row, first_row + row_count) of a text of key_count tokens.
struct PlainTextShape {
  std::size_t head_count = 0;
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  std::size_t first_row = 0;
  std::size_t row_count = 0;
};

// Every row sees the whole text: q and out are [row_count, head_count * head_dim], k and v
// [key_count, head_count * head_dim]. bias: EncoderBias.
void RunPlainTextAttention(const Compute& compute, const PlainTextShape& shape,
                           const PositionBias& bias, const float* q, const float* k, const float* v,
                           float* out);

// Rows of the ubatch over the cells of their sequences, each up to itself; q and out: [rows,
// head_count * head_dim]. bias: DecoderBias. REQUIRES: K and V of the new cells are in the pool;
// their keys are not rotated.
void RunPlainAttention(ForwardPass& pass, std::size_t layer, const PositionBias& bias,
                       const RowBuffer& q, const RowBuffer& out);

// The same over all cells of the sequences' encoded texts, without a bias.
void RunPlainCrossAttention(ForwardPass& pass, std::size_t layer, const RowBuffer& q,
                            const RowBuffer& out);

}  // namespace kvd
