// What every architecture declares; the rest is read by its own definition (engine/architectures).
// The defaults are those of llama.cpp (src/llama-model.cpp, load_hparams).
#include "engine/model_config.h"

#include <limits>

#include "engine/architectures/architecture.h"
#include "engine/config_reader.h"

namespace kvd {
namespace {

Status RefuseExperts(const ConfigReader& reader) {
  KVD_TRY(auto experts, reader.file().GetU64Or(reader.Key("expert_count"), 0));
  if (experts == 0) return {};
  return Fail(Code::kUnsupported, reader.Key("expert_count") + ": " + std::to_string(experts) +
                                      ", mixtures of experts are not supported");
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

}  // namespace

std::string_view ModelConfig::architecture_name() const { return DefinitionOf(architecture).name; }

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

Status CheckDecoder(const ModelConfig& config) {
  if (config.has_decoder) return {};
  return Fail(Code::kUnsupported, "decode: a model of architecture " +
                                      std::string(config.architecture_name()) +
                                      " has no decoder; it embeds texts");
}

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  KVD_TRY(auto name, file.GetString("general.architecture"));
  KVD_TRY(const ArchitectureDefinition* definition, DefinitionByName(name));
  ModelConfig config;
  config.architecture = definition->architecture;
  KVD_TRY(auto model_name, file.GetStringOr("general.name", ""));
  config.name = PrintableText(model_name);

  ConfigReader reader(file, name);
  KVD_CHECK_OK(RefuseExperts(reader));
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
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  KVD_CHECK_OK(definition->read_config(reader, config));
  return config;
}

}  // namespace kvd
