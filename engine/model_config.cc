// Each number is read by a function that knows its key and its range, so that every refusal names
// both. The defaults and the order of precedence are those of llama.cpp (src/llama-model.cpp,
// load_hparams; src/llama-context.cpp for YaRN).
#include "engine/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace kvd {
namespace {

// clang-format off
constexpr std::array<ArchitectureTraits, 3> kArchitectures = {{
    {.architecture = Architecture::kLlama, .name = "llama", .rope_interleaved = true,
     .has_qk_norm = false, .has_rope_factors = true, .has_attention_output_bias = true,
     .has_feed_forward_bias = true, .has_feed_forward_scale = true, .has_output_bias = false},
    {.architecture = Architecture::kQwen2, .name = "qwen2", .rope_interleaved = false,
     .has_qk_norm = false, .has_rope_factors = false, .has_attention_output_bias = false,
     .has_feed_forward_bias = false, .has_feed_forward_scale = false, .has_output_bias = true},
    {.architecture = Architecture::kQwen3, .name = "qwen3", .rope_interleaved = false,
     .has_qk_norm = true, .has_rope_factors = false, .has_attention_output_bias = false,
     .has_feed_forward_bias = false, .has_feed_forward_scale = true, .has_output_bias = false},
}};
// clang-format on

std::unexpected<Error> FailRange(const std::string& key, std::uint64_t found, std::uint64_t min,
                                 std::uint64_t max) {
  return Fail(Code::kCorrupt, key + ": " + std::to_string(found) + ", must be " +
                                  std::to_string(min) + " to " + std::to_string(max));
}

// Reads the keys "ARCHITECTURE.suffix" of one file.
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string Key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool Has(std::string_view suffix) const { return file_.Has(Key(suffix)); }

  // 1 to `max`.
  Result<std::uint32_t> Count(std::string_view suffix, std::uint32_t max) const {
    std::string key = Key(suffix);
    KVD_TRY(auto count, file_.GetU64(key));
    if (count < 1 || count > max) return FailRange(key, count, 1, max);
    return static_cast<std::uint32_t>(count);
  }
  Result<std::uint32_t> CountOr(std::string_view suffix, std::uint32_t fallback,
                                std::uint32_t max) const {
    if (!Has(suffix)) return fallback;
    return Count(suffix, max);
  }

  // One number for all layers, or an array with one for each.
  Result<std::vector<std::uint32_t>> PerLayer(std::string_view suffix, std::uint32_t layer_count,
                                              std::uint32_t max) const {
    std::string key = Key(suffix);
    const GgufEntry* entry = file_.FindEntry(key);
    if (entry == nullptr || entry->type != GgufType::kArray) {
      KVD_TRY(auto count, Count(suffix, max));
      return std::vector<std::uint32_t>(layer_count, count);
    }
    if (entry->count != layer_count) {
      return Fail(Code::kCorrupt, key + ": " + std::to_string(entry->count) +
                                      " elements, there are " + std::to_string(layer_count) +
                                      " layers");
    }
    KVD_TRY(auto counts, file_.GetU32Array(key));
    for (std::uint32_t count : counts) {
      if (count < 1 || count > max) return FailRange(key, count, 1, max);
    }
    return counts;
  }

  // Finite and above 0.
  Result<float> Positive(std::string_view suffix, float fallback) const {
    std::string key = Key(suffix);
    KVD_TRY(auto number, file_.GetF32Or(key, fallback));
    if (!std::isfinite(number) || number <= 0.0f) {
      return Fail(Code::kCorrupt,
                  key + ": " + std::to_string(number) + ", must be finite and above 0");
    }
    return number;
  }

  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// Features of sibling models under the same architecture name that we do not compute.
Status RefuseUnsupported(const ConfigReader& reader) {
  KVD_TRY(auto experts, reader.file().GetU64Or(reader.Key("expert_count"), 0));
  if (experts != 0) {
    return Fail(Code::kUnsupported, reader.Key("expert_count") + ": " + std::to_string(experts) +
                                        ", mixtures of experts are not supported");
  }
  KVD_TRY(auto causal, reader.file().GetBoolOr(reader.Key("attention.causal"), true));
  if (!causal) {
    return Fail(Code::kUnsupported,
                reader.Key("attention.causal") + ": false, only causal attention is supported");
  }
  return {};
}

Status ReadHeads(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(config.head_count,
          reader.PerLayer("attention.head_count", config.layer_count, ModelConfig::kHeadCountMax));
  config.kv_head_count = config.head_count;
  if (reader.Has("attention.head_count_kv")) {
    KVD_TRY(config.kv_head_count, reader.PerLayer("attention.head_count_kv", config.layer_count,
                                                  ModelConfig::kHeadCountMax));
  }
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    if (config.head_count[layer] % config.kv_head_count[layer] != 0) {
      return Fail(Code::kCorrupt, reader.Key("attention.head_count") + ": " +
                                      std::to_string(config.head_count[layer]) + " of layer " +
                                      std::to_string(layer) + " is no multiple of its " +
                                      std::to_string(config.kv_head_count[layer]) + " KV heads");
    }
  }
  // Without an explicit length the heads divide the embedding among them.
  if (!reader.Has("attention.key_length") &&
      config.embedding_size % config.head_count.front() != 0) {
    return Fail(Code::kCorrupt, reader.Key("embedding_length") + ": " +
                                    std::to_string(config.embedding_size) +
                                    " is no multiple of the " +
                                    std::to_string(config.head_count.front()) + " heads");
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
    return Fail(Code::kUnsupported,
                reader.Key("attention.value_length") + ": " + std::to_string(config.head_dim_v) +
                    " differs from the key length " + std::to_string(config.head_dim_k));
  }
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim_k));
  return {};
}

