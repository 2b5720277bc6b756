#include "tests/fuzz/llama_engines.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/model_config.h"
#include "shm/check.h"
#include "shm/unique_fd.h"
#include "tools/make_model/model_maker.h"

namespace kvd::test {
namespace {

constexpr std::uint32_t kCells = 256;
constexpr std::uint32_t kVocab = 64;

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
    shape.layers = 4;  // of both kinds
  }
  shape.embedding = 32;
  shape.heads = 1;
  shape.kv_heads = 1;
  shape.head_dim = kind.head_dim;
  shape.ffn = 32;
  shape.low_rank = 8;
  shape.state_size = 4;
  shape.ssm_head_dim = 32;
  shape.vocab = kVocab;
  shape.context = kCells;
  if (kind.architecture == Architecture::kGemma2) shape.window = 12;
  return shape;
}

std::unique_ptr<Engine> Make(const Kind& kind) {
  std::string path = (std::filesystem::temp_directory_path() / "kvd-fuzz-XXXXXX").string();
  const UniqueFd file(::mkstemp(path.data()));
  KVD_ASSERT(static_cast<bool>(file));
  KVD_ASSERT(MakeModelFile(ShapeOf(kind), nullptr, path).has_value());
  auto engine = Engine::Create({.model_path = path,
                                .cells = kCells,
                                .sequence_capacity = 64,
                                .snapshot_capacity = 8,
                                .session_capacity = 8,
                                .state_slots = 16,
                                .threads = 1,
                                .k_type = kind.cells,
                                .v_type = kind.cells});
  ::unlink(path.c_str());
  KVD_ASSERT(engine.has_value());
  return std::move(*engine);
}

}  // namespace

std::string LlamaEngineName(std::size_t number) { return std::string(kKinds[number].name); }

Engine& LlamaEngine(std::size_t number) {
  static std::array<std::unique_ptr<Engine>, kLlamaEngines> engines;
  KVD_ASSERT(number < engines.size());
  if (engines[number] == nullptr) engines[number] = Make(kKinds[number]);
  return *engines[number];
}

SequenceHandle MakeLlamaSequence(Engine& engine, std::size_t token_count, std::size_t first) {
  const auto handle = engine.memory().Create({});
  KVD_ASSERT(handle.has_value());
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < token_count; ++i) {
    tokens.push_back(static_cast<TokenId>((first + i * 7) % kVocab));
  }
  for (std::size_t done = 0; done < tokens.size();) {
    const Pos pos{static_cast<std::int32_t>(done)};
    const std::size_t take =
        engine.StepTokens(static_cast<std::uint32_t>(done), pos, tokens.size() - done);
    StepItem item{.sequence = *handle,
                  .pos = pos,
                  .tokens = std::span(tokens).subspan(done, take),
                  .first_logits_row = take};
    engine.Step({&item, 1});
    KVD_ASSERT(item.status.has_value());
    done += take;
  }
  return *handle;
}

}  // namespace kvd::test
