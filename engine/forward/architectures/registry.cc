#include <array>
#include <string>

#include "base/check.h"
#include "engine/forward/architectures/architecture.h"
#include "engine/forward/architectures/definitions.h"

namespace kvd {
namespace {

constexpr std::array kArchitectures = {
    &kLlamaDefinition,
    &kQwen2Definition,
    &kQwen3Definition,
    &kGemma2Definition,
    &kGemma3Definition,
    &kLfm2Definition,
    &kPhi3Definition,
    &kRwkv6Definition,
    &kRwkv7Definition,
    &kQwen35Definition,
    &kMambaDefinition,
    &kMamba2Definition,
    &kJambaDefinition,
    &kGraniteHybridDefinition,
    &kFalconH1Definition,
    &kBertDefinition,
    &kT5Definition,
    &kMistral3Definition,
    &kSmolLm3Definition,
    &kQwen2MoeDefinition,
    &kQwen3MoeDefinition,
    &kGraniteDefinition,
    &kGraniteMoeDefinition,
    &kGlm4Definition,
    &kGlm4MoeDefinition,
    &kOlmo2Definition,
    &kOlmoeDefinition,
    &kGptOssDefinition,
    &kLfm2MoeDefinition,
    &kQwen35MoeDefinition,
    &kQwen3NextDefinition,
    &kNemotronHDefinition,
    &kNemotronHMoeDefinition,
    &kSeedOssDefinition,
    &kInternLm2Definition,
    &kErnie45Definition,
    &kErnie45MoeDefinition,
    &kMiniCpmDefinition,
    &kMiniMaxM2Definition,
    &kBailingMoe2Definition,
    &kExaone4Definition,
    &kGemmaDefinition,
    &kDeepseek2Definition,
    &kCommandRDefinition,
    &kCohere2Definition,
    &kPhi2Definition,
    &kStableLmDefinition,
    &kFalconDefinition,
    &kStarCoder2Definition,
    &kHunyuanDenseDefinition,
    &kHunyuanMoeDefinition,
    &kPhiMoeDefinition,
    &kGpt2Definition,
    &kGemma4Definition,
    &kGemma3nDefinition,
    &kKimiLinearDefinition,
    &kGemmaEmbeddingDefinition,
    &kNomicBertDefinition,
    &kModernBertDefinition,
    &kJinaBertV2Definition,
};

}  // namespace

std::span<const ArchitectureDefinition* const> Architectures() { return kArchitectures; }

const ArchitectureDefinition& DefinitionOf(Architecture architecture) {
  for (const ArchitectureDefinition* definition : kArchitectures) {
    if (definition->format.architecture == architecture) return *definition;
  }
  KVD_ASSERT(false);  // every enumerator has a definition
  return *kArchitectures.front();
}

Result<const ArchitectureDefinition*> DefinitionByName(std::string_view name) {
  std::string supported;
  for (const ArchitectureDefinition* definition : kArchitectures) {
    if (definition->format.name == name) return definition;
    supported += (supported.empty() ? "" : ", ") + std::string(definition->format.name);
  }
  return Fail(Code::kUnsupported, "general.architecture: ", PrintableText(name),
              " is not supported; supported: ", supported);
}

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  KVD_TRY(const auto name, file.GetString("general.architecture"));
  KVD_TRY(const ArchitectureDefinition* definition, DefinitionByName(name));
  return ReadModelConfig(file, definition->format);
}

}  // namespace kvd
