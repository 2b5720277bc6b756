#include "tools/make_model/architecture_metadata.h"

#include <algorithm>
#include <vector>

namespace kvd {
namespace {

// 0 for the recurrent layers.
std::vector<std::uint32_t> KvHeadsOfHybrid(const ModelShape& shape) {
  std::vector<std::uint32_t> kv_heads(shape.layers, 0);
  for (std::uint32_t layer = 1; layer < shape.layers; layer += 2) kv_heads[layer] = shape.kv_heads;
  return kv_heads;
}

void AddRwkv(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  writer.AddF32(prefix + "attention.layer_norm_epsilon", shape.rms_epsilon);
  writer.AddU32(prefix + "wkv.head_size",
                shape.head_dim != 0 ? shape.head_dim : shape.embedding / shape.heads);
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

// The sizes of the recurrent layers are those of the attention's heads.
void AddQwen35(const ModelShape& shape, const std::string& prefix, GgufWriter& writer) {
  const std::uint32_t head_dim =
      shape.head_dim != 0 ? shape.head_dim : shape.embedding / shape.heads;
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

void AddArchitectureMetadata(const ModelShape& shape, const std::string& prefix,
                             GgufWriter& writer) {
  switch (shape.architecture) {
    case Architecture::kLfm2:
      writer.AddU32Array(prefix + "attention.head_count_kv", KvHeadsOfHybrid(shape));
      writer.AddU32(prefix + "shortconv.l_cache", shape.convolution_width);
      break;
    case Architecture::kRwkv6:
    case Architecture::kRwkv7: AddRwkv(shape, prefix, writer); break;
    case Architecture::kQwen35: AddQwen35(shape, prefix, writer); break;
    case Architecture::kMamba:
    case Architecture::kMamba2:
    case Architecture::kJamba:
    case Architecture::kGraniteHybrid:
    case Architecture::kFalconH1: AddSsm(shape, prefix, writer); break;
    case Architecture::kBert:
      writer.AddF32(prefix + "attention.layer_norm_epsilon", shape.rms_epsilon);
      writer.AddU32(prefix + "pooling_type", static_cast<std::uint32_t>(shape.pooling));
      break;
    case Architecture::kT5:
      writer.AddU32(prefix + "attention.relative_buckets_count", 32);
      writer.AddU32(prefix + "decoder_start_token_id", 0);
      break;
    default: writer.AddU32(prefix + "attention.head_count_kv", shape.kv_heads);
  }
}

}  // namespace kvd
