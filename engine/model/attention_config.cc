// The defaults of missing keys and the precedence of keys are those of llama.cpp
// (src/llama-model.cpp, load_hparams; src/llama-context.cpp for YaRN).
#include "engine/model/attention_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace kvd {

Status RequireCausal(const ConfigReader& reader) {
  KVD_TRY(auto causal, reader.file().GetBoolOr(reader.Key("attention.causal"), true));
  if (causal) return {};
  return Fail(Code::kUnsupported, reader.Key("attention.causal"),
              ": false, only causal attention is supported");
}

Status ReadHeadCounts(const ConfigReader& reader, HeadRule rule, ModelConfig& config) {
  KVD_TRY(config.head_count,
          reader.PerLayer("attention.head_count", config.layer_count, ModelConfig::kHeadCountMax));
  config.kv_head_count = config.head_count;
  if (reader.Has("attention.head_count_kv")) {
    const std::uint32_t min = rule == HeadRule::kEveryLayer ? 1 : 0;
    KVD_TRY(config.kv_head_count, reader.PerLayer("attention.head_count_kv", config.layer_count,
                                                  ModelConfig::kHeadCountMax, min));
  }
  config.layer_kind.assign(config.layer_count, LayerKind::kAttention);
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    if (config.kv_head_count[layer] == 0) {
      config.layer_kind[layer] = LayerKind::kRecurrent;
      continue;
    }
    if (config.head_count[layer] % config.kv_head_count[layer] != 0) {
      return Fail(Code::kCorrupt, reader.Key("attention.head_count"), ": ",
                  config.head_count[layer], " of layer ", layer, " is not a multiple of its ",
                  config.kv_head_count[layer], " KV heads");
    }
  }
  return {};
}

Status ReadHeads(const ConfigReader& reader, HeadRule rule, ModelConfig& config) {
  KVD_CHECK_OK(ReadHeadCounts(reader, rule, config));
  // Without an explicit key length, the heads divide the embedding among them.
  if (!reader.Has("attention.key_length") &&
      config.embedding_size % config.head_count.front() != 0) {
    return Fail(Code::kCorrupt, reader.Key("embedding_length"), ": ", config.embedding_size,
                " is not a multiple of the ", config.head_count.front(), " heads");
  }
  std::uint32_t head_dim = config.embedding_size / config.head_count.front();
  KVD_TRY(config.head_dim_k,
          reader.CountOr("attention.key_length", head_dim, ModelConfig::kHeadDimMax));
  KVD_TRY(config.head_dim_v,
          reader.CountOr("attention.value_length", head_dim, ModelConfig::kHeadDimMax));
  if (config.head_dim_k > ModelConfig::kHeadDimMax || config.head_dim_k == 0) {
    return FailRange(reader.Key("attention.key_length"), config.head_dim_k, 1,
                     ModelConfig::kHeadDimMax);
  }
  if (config.head_dim_v != config.head_dim_k) {
    return Fail(Code::kUnsupported, reader.Key("attention.value_length"), ": ", config.head_dim_v,
                " differs from the key length ", config.head_dim_k);
  }
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim_k));
  return {};
}

namespace {

// The pair of a head that makes `rotations` full turns within the original context.
float YarnPair(const RopeConfig& rope, float rotations) {
  auto context = static_cast<float>(rope.original_context_length);
  return static_cast<float>(rope.rotated_dim) *
         std::log(context / (rotations * 2.0f * std::numbers::pi_v<float>)) /
         (2.0f * std::log(rope.freq_base));
}

Status ReadYarn(const ConfigReader& reader, RopeConfig& rope) {
  KVD_TRY(rope.yarn_ext_factor,
          reader.file().GetF32Or(reader.Key("rope.scaling.yarn_ext_factor"), 1.0f));
  // A negative number means "not set".
  if (rope.yarn_ext_factor < 0.0f) rope.yarn_ext_factor = 1.0f;
  if (!(rope.yarn_ext_factor <= 1.0f)) {
    return Fail(Code::kCorrupt, reader.Key("rope.scaling.yarn_ext_factor"), ": ",
                rope.yarn_ext_factor, ", must be 0 to 1");
  }
  KVD_TRY(rope.yarn_beta_fast, reader.Positive("rope.scaling.yarn_beta_fast", 32.0f));
  KVD_TRY(rope.yarn_beta_slow, reader.Positive("rope.scaling.yarn_beta_slow", 1.0f));
  float low = std::floor(YarnPair(rope, rope.yarn_beta_fast));
  float high = std::ceil(YarnPair(rope, rope.yarn_beta_slow));
  if (!std::isfinite(low) || !std::isfinite(high)) {
    return Fail(Code::kCorrupt, reader.Key("rope.freq_base"), ": ", rope.freq_base,
                " leaves YaRN's ramp undefined");
  }
  rope.yarn_low = std::max(0.0f, low);
  rope.yarn_high = std::min(static_cast<float>(rope.rotated_dim - 1), high);
  // If YaRN compresses positions, cos and sin are multiplied by 1 + 0.1 ln(factor).
  if (rope.yarn_ext_factor != 0.0f && rope.freq_scale < 1.0f) {
    rope.attention_factor *= 1.0f + 0.1f * std::log(1.0f / rope.freq_scale);
  }
  return {};
}

Result<RopeScaling> ReadScaling(const ConfigReader& reader, Architecture architecture) {
  std::string key = reader.Key("rope.scaling.type");
  KVD_TRY(auto type, reader.file().GetStringOr(key, "linear"));
  if (type == "none") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "yarn") return RopeScaling::kYarn;
  // The factors of longrope are tensors of phi3 and phimoe. Other architectures do not read them.
  if (type == "longrope" &&
      (architecture == Architecture::kPhi3 || architecture == Architecture::kPhiMoe)) {
    return RopeScaling::kLongRope;
  }
  return Fail(Code::kUnsupported, key, ": ", PrintableText(type),
              ", those supported are none, linear and yarn");
}

