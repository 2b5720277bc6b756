#include "tools/make_model/architecture_metadata.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace kvd {
namespace {

// Returns the number of elements of a query head.
std::uint32_t HeadLength(const ModelShape& shape) {
  return shape.head_dim != 0 ? shape.head_dim : shape.embedding / shape.heads;
}

// Returns the number of KV heads of each layer of a hybrid; 0 for a recurrent layer.
std::vector<std::uint32_t> KvHeadsOfHybrid(const ModelShape& shape) {
  std::vector<std::uint32_t> kv_heads(shape.layers, 0);
  for (std::uint32_t layer = 1; layer < shape.layers; layer += 2) kv_heads[layer] = shape.kv_heads;
  return kv_heads;
}

void AddRwkv(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  writer.AddF32(prefix + "attention.layer_norm_epsilon", shape.rms_epsilon);
  writer.AddU32(prefix + "wkv.head_size", HeadLength(shape));
  const std::uint32_t rank = shape.low_rank;
  if (shape.architecture == Architecture::kRwkv6) {
    writer.AddU32(prefix + "time_mix_extra_dim", rank);
    writer.AddU32(prefix + "time_decay_extra_dim", 2 * rank);
    return;
  }
  writer.AddU32(prefix + "attention.decay_lora_rank", 2 * rank);
  writer.AddU32(prefix + "attention.iclr_lora_rank", rank);
  writer.AddU32(prefix + "attention.value_residual_mix_lora_rank", rank);
  writer.AddU32(prefix + "attention.gate_lora_rank", 2 * rank);
}

// Adds the metadata of qwen35, whose recurrent layers have the head count and the head size of the
// attention layers.
void AddQwen35(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  const std::uint32_t head_dim = HeadLength(shape);
  writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  writer.AddU32(prefix + "full_attention_interval", 2);
  writer.AddU32Array(prefix + "rope.dimension_sections",
                     std::vector<std::uint32_t>{1, 1, head_dim / 4, 1});
  writer.AddU32(prefix + "ssm.conv_kernel", shape.convolution_width);
  writer.AddU32(prefix + "ssm.state_size", head_dim);
  writer.AddU32(prefix + "ssm.group_count", shape.kv_heads);
  writer.AddU32(prefix + "ssm.time_step_rank", shape.heads);
  writer.AddU32(prefix + "ssm.inner_size", shape.heads * head_dim);
}

// Adds the layers of nemotron_h, which are Mamba-2, feed-forward, attention, feed-forward, and so
// on.
void AddNemotronLayers(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  std::vector<std::uint32_t> kv_heads(shape.layers, 0), feed_forward(shape.layers, 0);
  for (std::uint32_t layer = 1; layer < shape.layers; ++layer) {
    (layer % 4 == 2 ? kv_heads : feed_forward)[layer] =
        layer % 4 == 2 ? shape.kv_heads : (layer % 2 == 1 ? shape.ffn : 0);
  }
  writer.AddU32Array(prefix + "attention.head_count_kv", kv_heads);
  writer.AddU32Array(prefix + "feed_forward_length", feed_forward);
}

// Returns whether every model of the architecture has experts.
bool NeedsExperts(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen2Moe:
    case Architecture::kQwen3Moe:
    case Architecture::kQwen35Moe:
    case Architecture::kQwen3Next:
    case Architecture::kGraniteMoe:
    case Architecture::kGlm4Moe:
    case Architecture::kOlmoe:
    case Architecture::kGptOss:
    case Architecture::kLfm2Moe:
    case Architecture::kNemotronHMoe:
    case Architecture::kErnie45Moe:
    case Architecture::kMiniMaxM2:
    case Architecture::kDeepseek2:
    case Architecture::kHunyuanMoe:
    case Architecture::kPhiMoe:
    case Architecture::kBailingMoe2:
    case Architecture::kKimiLinear: return true;
    default: return false;
  }
}

