// What layers receive in addition to the rows of the layer before: embeddings of positions, inputs
// by token, and parallel streams.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

// Learned embeddings of positions (Radford et al. 2019), which are added to the embeddings of the
// tokens.

// stream[row] += row `position of the token` of weights.position_embedding. REQUIRES: all positions
// are below ModelConfig::position_count.
void AddPositionEmbeddings(ForwardPass& pass);

// Inputs of layers: each token has a short row for each layer, made from the token's number and
// from its embedding before the first layer (Gemma Team 2025, Gemma 3n: per-layer embeddings).

// Scratch::kLayerInputs = (table * sqrt(size) + norm(projection(stream) / sqrt(n))) / sqrt(2), with
// n = embedding_size. Does nothing if the model has no inputs of layers. REQUIRES: the stream holds
// the scaled embeddings.
void ComputeLayerInputs(ForwardPass& pass);

// The row of the layer that gates the layer's input: gelu(gate(x)) * input. [rows, size], in
// Scratch::kGate.
const RowBuffer& GatedLayerInput(ForwardPass& pass, std::size_t layer, const RowBuffer& x);

// The parallel streams of gemma3n (engine/model/layer_weights.h). The streams are stored in
// Scratch::kStreams; pass.stream() holds the rows that the layer computes with.

// Makes all parallel streams from the token embeddings in pass.stream().
void SpreadStreams(ForwardPass& pass);
// Predicts the streams after the layer; pass.stream() becomes the prediction of the first stream.
void PredictStreams(ForwardPass& pass, std::size_t layer);
// The low-rank product of the layer's input h: h + norm(up(down(h))). In Scratch::kConvolved.
const RowBuffer& RunLaurel(ForwardPass& pass, std::size_t layer, const RowBuffer& h);
// Corrects the predictions of all streams by the difference of pass.stream() from the first
// prediction, then adds the layer's input to all streams but the first.
void CorrectStreams(ForwardPass& pass, std::size_t layer);
// pass.stream() = the mean of all parallel streams.
void CollectStreams(ForwardPass& pass);

}  // namespace kvd