// 1 / rope.scaling.factor. Files of 2023 call the key rope.scale_linear. 0 means 1.
Result<float> ReadFrequencyScale(const ConfigReader& reader) {
  std::string key = reader.Key("rope.scaling.factor");
  if (!reader.file().Has(key)) key = reader.Key("rope.scale_linear");
  KVD_TRY(auto factor, reader.file().GetF32Or(key, 0.0f));
  if (factor == 0.0f) return 1.0f;
  float scale = 1.0f / factor;
  if (!std::isnormal(factor) || factor < 0.0f || !std::isnormal(scale)) {
    return Fail(Code::kCorrupt, key, ": ", factor, ", must be finite and above 0");
  }
  return scale;
}

}  // namespace

Status ReadWindows(const ConfigReader& reader, std::uint32_t window, std::uint32_t period_default,
                   ModelConfig& config) {
  const std::string key = reader.Key("attention.sliding_window_pattern");
  const GgufEntry* entry = reader.file().FindEntry(key);
  if (entry != nullptr && entry->type == GgufType::kArray) {
    KVD_TRY(const auto has_window, reader.file().GetBoolArray(key));
    if (has_window.size() != config.layer_count) {
      return Fail(Code::kCorrupt, key, ": ", has_window.size(), " elements, there are ",
                  config.layer_count, " layers");
    }
    for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
      config.window[layer] = has_window[layer] ? window : 0;
    }
    return {};
  }
  KVD_TRY(const auto period, reader.file().GetU64Or(key, period_default));
  if (period > ModelConfig::kLayerCountMax) {
    return FailRange(key, period, 0, ModelConfig::kLayerCountMax);
  }
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    config.window[layer] = period == 0 || layer % period + 1 < period ? window : 0;
  }
  return {};
}

Status ReadWindowHeads(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(config.window_head_dim,
          reader.CountOr("attention.key_length_swa", config.head_dim_k, ModelConfig::kHeadDimMax));
  KVD_TRY(const auto value_dim, reader.CountOr("attention.value_length_swa", config.window_head_dim,
                                               ModelConfig::kHeadDimMax));
  if (value_dim != config.window_head_dim) {
    return Fail(Code::kUnsupported, reader.Key("attention.value_length_swa"), ": ", value_dim,
                " differs from the key length ", config.window_head_dim);
  }
  std::uint32_t& rotated_dim = config.window_rope.rotated_dim;
  KVD_TRY(rotated_dim, reader.CountOr("rope.dimension_count_swa", config.window_head_dim,
                                      config.window_head_dim));
  if (rotated_dim % 2 == 0) return {};
  return Fail(Code::kCorrupt, reader.Key("rope.dimension_count_swa"), ": ", rotated_dim, " is odd");
}

