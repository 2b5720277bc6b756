// The sizes of the models are the smallest ones that satisfy two conditions: dimensions that could
// be confused have different sizes, and heads and weight rows that may be stored as q8_0 are
// multiples of 32 elements.
#include "tests/reference/golden_models.h"

#include "engine/forward/architectures/architecture.h"

namespace kvd::reference {
namespace {

// Tolerances of golden models; tests/data/README.md gives the reasons for the values.
constexpr double kSingle = 1e-10;
constexpr double kGeluOfHalves = 1e-7;
constexpr double kGatesOfHalves = 1e-6;
constexpr double kQuantised = 3e-3;

ModelShape Small(Architecture architecture, std::uint64_t seed) {
  ModelShape shape;
  shape.name = "golden";
  shape.architecture = architecture;
  shape.layers = 3;
  shape.embedding = 48;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 32;
  shape.ffn = 80;
  shape.vocab = 72;
  shape.context = 256;
  shape.type = kernels::DataType::kF32;
  shape.seed = seed;
  return shape;
}

ModelShape Llama() {
  ModelShape shape = Small(Architecture::kLlama, 1);
  shape.rope_base = 50000;
  return shape;
}

ModelShape QuantisedLlama() {
  ModelShape shape = Small(Architecture::kLlama, 2);
  shape.layers = 1;
  shape.embedding = 64;
  shape.ffn = 96;
  shape.type = kernels::DataType::kQ8_0;
  shape.tied = true;
  shape.rope_scaling = RopeScaling::kLlama3;
  shape.rope_factor = 8;
  shape.rope_original_context = 64;
  return shape;
}

ModelShape Gemma3() {
  ModelShape shape = Small(Architecture::kGemma3, 3);
  shape.rope_base = 1e6f;
  shape.window = 16;
  shape.window_period = 3;
  shape.tied = true;
  return shape;
}

ModelShape Mamba() {
  ModelShape shape = Small(Architecture::kMamba, 4);
  shape.ffn = 0;
  shape.state_size = 12;
  return shape;
}

ModelShape Jamba() {
  ModelShape shape = Small(Architecture::kJamba, 5);
  shape.state_size = 12;
  return shape;
}

ModelShape T5() {
  ModelShape shape = Small(Architecture::kT5, 7);
  shape.layers = 2;
  shape.embedding = 40;
  shape.heads = shape.kv_heads = 2;
  shape.ffn = 56;
  shape.gated = false;
  return shape;
}

ModelShape Experts() {
  ModelShape shape = Small(Architecture::kQwen3Moe, 8);
  shape.layers = 2;
  shape.embedding = 24;
  shape.heads = 3;
  shape.kv_heads = 1;
  shape.experts = 5;
  shape.experts_used = 2;
  shape.expert_ffn = 20;
  return shape;
}

ModelShape LatentRows() {
  ModelShape shape = Small(Architecture::kDeepseek2, 9);
  shape.layers = 2;
  shape.embedding = 24;
  shape.heads = 3;
  shape.head_dim = 44;
  shape.rotated_dim = 16;
  shape.latent_rank = 48;
  shape.query_rank = 20;
  shape.value_dim = 36;
  shape.ffn = 40;
  shape.leading_dense = 1;
  shape.experts = 4;
  shape.experts_used = 2;
  shape.expert_ffn = 20;
  shape.shared_ffn = 20;
  return shape;
}

// The layers 2 and 3 read the cells of the layers 0 (with a window) and 1.
ModelShape SharedCells() {
  ModelShape shape = Small(Architecture::kGemma4, 10);
  shape.layers = 4;
  shape.embedding = 24;
  shape.heads = 2;
  shape.kv_heads = 2;
  shape.ffn = 40;
  shape.rope_base = 1e6f;
  shape.window = 16;
  shape.window_period = 2;
  return shape;
}

ModelShape Texts() {
  ModelShape shape = Small(Architecture::kBert, 11);
  shape.layers = 2;
  shape.heads = shape.kv_heads = 3;
  shape.head_dim = 16;
  shape.ffn = 56;
  shape.context = 64;
  shape.bias = BiasSet::kAll;
  return shape;
}

}  // namespace

std::vector<GoldenModel> GoldenModels() {
  return {
      {"attention", Llama(), MemoryKind::kCells, kSingle},
      {"attention-q8_0", QuantisedLlama(), MemoryKind::kCells, kQuantised},
      {"window", Gemma3(), MemoryKind::kWindows, kGeluOfHalves},
      {"state", Mamba(), MemoryKind::kStates, kSingle},
      {"attention-and-state", Jamba(), MemoryKind::kStates, kSingle},
      {"attention-and-convolution", Small(Architecture::kLfm2, 6), MemoryKind::kStates, kSingle},
      {"encoder-decoder", T5(), MemoryKind::kEncodedText, kSingle},
      {"experts", Experts(), MemoryKind::kCells, kSingle},
      {"latent-rows", LatentRows(), MemoryKind::kCells, kSingle},
      {"shared-cells", SharedCells(), MemoryKind::kWindows, kGatesOfHalves},
      {"texts", Texts(), MemoryKind::kNone, kGeluOfHalves},
  };
}

golden::Case CaseWithoutRows(const GoldenModel& model) {
  golden::Case golden;
  golden.architecture = DefinitionOf(model.shape.architecture).format.name;
  golden.weight_type = kernels::DataTypeName(model.shape.type);
  golden.vocab_size = model.shape.vocab;
  golden.embedding_size = model.shape.embedding;
  golden.tolerance = model.tolerance;
  golden.llama_shifts = false;  // shifts are computed exactly (docs/decisions/0005)
  golden.scenarios = MakeScenarios(model.memory, model.shape.vocab, model.shape.embedding);
  return golden;
}

}  // namespace kvd::reference