// Adds the sizes of a mixture of experts. The engine's reader of metadata ignores keys that the
// model's architecture does not use.
void AddExperts(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  if (shape.experts == 0 && !NeedsExperts(shape.architecture)) return;
  const std::uint32_t size = shape.expert_ffn != 0 ? shape.expert_ffn : shape.ffn;
  writer.AddU32(prefix + "expert_count", shape.experts != 0 ? shape.experts : 4);
  writer.AddU32(prefix + "expert_used_count", shape.experts_used != 0 ? shape.experts_used : 2);
  writer.AddU32(prefix + "expert_feed_forward_length", size);
  writer.AddU32(prefix + "expert_shared_feed_forward_length",
                shape.shared_ffn != 0 ? shape.shared_ffn : size);
  // The architecture deepseek2 has the key expert_shared_count instead of
  // expert_shared_feed_forward_length.
  writer.AddU32(prefix + "expert_shared_count",
                shape.shared_ffn != 0 ? shape.shared_ffn / size : 1);
  writer.AddU32(prefix + "leading_dense_block_count", shape.leading_dense);
  constexpr std::uint32_t kSigmoid = 2;
  switch (shape.architecture) {
    case Architecture::kBailingMoe2:
    case Architecture::kKimiLinear:
    case Architecture::kLfm2Moe:
    case Architecture::kMiniMaxM2: writer.AddU32(prefix + "expert_gating_func", kSigmoid); break;
    case Architecture::kGlm4Moe:
    case Architecture::kNemotronHMoe: writer.AddBool(prefix + "expert_weights_norm", true); break;
    case Architecture::kErnie45Moe: writer.AddU32(prefix + "interleave_moe_layer_step", 1); break;
    default: break;
  }
}

// granite and granitemoe: the scales of Granite 3.
void AddGranite(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  writer.AddF32(prefix + "embedding_scale", 12.0f);
  writer.AddF32(prefix + "residual_scale", 0.22f);
  writer.AddF32(prefix + "attention.scale", 1.0f / static_cast<float>(HeadLength(shape)));
  writer.AddF32(prefix + "logit_scale", 8.0f);
}

// Keys of architectures whose norms are layer norms.
void AddLayerNorms(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  writer.AddF32(prefix + "attention.layer_norm_epsilon", shape.rms_epsilon);
  writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  switch (shape.architecture) {
    case Architecture::kCohere2:
      if (shape.window == 0) writer.AddU32(prefix + "attention.sliding_window", 16);
      [[fallthrough]];
    case Architecture::kCommandR: writer.AddF32(prefix + "logit_scale", 0.0625f); break;
    case Architecture::kStableLm: writer.AddBool(prefix + "use_parallel_residual", false); break;
    default: break;
  }
}

void AddLatentAttention(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  const std::uint32_t query_dim = HeadLength(shape);
  const std::uint32_t rotated_dim = shape.rotated_dim != 0 ? shape.rotated_dim : query_dim / 2;
  const std::uint32_t rank = shape.latent_rank != 0 ? shape.latent_rank : query_dim;
  const std::uint32_t value_dim = shape.value_dim != 0 ? shape.value_dim : query_dim;
  writer.AddU32(prefix + "attention.kv_lora_rank", rank);
  writer.AddU32(prefix + "rope.dimension_count", rotated_dim);
  writer.AddU32(prefix + "attention.key_length",
                shape.caches_latent ? rank + rotated_dim : query_dim);
  writer.AddU32(prefix + "attention.value_length", shape.caches_latent ? rank : value_dim);
  if (!shape.caches_latent) return;
  writer.AddU32(prefix + "attention.key_length_mla", query_dim);
  writer.AddU32(prefix + "attention.value_length_mla", value_dim);
}

void AddDeepseek2(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  writer.AddU32(prefix + "attention.head_count_kv", shape.caches_latent ? 1 : shape.heads);
  writer.AddU32(prefix + "attention.q_lora_rank", shape.query_rank);
  AddLatentAttention(shape, prefix, writer);
}

// kimi-linear: every second layer has latent attention. The heads of the other layers have the
// length of a value.
void AddKimiLinear(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  // A latent row is the only KV head of a layer.
  std::vector<std::uint32_t> kv_heads(shape.layers, 0);
  for (std::uint32_t layer = 1; layer < shape.layers; layer += 2) {
    kv_heads[layer] = shape.caches_latent ? 1 : shape.heads;
  }
  writer.AddU32Array(prefix + "attention.head_count_kv", kv_heads);
  AddLatentAttention(shape, prefix, writer);
  writer.AddU32(prefix + "ssm.conv_kernel", 4);
  writer.AddU32(prefix + "kda.head_dim",
                shape.value_dim != 0 ? shape.value_dim : HeadLength(shape));
}

