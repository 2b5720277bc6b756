// Multi-head latent attention as a part of the architectures deepseek2 and kimi-linear.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/config_reader.h"
#include "engine/model/model_format.h"

namespace kvd {

// Multi-head latent attention (DeepSeek-AI 2024, V2) as a part of architectures: the numbers and
// the tensors of its layers. Names are those of llama.cpp (src/models/deepseek2.cpp).

// Returns kCorrupt with this text if the key is present and is not `expected`: "KEY: FOUND, must be
// EXPECTED, MEANING".
Status RequireEqual(const ConfigReader& reader, std::string_view suffix, std::uint64_t expected,
                    std::string_view meaning);

// Reads config.latent except query_rank, and sets kv_head_count, head_dim_k and head_dim_v to the
// shape of a cell. Returns the elements of a query head: plain_dim + shared_dim. Errors: kNotFound
// and kCorrupt; messages name the key. REQUIRES: ReadHeadCounts was called.
Result<std::uint32_t> ReadLatentHeads(const ConfigReader& reader, ModelConfig& config);

// attn_norm, attn_q (or attn_q_a, attn_q_a_norm and attn_q_b), attn_kv_a_mqa, attn_kv_a_norm,
// attn_k_b and attn_v_b (or attn_kv_b), attn_output.
Status VisitLatentAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                            LatentAttentionWeights& weights);

}  // namespace kvd