// The pair of a head that turns `rotations` times within the original context.
float YarnPair(const RopeConfig& rope, float rotations) {
  auto context = static_cast<float>(rope.original_context_length);
  return static_cast<float>(rope.rotated_dim) *
         std::log(context / (rotations * 2.0f * std::numbers::pi_v<float>)) /
         (2.0f * std::log(rope.freq_base));
}

Status ReadYarn(const ConfigReader& reader, RopeConfig& rope) {
  KVD_TRY(rope.yarn_ext_factor,
          reader.file().GetF32Or(reader.Key("rope.scaling.yarn_ext_factor"), 1.0f));
  // A negative number stands for "not set".
  if (rope.yarn_ext_factor < 0.0f) rope.yarn_ext_factor = 1.0f;
  if (!(rope.yarn_ext_factor <= 1.0f)) {
    return Fail(Code::kCorrupt, reader.Key("rope.scaling.yarn_ext_factor") + ": " +
                                    std::to_string(rope.yarn_ext_factor) + ", must be 0 to 1");
  }
  KVD_TRY(rope.yarn_beta_fast, reader.Positive("rope.scaling.yarn_beta_fast", 32.0f));
  KVD_TRY(rope.yarn_beta_slow, reader.Positive("rope.scaling.yarn_beta_slow", 1.0f));
  float low = std::floor(YarnPair(rope, rope.yarn_beta_fast));
  float high = std::ceil(YarnPair(rope, rope.yarn_beta_slow));
  if (!std::isfinite(low) || !std::isfinite(high)) {
    return Fail(Code::kCorrupt, reader.Key("rope.freq_base") + ": " +
                                    std::to_string(rope.freq_base) +
                                    " leaves YaRN's ramp undefined");
  }
  rope.yarn_low = std::max(0.0f, low);
  rope.yarn_high = std::min(static_cast<float>(rope.rotated_dim - 1), high);
  // cos and sin grow by 1 + 0.1 ln(factor) where positions are compressed.
  if (rope.yarn_ext_factor != 0.0f && rope.freq_scale < 1.0f) {
    rope.attention_factor *= 1.0f + 0.1f * std::log(1.0f / rope.freq_scale);
  }
  return {};
}

Result<RopeScaling> ReadScaling(const ConfigReader& reader) {
  std::string key = reader.Key("rope.scaling.type");
  KVD_TRY(auto type, reader.file().GetStringOr(key, "linear"));
  if (type == "none") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "yarn") return RopeScaling::kYarn;
  return Fail(Code::kUnsupported,
              key + ": " + PrintableText(type) + ", those supported are none, linear and yarn");
}

// 1 / rope.scaling.factor; files of 2023 call it rope.scale_linear; 0 stands for 1.
Result<float> ReadFrequencyScale(const ConfigReader& reader) {
  std::string key = reader.Key("rope.scaling.factor");
  if (!reader.file().Has(key)) key = reader.Key("rope.scale_linear");
  KVD_TRY(auto factor, reader.file().GetF32Or(key, 0.0f));
  if (factor == 0.0f) return 1.0f;
  float scale = 1.0f / factor;
  if (!std::isnormal(factor) || factor < 0.0f || !std::isnormal(scale)) {
    return Fail(Code::kCorrupt,
                key + ": " + std::to_string(factor) + ", must be finite and above 0");
  }
  return scale;
}