Status ShareCellsFrom(const ConfigReader& reader, std::uint32_t first, ModelConfig& config) {
  const std::string key = reader.Key("attention.shared_kv_layers");
  config.cell_layer.resize(config.layer_count);
  std::iota(config.cell_layer.begin(), config.cell_layer.end(), 0u);
  for (std::uint32_t layer = first; layer < config.layer_count; ++layer) {
    const std::uint32_t owner = config.window[layer] != 0 ? first - 2 : first - 1;
    if (config.window[layer] != config.window[owner]) {
      return Fail(Code::kCorrupt, key, ": layer ", layer, " would read the cells of layer ", owner,
                  ", but only one of the two has a window");
    }
    if (config.kv_head_count[layer] != config.kv_head_count[owner]) {
      return Fail(Code::kCorrupt, reader.Key("attention.head_count_kv"), ": ",
                  config.kv_head_count[layer], " of layer ", layer, ", must be ",
                  config.kv_head_count[owner], ", because it reads the cells of layer ", owner);
    }
    config.cell_layer[layer] = owner;
  }
  return {};
}

Status ReadWindowRope(const ConfigReader& reader, float freq_base_default, float freq_scale,
                      ModelConfig& config) {
  const bool has_own_heads = config.window_head_dim != 0;
  const std::uint32_t rotated_dim = config.window_rope.rotated_dim;
  for (const auto& [suffix, expected] :
       {std::pair{"attention.key_length_swa",
                  has_own_heads ? config.window_head_dim : config.head_dim_k},
        {"attention.value_length_swa", has_own_heads ? config.window_head_dim : config.head_dim_v},
        {"rope.dimension_count_swa", rotated_dim}}) {
    KVD_TRY(const auto found, reader.file().GetU64Or(reader.Key(suffix), expected));
    if (found == expected) continue;
    return Fail(Code::kUnsupported, reader.Key(suffix), ": ", found, " differs from the ", expected,
                " of the other layers");
  }
  RopeConfig& rope = config.window_rope;
  rope = config.rope;
  rope.rotated_dim = rotated_dim;
  KVD_TRY(rope.freq_base, reader.Positive("rope.freq_base_swa", freq_base_default));
  rope.freq_scale = freq_scale;
  KVD_TRY(rope.attention_factor, reader.Positive("rope.scaling.attn_factor", 1.0f));
  if (rope.scaling == RopeScaling::kYarn) return ReadYarn(reader, rope);
  rope.scaling = freq_scale == 1.0f ? RopeScaling::kNone : RopeScaling::kLinear;
  return {};
}

bool IsStillPair(const RopeConfig& rope, std::uint32_t pair) {
  const std::array<std::uint32_t, 4>& sections = rope.sections;
  const std::uint32_t total = sections[0] + sections[1] + sections[2] + sections[3];
  if (total == 0) return false;
  const std::uint32_t turn = pair % total;
  return turn >= 3 * sections[turn % 3];
}

Status ReadRopeSections(const ConfigReader& reader, ModelConfig& config) {
  const std::string key = reader.Key("rope.dimension_sections");
  KVD_TRY(const auto sections, reader.file().GetU32Array(key));
  if (sections.size() != config.rope.sections.size()) {
    return Fail(Code::kCorrupt, key, ": ", sections.size(), " elements, there are ",
                config.rope.sections.size(), " components");
  }
  std::uint64_t total = 0;
  for (const std::uint32_t section : sections) total += section;
  if (total < 1 || total > config.head_dim_k) return FailRange(key, total, 1, config.head_dim_k);
  std::ranges::copy(sections, config.rope.sections.begin());
  return {};
}

Status ReadRope(const ConfigReader& reader, bool interleaved, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.interleaved = interleaved;
  KVD_TRY(rope.rotated_dim,
          reader.CountOr("rope.dimension_count", config.head_dim_k, config.head_dim_k));
  if (rope.rotated_dim % 2 != 0) {
    return Fail(Code::kCorrupt, reader.Key("rope.dimension_count"), ": ", rope.rotated_dim,
                " is odd");
  }
  KVD_TRY(rope.freq_base, reader.Positive("rope.freq_base", 10000.0f));
  KVD_TRY(rope.original_context_length,
          reader.CountOr("rope.scaling.original_context_length", config.context_length,
                         std::numeric_limits<std::int32_t>::max()));
  KVD_TRY(rope.attention_factor, reader.Positive("rope.scaling.attn_factor", 1.0f));
  KVD_TRY(rope.scaling, ReadScaling(reader, config.architecture));
  KVD_TRY(rope.freq_scale, ReadFrequencyScale(reader));
  switch (rope.scaling) {
    case RopeScaling::kYarn: KVD_CHECK_OK(ReadYarn(reader, rope)); break;
    case RopeScaling::kNone: rope.freq_scale = 1.0f; break;
    case RopeScaling::kLongRope: break;
    case RopeScaling::kLinear:
    case RopeScaling::kLlama3:
      if (rope.freq_scale == 1.0f) rope.scaling = RopeScaling::kNone;
      break;
  }
  config.window_rope = rope;
  return {};
}

}  // namespace kvd