// gemma4: the heads of layers without a window have twice the elements. Without experts, the second
// half of the layers reads the cells of the first, and layers have inputs.
void AddGemma4(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  constexpr std::uint32_t kLayerInputMax = 256;
  const std::uint32_t dim = HeadLength(shape);
  const std::uint32_t period = shape.window_period != 0 ? shape.window_period : 2;
  std::vector<bool> has_window(shape.layers);
  std::vector<std::uint32_t> kv_heads(shape.layers, shape.kv_heads);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    has_window[layer] = (layer + 1) % period != 0;
    if (!has_window[layer] && shape.kv_heads % 2 == 0) kv_heads[layer] /= 2;
  }
  const std::uint32_t first_shared = std::max(period, shape.layers / 2 / period * period);
  const bool shares = shape.experts == 0 && period > 1 && first_shared < shape.layers;
  writer.AddU32Array(prefix + "attention.head_count_kv", kv_heads);
  for (const char* suffix :
       {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    writer.AddU32(prefix + suffix, 2 * dim);
    writer.AddU32(prefix + suffix + "_swa", dim);
  }
  if (shape.window == 0) writer.AddU32(prefix + "attention.sliding_window", 16);
  writer.AddBoolArray(prefix + "attention.sliding_window_pattern", has_window);
  writer.AddU32(prefix + "attention.shared_kv_layers", shares ? shape.layers - first_shared : 0);
  writer.AddU32(prefix + "embedding_length_per_layer_input",
                shape.experts == 0 ? std::min(shape.embedding, kLayerInputMax) : 0);
  writer.AddF32(prefix + "final_logit_softcapping", 30.0f);
}

// gemma3n: four of five layers have a window; layers after the fifth read the cells of the fourth
// and the fifth.
void AddGemma3n(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  constexpr std::uint32_t kPeriod = 5, kLayerInputMax = 256;
  writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  if (shape.window == 0) writer.AddU32(prefix + "attention.sliding_window", 16);
  writer.AddU32(prefix + "attention.shared_kv_layers",
                shape.layers > kPeriod ? shape.layers - kPeriod : 0);
  writer.AddU32(prefix + "embedding_length_per_layer_input",
                std::min(shape.embedding, kLayerInputMax));
}

// Encoders that compute embeddings. Those with windows have one of 16 positions by default.
void AddEncoder(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  writer.AddF32(prefix + "attention.layer_norm_epsilon", shape.rms_epsilon);
  writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  const bool is_gemma = shape.architecture == Architecture::kGemmaEmbedding;
  if (shape.window == 0 && (is_gemma || shape.architecture == Architecture::kModernBert)) {
    writer.AddU32(prefix + "attention.sliding_window", 16);
  }
  if (!is_gemma) return;
  writer.AddU32(prefix + "dense_2_feat_in", shape.embedding);
  writer.AddU32(prefix + "dense_2_feat_out", 4 * shape.embedding);
  writer.AddU32(prefix + "dense_3_feat_in", 4 * shape.embedding);
  writer.AddU32(prefix + "dense_3_feat_out", shape.embedding);
}

// Adds how texts are pooled. A decoder has no pooling unless the shape names one.
void AddPooling(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  if (!shape.pooling && !IsEncoder(shape.architecture)) return;
  writer.AddU32(prefix + "pooling_type",
                static_cast<std::uint32_t>(shape.pooling.value_or(Pooling::kMean)));
  if (shape.pooling != Pooling::kRank || shape.labels == 1) return;
  std::vector<std::string> labels;
  for (std::uint32_t i = 0; i < shape.labels; ++i) labels.push_back(Concat("label-", i));
  const std::vector<std::string_view> views(labels.begin(), labels.end());
  writer.AddStringArray(prefix + "classifier.output_labels", views);
}

void AddSsm(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  const bool is_second =
      shape.architecture != Architecture::kMamba && shape.architecture != Architecture::kJamba;
  const std::uint32_t inner = 2 * shape.embedding;
  const std::uint32_t heads = std::max(1u, inner / shape.ssm_head_dim);
  writer.AddU32(prefix + "ssm.conv_kernel", 4);
  writer.AddU32(prefix + "ssm.inner_size", inner);
  writer.AddU32(prefix + "ssm.state_size", shape.state_size);
  writer.AddU32(prefix + "ssm.time_step_rank", is_second ? heads : (shape.embedding + 15) / 16);
  if (is_second) writer.AddU32(prefix + "ssm.group_count", 1);
  switch (shape.architecture) {
    case Architecture::kNemotronH:
    case Architecture::kNemotronHMoe:
      // llama.cpp requires this epsilon, which only layers that predict drafts use.
      writer.AddF32(prefix + "attention.layer_norm_epsilon", shape.rms_epsilon);
      AddNemotronLayers(shape, prefix, writer);
      break;
    case Architecture::kJamba:
    case Architecture::kGraniteHybrid:
      writer.AddU32Array(prefix + "attention.head_count_kv", KvHeadsOfHybrid(shape));
      break;
    case Architecture::kFalconH1:
      writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
      break;
    default: break;
  }
}

}  // namespace

