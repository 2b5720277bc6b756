// Learned embeddings of positions (Radford et al. 2019), which are added to the embeddings of the
// tokens.
#pragma once

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

// stream[row] += row `position of the token` of weights.position_embedding. REQUIRES: all positions
// are below ModelConfig::position_count.
void AddPositionEmbeddings(ForwardPass& pass);

}  // namespace kvd
