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

// rope.sections; their sum is 1 to head_dim_k. REQUIRES: ReadRope was called.
Status ReadRopeSections(const ConfigReader& reader, ModelConfig& config);

// window of each layer, as "attention.sliding_window_pattern" says: of every so many layers the last
// has none (0: all have one, 1: none has), or a list that tells of each layer whether it has one.
Status ReadWindows(const ConfigReader& reader, std::uint32_t window, std::uint32_t period_default,
                   ModelConfig& config);

// window_rope: that of the other layers with this scale, and this base unless the file names one.
// kUnsupported: heads of another length. REQUIRES: ReadRope was called.
Status ReadWindowRope(const ConfigReader& reader, float freq_base_default, float freq_scale,
                      ModelConfig& config);

// kUnsupported: attention that is not causal.
Status RequireCausal(const ConfigReader& reader);

}  // namespace kvd
