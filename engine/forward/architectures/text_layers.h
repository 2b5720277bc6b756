// The layers of encoders in the two forms that several architectures have: norms after the sums, as
// in bert, and norms before attention and feed-forward, as in llama.
#pragma once

#include <cstddef>

#include "engine/forward/pass/encoder_pass.h"

namespace kvd {

// x = Norm(x + Attention(x)), x = Norm(x + FeedForward(x))   (Devlin et al. 2018). EncodeBertKeys
// embeds the tokens in the first layer: x = Norm(token + type + position), without the embeddings
// that the model lacks. Every text is one segment of type 0.
void EncodeBertKeys(EncoderPass& pass, std::size_t layer);
void EncodeBertRows(EncoderPass& pass, std::size_t layer, TextActivation activation);

// x += Attention(Norm(x)), x += FeedForward(Norm(x)), and a norm after the last layer (Touvron et
// al. 2023). EncodePreNormKeys embeds the tokens in the first layer.
void EncodePreNormKeys(EncoderPass& pass, std::size_t layer);
void EncodePreNormRows(EncoderPass& pass, std::size_t layer, TextActivation activation);

}  // namespace kvd
