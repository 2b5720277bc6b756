// The parallel streams of gemma3n (engine/model/altup_weights.h). The streams are stored in
// Scratch::kStreams; pass.stream() holds the rows that the layer computes with.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

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
