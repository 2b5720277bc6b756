// Reads the metadata keys that every architecture has; the format of the architecture reads the
// other keys (engine/forward/architectures). The defaults are those of llama.cpp
// (src/llama-model.cpp, load_hparams).
#include "engine/model/model_config.h"

#include <array>
#include <limits>

#include "engine/model/config_reader.h"
#include "engine/model/model_format.h"

namespace kvd {
namespace {

// Refuses a file that declares experts if its architecture has no experts.
Status CheckExpertsAreRead(const ConfigReader& reader, const ModelConfig& config) {
  KVD_TRY(const auto experts, reader.file().GetU64Or(reader.Key("expert_count"), 0));
  if (experts == 0 || config.experts.count != 0) return {};
  return Fail(Code::kUnsupported, reader.Key("expert_count"), ": ", experts, ", architecture ",
              config.architecture_name(), " is not supported with experts");
}

// The length of the tokenizer's list of tokens takes precedence over the declared vocab_size,
// because token ids are indices into that list.
Result<std::uint32_t> ReadVocabSize(const ConfigReader& reader) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  if (!reader.file().Has(kTokens)) return reader.Count("vocab_size", ModelConfig::kVocabSizeMax);
  KVD_TRY(auto count, reader.file().GetArrayCount(kTokens));
  if (count < 1 || count > ModelConfig::kVocabSizeMax) {
    return FailRange(std::string(kTokens), count, 1, ModelConfig::kVocabSizeMax);
  }
  return static_cast<std::uint32_t>(count);
}

}  // namespace

std::string_view ModelConfig::architecture_name() const {
  return format == nullptr ? std::string_view("unknown") : format->name;
}

std::size_t StateFloatsOf(const ModelConfig& config, std::size_t layer) {
  if (config.format == nullptr || config.format->state_floats == nullptr) return 0;
  return config.format->state_floats(config, layer);
}

std::string_view RopeScalingName(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone: return "none";
    case RopeScaling::kLinear: return "linear";
    case RopeScaling::kYarn: return "yarn";
    case RopeScaling::kLlama3: return "llama3";
    case RopeScaling::kLongRope: return "longrope";
  }
  return "unknown";
}

constexpr std::array<std::string_view, 5> kPoolingNames = {"none", "mean", "cls", "last", "rank"};

std::string_view PoolingName(Pooling pooling) {
  return kPoolingNames[static_cast<std::size_t>(pooling)];
}

std::optional<Pooling> PoolingByName(std::string_view name) {
  for (std::size_t i = 0; i < kPoolingNames.size(); ++i) {
    if (kPoolingNames[i] == name) return static_cast<Pooling>(i);
  }
  return std::nullopt;
}

Status CheckDecoder(const ModelConfig& config) {
  if (config.has_decoder) return {};
  return Fail(Code::kUnsupported, "decode: a model of architecture ", config.architecture_name(),
              " has no decoder; it only embeds texts");
}

Result<ModelConfig> ReadModelConfig(const GgufFile& file, const ModelFormat& format) {
  ModelConfig config;
  config.architecture = format.architecture;
  config.format = &format;
  KVD_TRY(auto model_name, file.GetStringOr("general.name", ""));
  config.name = PrintableText(model_name);

  ConfigReader reader(file, format.name);
  KVD_TRY(config.vocab_size, ReadVocabSize(reader));
  KVD_TRY(config.context_length,
          reader.Count("context_length", std::numeric_limits<std::int32_t>::max()));
  KVD_TRY(config.embedding_size, reader.Count("embedding_length", ModelConfig::kEmbeddingSizeMax));
  KVD_TRY(config.layer_count, reader.Count("block_count", ModelConfig::kLayerCountMax));
  config.layer_kind.assign(config.layer_count, LayerKind::kAttention);
  config.head_count.assign(config.layer_count, 0);
  config.kv_head_count.assign(config.layer_count, 0);
  config.feed_forward_size.assign(config.layer_count, 0);
  config.window.assign(config.layer_count, 0);
  config.has_experts.assign(config.layer_count, false);
  config.is_unrotated.assign(config.layer_count, false);
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  KVD_CHECK_OK(format.read_config(reader, config));
  KVD_CHECK_OK(CheckExpertsAreRead(reader, config));
  return config;
}

}  // namespace kvd
