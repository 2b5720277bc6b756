// Inputs of layers: each token has a short row for each layer, made from the token's number and
// from its embedding before the first layer (Gemma Team 2025, Gemma 3n: per-layer embeddings).
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

// Scratch::kLayerInputs = (table * sqrt(size) + norm(projection(stream) / sqrt(n))) / sqrt(2), with
// n = embedding_size. Does nothing if the model has no inputs of layers. REQUIRES: the stream holds
// the scaled embeddings.
void ComputeLayerInputs(ForwardPass& pass);

// The row of the layer that gates the layer's input: gelu(gate(x)) * input. [rows, size], in
// Scratch::kGate.
const RowBuffer& GatedLayerInput(ForwardPass& pass, std::size_t layer, const RowBuffer& x);

}  // namespace kvd
