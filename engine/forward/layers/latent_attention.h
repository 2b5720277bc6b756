// Multi-head latent attention (DeepSeek-AI 2024, V2): keys and values of all heads are products of
// one latent row c per token. Each key is followed by a part r, which is the same for all heads and
// is rotated in DeepSeek's models.
//
// With caches_latent, a cell holds [c, r] and no head's own keys and values: because q . (U c) =
// (U^T q) . c, the queries are taken to the space of c, attention sums weighted latent rows, and
// each head's sum is expanded to the head's values after attention.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

// stream += residual_scale * Out(Attention(x)), with x = rms_norm(stream).
void RunLatentAttentionLayer(ForwardPass& pass, std::size_t layer);

}  // namespace kvd
