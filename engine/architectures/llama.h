// llama and its siblings qwen2 and qwen3: RMS norm, grouped-query attention, gated feed-forward.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

// What distinguishes the siblings.
struct LlamaTraits {
  bool rope_interleaved = false;  // pairs (2i, 2i+1) rotate together; else (i, i + rotated_dim/2)
  bool has_qk_norm = false;       // q and k are RMS-normed per head before the rotation
  bool has_rope_factors = false;  // reads rope_freqs.weight (llama3 scaling)
  bool has_attention_output_bias = false;  // reads attn_output.bias
  bool has_feed_forward_bias = false;      // reads ffn_{gate,up,down}.bias
  // Applies ffn_{gate,up,down}.scale (qwen2 accepts and ignores them).
  bool has_feed_forward_scale = false;
  bool has_output_bias = false;  // reads output.bias
};

const LlamaTraits& LlamaTraitsOf(Architecture architecture);

extern const ArchitectureDefinition kLlamaDefinition;
extern const ArchitectureDefinition kQwen2Definition;
extern const ArchitectureDefinition kQwen3Definition;

}  // namespace kvd