Status ReadRope(const ConfigReader& reader, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.interleaved = config.traits().rope_interleaved;
  KVD_TRY(rope.rotated_dim,
          reader.CountOr("rope.dimension_count", config.head_dim_k, config.head_dim_k));
  if (rope.rotated_dim % 2 != 0) {
    return Fail(Code::kCorrupt, reader.Key("rope.dimension_count") + ": " +
                                    std::to_string(rope.rotated_dim) + " is odd");
  }
  KVD_TRY(rope.freq_base, reader.Positive("rope.freq_base", 10000.0f));
  KVD_TRY(rope.original_context_length,
          reader.CountOr("rope.scaling.original_context_length", config.context_length,
                         std::numeric_limits<std::int32_t>::max()));
  KVD_TRY(rope.attention_factor, reader.Positive("rope.scaling.attn_factor", 1.0f));
  KVD_TRY(rope.scaling, ReadScaling(reader));
  KVD_TRY(rope.freq_scale, ReadFrequencyScale(reader));
  switch (rope.scaling) {
    case RopeScaling::kYarn: return ReadYarn(reader, rope);
    case RopeScaling::kNone: rope.freq_scale = 1.0f; break;
    case RopeScaling::kLinear:
    case RopeScaling::kLlama3:
      if (rope.freq_scale == 1.0f) rope.scaling = RopeScaling::kNone;
      break;
  }
  if (config.traits().has_rope_factors &&
      reader.file().FindTensor("rope_freqs.weight") != nullptr) {
    rope.scaling = RopeScaling::kLlama3;
  }
  return {};
}

// A tokenizer's list of tokens goes before the declared number, as the token ids are its.
Result<std::uint32_t> ReadVocabSize(const ConfigReader& reader) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  if (!reader.file().Has(kTokens)) return reader.Count("vocab_size", ModelConfig::kVocabSizeMax);
  KVD_TRY(auto count, reader.file().GetArrayCount(kTokens));
  if (count < 1 || count > ModelConfig::kVocabSizeMax) {
    return FailRange(std::string(kTokens), count, 1, ModelConfig::kVocabSizeMax);
  }
  return static_cast<std::uint32_t>(count);
}

bool HasQkvBias(const GgufFile& file) {
  return file.FindTensor("blk.0.attn_q.bias") != nullptr ||
         file.FindTensor("blk.0.attn_k.bias") != nullptr ||
         file.FindTensor("blk.0.attn_v.bias") != nullptr ||
         file.FindTensor("blk.0.attn_qkv.bias") != nullptr;
}

}  // namespace

std::span<const ArchitectureTraits> SupportedArchitectures() { return kArchitectures; }

const ArchitectureTraits& Traits(Architecture architecture) {
  for (const ArchitectureTraits& traits : kArchitectures) {
    if (traits.architecture == architecture) return traits;
  }
  return kArchitectures.front();  // not reached: every enumerator has its row
}

std::string_view RopeScalingName(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone: return "none";
    case RopeScaling::kLinear: return "linear";
    case RopeScaling::kYarn: return "yarn";
    case RopeScaling::kLlama3: return "llama3";
  }
  return "unknown";
}

Result<Architecture> ArchitectureByName(std::string_view name) {
  std::string supported;
  for (const ArchitectureTraits& traits : kArchitectures) {
    if (traits.name == name) return traits.architecture;
    supported += (supported.empty() ? "" : ", ") + std::string(traits.name);
  }
  return Fail(Code::kUnsupported, "general.architecture: " + PrintableText(name) +
                                      " is not supported; those that are: " + supported);
}

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  KVD_TRY(auto name, file.GetString("general.architecture"));
  ModelConfig config;
  KVD_TRY(config.architecture, ArchitectureByName(name));
  KVD_TRY(auto model_name, file.GetStringOr("general.name", ""));
  config.name = PrintableText(model_name);

  ConfigReader reader(file, name);
  KVD_CHECK_OK(RefuseUnsupported(reader));
  KVD_TRY(config.vocab_size, ReadVocabSize(reader));
  KVD_TRY(config.context_length,
          reader.Count("context_length", std::numeric_limits<std::int32_t>::max()));
  KVD_TRY(config.embedding_size, reader.Count("embedding_length", ModelConfig::kEmbeddingSizeMax));
  KVD_TRY(config.layer_count, reader.Count("block_count", ModelConfig::kLayerCountMax));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, config));
  if (!reader.Has("attention.layer_norm_rms_epsilon")) {
    return Fail(Code::kNotFound,
                reader.Key("attention.layer_norm_rms_epsilon") + ": missing from the metadata");
  }
  KVD_TRY(config.rms_epsilon, reader.Positive("attention.layer_norm_rms_epsilon", 0.0f));
  KVD_CHECK_OK(ReadRope(reader, config));
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  config.has_qkv_bias = HasQkvBias(file);
  return config;
}

}  // namespace kvd
