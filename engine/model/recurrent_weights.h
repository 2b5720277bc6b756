// Weights of recurrent layers.
#pragma once

#include <array>

#include "engine/model/weight_view.h"

namespace kvd {

// Weights of a gated delta net. Keys and values of a head have the same size. In the shapes K is
// the size of all keys of a token and V the size of all its values.
struct GatedDeltaNetWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  LinearView qkv;               // embedding_size -> 2 * K + V
  LinearView gate;              // embedding_size -> V
  LinearView alpha;             // embedding_size -> value_heads
  LinearView beta;              // embedding_size -> value_heads
  // qwen3next has the matrix `in` instead of qkv and gate, with the rows of each key head's query,
  // key, values of its value heads and their gates; and it has one matrix instead of alpha and
  // beta, with the rows of the betas of each key head's value heads and of their alphas.
  LinearView in;
  LinearView beta_alpha;
  const float* taps = nullptr;         // [2 * K + V, convolution_width]
  const float* alpha_bias = nullptr;   // [value_heads]
  const float* decay_scale = nullptr;  // [value_heads], negative
  const float* head_norm = nullptr;    // [head_size]
  LinearView out;                      // V -> embedding_size
};

// Weights of Kimi Delta Attention. In the shapes, N is the number of elements of all heads of a
// token, head_count * head_size.
struct KimiDeltaAttentionWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  LinearView q;                 // embedding_size -> N
  LinearView k;
  LinearView v;
  const float* q_taps = nullptr;  // [N, convolution_width]
  const float* k_taps = nullptr;
  const float* v_taps = nullptr;
  LinearView beta;                     // embedding_size -> head_count
  LinearView decay_down;               // embedding_size -> head_size
  LinearView decay_up;                 // head_size -> N
  const float* decay_bias = nullptr;   // [N]
  const float* decay_scale = nullptr;  // [head_count], negative
  LinearView gate_down;                // embedding_size -> head_size
  LinearView gate_up;                  // head_size -> N
  const float* head_norm = nullptr;    // [head_size]
  LinearView out;                      // N -> embedding_size
};

// Weights of a Mamba mixer: Mamba (selective scan per channel) or Mamba-2 (scan per head).
struct MambaWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  // Mamba: embedding_size -> x | z, each inner_size. Mamba-2: embedding_size -> z | x | B | C | dt.
  LinearView in;
  const float* taps = nullptr;       // [convolved channels, conv_width]
  const float* conv_bias = nullptr;  // [convolved channels] or null
  LinearView x;                      // Mamba: inner_size -> dt | B | C
  LinearView dt;                     // Mamba: time_step_rank -> inner_size
  const float* dt_bias = nullptr;    // Mamba: [inner_size]; Mamba-2: [heads]
  const float* dt_norm = nullptr;    // [time_step_rank] or null; RMS norms of dt, B and C (jamba)
  const float* b_norm = nullptr;     // [state_size]
  const float* c_norm = nullptr;     // [state_size]
  const float* a = nullptr;          // Mamba: [inner_size, state_size]; Mamba-2: [heads]; negative
  const float* d = nullptr;          // Mamba: [inner_size]; Mamba-2: [heads]
  const float* out_norm = nullptr;   // Mamba-2: [inner_size], normed by groups; or null
  LinearView out;                    // inner_size -> embedding_size
};

// Weights of the layers of RWKV-6 and RWKV-7. E = embedding_size.

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

// Weights of a gated short convolution.
struct ShortConvolutionWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  LinearView in;                // embedding_size -> 3 * embedding_size: B, C and x
  const float* taps = nullptr;  // [embedding_size, width]
  LinearView out;               // embedding_size -> embedding_size
};

}  // namespace kvd
