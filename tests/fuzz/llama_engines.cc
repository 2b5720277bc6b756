#include "tests/fuzz/llama_engines.h"

#include <array>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "engine/model/model_config.h"
#include "tests/fuzz/small_engines.h"

namespace kvd::test {
namespace {

constexpr std::uint32_t kCells = 256;

struct Kind {
  std::string_view name;
  Architecture architecture;
  std::uint32_t head_dim = 32;
  kernels::DataType cells = kernels::DataType::kF16;
};
constexpr Kind kKinds[kLlamaEngines] = {
    {"llama", Architecture::kLlama},
    {"rotated", Architecture::kLlama, 64, kernels::DataType::kQ8_0},
    {"gemma2", Architecture::kGemma2},
    {"mamba2", Architecture::kMamba2},
    {"rwkv7", Architecture::kRwkv7},
    {"jamba", Architecture::kJamba},
    {"lfm2", Architecture::kLfm2},
    {"qwen35", Architecture::kQwen35},
};

ModelShape ShapeOf(const Kind& kind) {
  ModelShape shape;
  shape.name = "fuzz";
  shape.architecture = kind.architecture;
  shape.layers = 2;
  if (kind.architecture == Architecture::kJamba || kind.architecture == Architecture::kLfm2 ||
      kind.architecture == Architecture::kQwen35) {
    shape.layers = 4;  // attention layers and recurrent layers
  }
  shape.embedding = 32;
  shape.heads = 1;
  shape.kv_heads = 1;
  shape.head_dim = kind.head_dim;
  shape.ffn = 32;
  shape.low_rank = 8;
  shape.state_size = 4;
  shape.ssm_head_dim = 32;
  shape.vocab = 64;
  shape.context = kCells;
  if (kind.architecture == Architecture::kGemma2) shape.window = 12;
  return shape;
}

}  // namespace

std::string LlamaEngineName(std::size_t number) { return std::string(kKinds[number].name); }

Engine& LlamaEngine(std::size_t number) {
  static std::array<std::unique_ptr<Engine>, kLlamaEngines> engines;
  KVD_ASSERT(number < engines.size());
  const Kind& kind = kKinds[number];
  if (engines[number] == nullptr) {
    engines[number] = MakeSmallEngine(ShapeOf(kind), {.cells = kCells,
                                                      .sequence_capacity = 64,
                                                      .snapshot_capacity = 8,
                                                      .session_capacity = 8,
                                                      .state_slots = 16,
                                                      .threads = 1,
                                                      .k_type = kind.cells,
                                                      .v_type = kind.cells});
  }
  return *engines[number];
}

}  // namespace kvd::test
