// Norms of queries and keys that differ from an RMS norm of each head before its rotation.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

struct HeadShape {
  std::size_t heads;
  std::size_t dim;
};

// Norms each head of a row x [heads, dim] with weights of its own, [heads, dim].
void NormHeadsApart(const ForwardPass& pass, HeadShape shape, const float* weights, float* x);

enum class Turn : std::uint8_t { kToPositions, kBack };

// Rotates the queries and keys of all rows for the positions of their tokens, or back.
//
// A model that norms queries and keys after their rotation (Tencent 2025, Hunyuan) turns them to
// their positions, norms them, and turns them back. Then the usual rotation follows: keys rotate
// when they are stored, and attention rotates queries for each extent, because shifted keys are
// stored as rotated for another position. REQUIRES: the rotation's attention_factor is 1.
void TurnHeads(ForwardPass& pass, std::size_t layer, const RowBuffer& q, const RowBuffer& k,
               Turn turn);

}  // namespace kvd
