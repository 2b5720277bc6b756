// Weights of the parallel streams of gemma3n (Baykal et al. 2023, alternating updates; Gemma Team
// 2025). Every token has kStreamCount rows; a layer computes with the first one and predicts the
// others.
#pragma once

#include <array>
#include <cstddef>

#include "engine/model/weight_view.h"

namespace kvd {

inline constexpr std::size_t kStreamCount = 4;

struct AltupLayerWeights {
  const float* router_norm = nullptr;  // [embedding_size]
  LinearView router;                   // embedding_size -> kStreamCount
  LinearView predict;                  // kStreamCount -> kStreamCount * kStreamCount
  LinearView correct;                  // kStreamCount -> kStreamCount
  const float* scale = nullptr;        // [embedding_size]: of the first stream, for layer inputs
  // A low-rank product beside attention (Menghani et al. 2025, learned augmented residuals).
  LinearView laurel_down;              // embedding_size -> kLaurelRank
  LinearView laurel_up;                // kLaurelRank -> embedding_size
  const float* laurel_norm = nullptr;  // [embedding_size]
};
inline constexpr std::size_t kLaurelRank = 64;

// embedding_size -> embedding_size, for each stream but the first.
struct AltupWeights {
  std::array<LinearView, kStreamCount - 1> spread;   // from the embedding to the stream
  std::array<LinearView, kStreamCount - 1> collect;  // from the stream to the output
};

}  // namespace kvd
