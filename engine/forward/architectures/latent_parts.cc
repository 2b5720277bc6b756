#include "engine/forward/architectures/latent_parts.h"

#include "engine/forward/architectures/common_tensors.h"

namespace kvd {

Status RequireEqual(const ConfigReader& reader, std::string_view suffix, std::uint64_t expected,
                    std::string_view meaning) {
  KVD_TRY(const auto found, reader.file().GetU64Or(reader.Key(suffix), expected));
  if (found == expected) return {};
  return Fail(Code::kCorrupt, reader.Key(suffix), ": ", found, ", must be ", expected, ", ",
              meaning);
}

// Files with matrices per head (attn_k_b and attn_v_b) declare the lengths of a query head and of a
// value head by keys of their own, and the shape of a cell by the ordinary keys.
Result<std::uint32_t> ReadLatentHeads(const ConfigReader& reader, ModelConfig& config) {
  LatentAttentionConfig& latent = config.latent;
  KVD_TRY(latent.rank, reader.Count("attention.kv_lora_rank", ModelConfig::kHeadDimMax));
  latent.caches_latent =
      reader.Has("attention.key_length_mla") && reader.Has("attention.value_length_mla");
  const std::string_view key_suffix =
      latent.caches_latent ? "attention.key_length_mla" : "attention.key_length";
  const std::string_view value_suffix =
      latent.caches_latent ? "attention.value_length_mla" : "attention.value_length";
  KVD_TRY(const std::uint32_t query_dim, reader.Count(key_suffix, ModelConfig::kHeadDimMax));
  KVD_TRY(latent.value_dim, reader.Count(value_suffix, ModelConfig::kHeadDimMax));
  KVD_TRY(latent.shared_dim, reader.Count("rope.dimension_count", ModelConfig::kHeadDimMax));
  if (latent.shared_dim >= query_dim) {
    return FailRange(reader.Key("rope.dimension_count"), latent.shared_dim, 1, query_dim - 1);
  }
  latent.plain_dim = query_dim - latent.shared_dim;
  if (latent.caches_latent) {
    config.head_dim_k = latent.rank + latent.shared_dim;
    config.head_dim_v = latent.rank;
    KVD_CHECK_OK(RequireEqual(reader, "attention.key_length", config.head_dim_k,
                              "kv_lora_rank and rope.dimension_count together"));
  } else {
    config.head_dim_k = query_dim;
    config.head_dim_v = latent.value_dim;
  }
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    std::uint32_t& kv_heads = config.kv_head_count[layer];
    if (kv_heads == 0) continue;
    if (latent.caches_latent) {
      kv_heads = 1;
    } else if (kv_heads != config.head_count[layer]) {
      return Fail(Code::kCorrupt, reader.Key("attention.head_count_kv"), ": ", kv_heads,
                  " of layer ", layer, ", must be ", config.head_count[layer],
                  ", because every head has keys of its own");
    }
  }
  return query_dim;
}

Status VisitLatentAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                            LatentAttentionWeights& weights) {
  const LatentAttentionConfig& latent = config.latent;
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size, heads = config.head_count[layer];
  const auto linear = [&](const char* name, std::uint64_t in_features, std::uint64_t out_features,
                          LinearView& target) {
    return VisitLinear(visitor, block + name, in_features, out_features, BiasRule::kNone,
                       ScaleRule::kBeforeBias, target);
  };
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  const std::uint64_t query_size = heads * (latent.plain_dim + latent.shared_dim);
  if (latent.query_rank != 0) {
    KVD_CHECK_OK(linear("attn_q_a", embedding, latent.query_rank, weights.query_down));
    KVD_CHECK_OK(
        VisitNorm(visitor, block + "attn_q_a_norm", latent.query_rank, weights.query_norm));
    KVD_CHECK_OK(linear("attn_q_b", latent.query_rank, query_size, weights.query));
  } else {
    KVD_CHECK_OK(linear("attn_q", embedding, query_size, weights.query));
  }
  KVD_CHECK_OK(linear("attn_kv_a_mqa", embedding, latent.rank + latent.shared_dim, weights.latent));
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_kv_a_norm", latent.rank, weights.latent_norm));
  if (latent.caches_latent) {
    KVD_CHECK_OK(visitor.MatrixStack(block + "attn_k_b.weight", latent.plain_dim, latent.rank,
                                     heads, Presence::kRequired, weights.key_up));
    KVD_CHECK_OK(visitor.MatrixStack(block + "attn_v_b.weight", latent.rank, latent.value_dim,
                                     heads, Presence::kRequired, weights.value_up));
    // attn_k_b and attn_v_b are the two halves of attn_kv_b, which is not needed in addition.
    KVD_CHECK_OK(visitor.Ignore(block + "attn_kv_b.weight"));
  } else {
    KVD_CHECK_OK(linear("attn_kv_b", latent.rank, heads * (latent.plain_dim + latent.value_dim),
                        weights.key_value_up));
  }
  return linear("attn_output", heads * latent.value_dim, embedding, weights.out);
}

}  // namespace kvd
