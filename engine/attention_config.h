// Reads the numbers of attention layers: heads, lengths, rotation.
#pragma once

#include "engine/config_reader.h"
#include "engine/model_config.h"
#include "shm/error.h"

namespace kvd {

// Which layers have attention: all, or those with at least one KV head (hybrids).
enum class HeadRule : std::uint8_t { kEveryLayer, kLayersWithKvHeads };

// head_count, kv_head_count, layer_kind, head_dim_k, head_dim_v, attention_scale.
// REQUIRES: embedding_size and layer_count are read.
Status ReadHeads(const ConfigReader& reader, HeadRule rule, ModelConfig& config);

// rope, and window_rope as the same. REQUIRES: context_length and head_dim_k are read.
Status ReadRope(const ConfigReader& reader, bool interleaved, ModelConfig& config);

// kUnsupported: attention that is not causal.
Status RequireCausal(const ConfigReader& reader);

}  // namespace kvd
