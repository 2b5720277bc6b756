// Weights of the layers of RWKV-6 and RWKV-7. E = embedding_size.
#pragma once

#include <array>

#include "engine/model/weight_view.h"

namespace kvd {

// Two matrices of a small common rank, with a function f between them: y = second(f(first(x))).
struct LowRank {
  LinearView first;   // E -> rank
  LinearView second;  // rank -> E
};

struct Rwkv6TimeMix {
  NormWeights norm;
  // [E]: share of the previous token's row in the input of the mixing.
  const float* mix_x = nullptr;
  LinearView mix_first;                     // E -> 5 * rank
  std::array<LinearView, 5> mix_second;     // rank -> E, for w, k, v, r and g
  std::array<const float*, 5> mix = {};     // [E] each
  const float* first = nullptr;             // [E]: u
  const float* decay = nullptr;             // [E]
  LowRank decay_lora;                       // f = tanh
  LinearView key, value, receptance, gate;  // E -> E
  NormWeights group_norm;                   // [E], a group is a head
  LinearView out;                           // E -> E
};

struct Rwkv7TimeMix {
  NormWeights norm;
  std::array<const float*, 6> mix = {};  // [E] each, for r, w, k, v, a and g
  const float* w0 = nullptr;             // [E]
  LowRank w;                             // f = tanh
  const float* a0 = nullptr;             // [E]
  LowRank a;
  const float* v0 = nullptr;  // [E]; null in the first layer
  LowRank v;
  LowRank g;                          // f = logistic function
  const float* k_k = nullptr;         // [E]
  const float* k_a = nullptr;         // [E]
  const float* r_k = nullptr;         // [E]
  LinearView key, value, receptance;  // E -> E
  NormWeights group_norm;             // [E], a group is a head
  LinearView out;                     // E -> E
};

struct RwkvChannelMix {
  NormWeights norm;
  const float* mix_k = nullptr;  // [E]
  const float* mix_r = nullptr;  // [E]; RWKV-6
  LinearView key;                // E -> feed_forward_size
  LinearView value;              // feed_forward_size -> E
  LinearView receptance;         // E -> E; RWKV-6
};

}  // namespace kvd