bool IsEncoder(Architecture architecture) {
  return architecture == Architecture::kBert || architecture == Architecture::kNomicBert ||
         architecture == Architecture::kJinaBertV2 || architecture == Architecture::kModernBert ||
         architecture == Architecture::kGemmaEmbedding;
}

bool HasSegmentTypes(Architecture architecture) {
  return architecture == Architecture::kBert || architecture == Architecture::kNomicBert ||
         architecture == Architecture::kJinaBertV2;
}

bool HasOwnHeadLengths(Architecture architecture) {
  return architecture == Architecture::kDeepseek2 || architecture == Architecture::kGemma4 ||
         architecture == Architecture::kKimiLinear;
}

bool HasOwnFeedForwardLengths(Architecture architecture) {
  return architecture == Architecture::kNemotronH || architecture == Architecture::kNemotronHMoe;
}

bool HasFusedQkv(Architecture architecture) {
  return architecture == Architecture::kGpt2 || architecture == Architecture::kFalcon ||
         architecture == Architecture::kBailingMoe2;
}

BiasSet DefaultBiases(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen2: return BiasSet::kQkv;
    case Architecture::kGpt2:
    case Architecture::kGptOss:
    case Architecture::kPhi2:
    case Architecture::kPhiMoe:
    case Architecture::kStarCoder2: return BiasSet::kAll;
    default: return BiasSet::kNone;
  }
}

void AddArchitectureMetadata(const ModelShape& shape, const std::string& prefix,
                             GgufWriter& writer) {
  AddExperts(shape, prefix, writer);
  AddPooling(shape, prefix, writer);
  switch (shape.architecture) {
    case Architecture::kLfm2:
    case Architecture::kLfm2Moe:
      writer.AddU32Array(prefix + "attention.head_count_kv", KvHeadsOfHybrid(shape));
      writer.AddU32(prefix + "shortconv.l_cache", shape.convolution_width);
      break;
    case Architecture::kRwkv6:
    case Architecture::kRwkv7: AddRwkv(shape, prefix, writer); break;
    case Architecture::kDeepseek2: AddDeepseek2(shape, prefix, writer); break;
    case Architecture::kKimiLinear: AddKimiLinear(shape, prefix, writer); break;
    case Architecture::kGemma4: AddGemma4(shape, prefix, writer); break;
    case Architecture::kGemma3n: AddGemma3n(shape, prefix, writer); break;
    case Architecture::kQwen35:
    case Architecture::kQwen35Moe:
    case Architecture::kQwen3Next: AddQwen35(shape, prefix, writer); break;
    case Architecture::kMamba:
    case Architecture::kMamba2:
    case Architecture::kJamba:
    case Architecture::kGraniteHybrid:
    case Architecture::kNemotronH:
    case Architecture::kNemotronHMoe:
    case Architecture::kFalconH1: AddSsm(shape, prefix, writer); break;
    case Architecture::kGptOss:
      writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
      if (shape.window == 0) writer.AddU32(prefix + "attention.sliding_window", 16);
      break;
    case Architecture::kGranite:
    case Architecture::kGraniteMoe: AddGranite(shape, prefix, writer); break;
    case Architecture::kOlmoe:
      // The architecture has as many KV heads as query heads.
      writer.AddU32(prefix + "attention.head_count_kv", shape.heads);
      break;
    case Architecture::kCommandR:
    case Architecture::kCohere2:
    case Architecture::kPhi2:
    case Architecture::kStableLm:
    case Architecture::kFalcon:
    case Architecture::kStarCoder2:
    case Architecture::kGpt2: AddLayerNorms(shape, prefix, writer); break;
    case Architecture::kBert:
    case Architecture::kNomicBert:
    case Architecture::kJinaBertV2:
    case Architecture::kModernBert:
    case Architecture::kGemmaEmbedding: AddEncoder(shape, prefix, writer); break;
    case Architecture::kT5:
      writer.AddU32(prefix + "attention.relative_buckets_count", 32);
      writer.AddU32(prefix + "decoder_start_token_id", 0);
      break;
    default: writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  }
}

}  // namespace kvd
