#include "tests/fuzz/small_engines.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "base/unique_fd.h"
#include "engine/model/model_config.h"
#include "tools/make_model/model_maker.h"

namespace kvd::test {
namespace {

struct Kind {
  std::string_view name;
  Architecture architecture;
};
constexpr Kind kKinds[kSmallEngines] = {{"llama", Architecture::kLlama},
                                        {"gemma2", Architecture::kGemma2},
                                        {"lfm2", Architecture::kLfm2},
                                        {"t5", Architecture::kT5}};

// Heads have 32 elements, the size of a block of q8_0.
ModelShape ShapeOf(const Kind& kind) {
  ModelShape shape;
  shape.name = "fuzz";
  shape.architecture = kind.architecture;
  shape.layers = 3;
  shape.embedding = 64;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.ffn = 64;
  shape.vocab = 64;
  shape.context = kSmallEngineCells;
  if (kind.architecture == Architecture::kGemma2) shape.window = 12;
  return shape;
}

}  // namespace

std::unique_ptr<Engine> MakeSmallEngine(const ModelShape& shape, EngineOptions options) {
  options.model_path = (std::filesystem::temp_directory_path() / "kvd-fuzz-XXXXXX").string();
  const UniqueFd file(::mkstemp(options.model_path.data()));
  KVD_ASSERT(static_cast<bool>(file));
  KVD_ASSERT(MakeModelFile(shape, nullptr, options.model_path).has_value());
  auto engine = Engine::Create(options);
  ::unlink(options.model_path.c_str());
  KVD_ASSERT(engine.has_value());
  return std::move(*engine);
}

std::string SmallEngineName(std::size_t number) { return std::string(kKinds[number].name); }

Engine& SmallEngine(std::size_t number) {
  static std::array<std::unique_ptr<Engine>, kSmallEngines> engines;
  KVD_ASSERT(number < engines.size());
  if (engines[number] == nullptr) {
    engines[number] = MakeSmallEngine(ShapeOf(kKinds[number]), {.cells = kSmallEngineCells,
                                                                .sequence_capacity = 64,
                                                                .snapshot_capacity = 8,
                                                                .session_capacity = 8,
                                                                .state_slots = 16,
                                                                .checkpoint_every = 8,
                                                                .threads = 1});
  }
  return *engines[number];
}

SequenceHandle MakeSequence(Engine& engine, std::size_t token_count, std::size_t first) {
  const auto handle = engine.memory().sequences().Create({});
  KVD_ASSERT(handle.has_value());
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < token_count; ++i) {
    tokens.push_back(static_cast<TokenId>((first + i * 7) % engine.config().vocab_size));
  }
  if (engine.config().has_cross_attention()) {
    KVD_ASSERT(engine.Encode(*handle, std::vector<TokenId>{5, 6, 7}).has_value());
  }
  std::vector<float> logits(engine.config().vocab_size);
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t left = tokens.size() - done;
    const Pos pos{static_cast<std::int32_t>(done)};
    const std::size_t take =
        engine.StepTokens(static_cast<std::uint32_t>(done), pos, left > 1 ? left - 1 : 1);
    const bool is_last = done + take == tokens.size();
    StepItem item{.sequence = *handle,
                  .pos = pos,
                  .tokens = std::span(tokens).subspan(done, take),
                  .first_logits_row = is_last ? take - 1 : take,
                  .logits = logits.data(),
                  .keeps_state = is_last};
    engine.Step({&item, 1});
    KVD_ASSERT(item.status.has_value());
    done += take;
  }
  return *handle;
}

}  // namespace kvd::test
