#include <array>
#include <string>

#include "engine/architectures/architecture.h"
#include "engine/architectures/bert.h"
#include "engine/architectures/gemma.h"
#include "engine/architectures/lfm2.h"
#include "engine/architectures/llama.h"
#include "engine/architectures/mamba.h"
#include "engine/architectures/phi3.h"
#include "engine/architectures/qwen35.h"
#include "engine/architectures/rwkv.h"
#include "engine/architectures/t5.h"
#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::array kArchitectures = {
    &kLlamaDefinition,  &kQwen2Definition,         &kQwen3Definition,    &kGemma2Definition,
    &kGemma3Definition, &kLfm2Definition,          &kPhi3Definition,     &kRwkv6Definition,
    &kRwkv7Definition,  &kQwen35Definition,        &kMambaDefinition,    &kMamba2Definition,
    &kJambaDefinition,  &kGraniteHybridDefinition, &kFalconH1Definition, &kBertDefinition,
    &kT5Definition,
};

}  // namespace

std::span<const ArchitectureDefinition* const> Architectures() { return kArchitectures; }

const ArchitectureDefinition& DefinitionOf(Architecture architecture) {
  for (const ArchitectureDefinition* definition : kArchitectures) {
    if (definition->architecture == architecture) return *definition;
  }
  KVD_ASSERT(false);  // every enumerator has its definition
  return *kArchitectures.front();
}

Result<const ArchitectureDefinition*> DefinitionByName(std::string_view name) {
  std::string supported;
  for (const ArchitectureDefinition* definition : kArchitectures) {
    if (definition->name == name) return definition;
    supported += (supported.empty() ? "" : ", ") + std::string(definition->name);
  }
  return Fail(Code::kUnsupported, "general.architecture: " + PrintableText(name) +
                                      " is not supported; those that are: " + supported);
}

}  // namespace kvd
