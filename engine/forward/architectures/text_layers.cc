#include "engine/forward/architectures/text_layers.h"

namespace kvd {

void EncodeBertKeys(EncoderPass& pass, std::size_t layer) {
  const EncoderWeights& weights = pass.weights().encoder;
  if (layer == 0) {
    pass.EmbedTokens();
    if (weights.type_embedding) {
      pass.AddRows(weights.type_embedding, [](std::size_t) { return 0u; });
    }
    if (weights.position_embedding) {
      pass.AddRows(weights.position_embedding, [](std::size_t position) { return position; });
    }
    pass.Norm(weights.embedding_norm);
  }
  pass.MakeKeys(layer, pass.stream());
}

void EncodeBertRows(EncoderPass& pass, std::size_t layer, TextActivation activation) {
  const EncoderLayerWeights& weights = pass.weights().encoder.layers[layer];
  pass.AddAttention(layer, pass.stream());
  pass.Norm(weights.attention_norm);
  pass.AddFeedForward(layer, pass.stream(), activation);
  pass.Norm(weights.output_norm);
}

void EncodePreNormKeys(EncoderPass& pass, std::size_t layer) {
  const EncoderWeights& weights = pass.weights().encoder;
  if (layer == 0) pass.EmbedTokens();
  if (layer == 0 && weights.embedding_norm.weight != nullptr) pass.Norm(weights.embedding_norm);
  pass.MakeKeys(layer, pass.Normed(weights.layers[layer].attention_pre_norm));
}

void EncodePreNormRows(EncoderPass& pass, std::size_t layer, TextActivation activation) {
  const EncoderWeights& weights = pass.weights().encoder;
  pass.AddAttention(layer, pass.Normed(weights.layers[layer].attention_pre_norm));
  pass.AddFeedForward(layer, pass.Normed(weights.layers[layer].feed_forward_pre_norm), activation);
  if (layer + 1 == weights.layers.size()) pass.Norm(weights.output_norm);
}

}  // namespace kvd
