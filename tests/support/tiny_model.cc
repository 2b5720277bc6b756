#include "tests/support/tiny_model.h"
#include "engine/forward/architectures/architecture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/bundled_model.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "tools/make_model/model_maker.h"

namespace kvd::test {
namespace {

// The model files of this process. The destructor removes the model files.
class Files {
 public:
  Files()
      : folder_(std::filesystem::temp_directory_path() /
                ("kvd-test-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string PathOf(const ModelShape& shape, Tokenizer tokenizer) {
    const auto at = std::ranges::find(made_, std::pair(shape, tokenizer));
    const std::size_t number = static_cast<std::size_t>(at - made_.begin());
    std::string path = (folder_ / (std::to_string(number) + ".gguf")).string();
    if (at != made_.end()) return path;
    const auto bundled = GgufFile::FromBytes(BundledModel());
    EXPECT_TRUE(bundled.has_value());
    const bool has_tokenizer = bundled && tokenizer == Tokenizer::kBundled;
    const auto made = MakeModelFile(shape, has_tokenizer ? &*bundled : nullptr, path);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    made_.emplace_back(shape, tokenizer);
    return path;
  }

 private:
  std::filesystem::path folder_;
  // The model of index i is in the file i.gguf.
  std::vector<std::pair<ModelShape, Tokenizer>> made_;
};

}  // namespace

std::string TinyModelPath(const ModelShape& shape, Tokenizer tokenizer) {
  static Files files;
  return files.PathOf(shape, tokenizer);
}

ModelShape TinyLlama() {
  ModelShape shape;
  shape.name = "tiny-test";
  shape.layers = 3;
  shape.embedding = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.ffn = 96;
  shape.vocab = 96;
  shape.type = kernels::DataType::kQ8_0;
  return shape;
}

ModelShape TinyOf(Architecture architecture) {
  ModelShape shape = TinyLlama();
  shape.architecture = architecture;
  switch (architecture) {
    case Architecture::kGemma2:
    case Architecture::kGptOss: shape.window = 45; break;
    case Architecture::kGemma4:
      shape.layers = 4;
      shape.window = 45;
      break;
    case Architecture::kGemma3n:
      shape.layers = 10;
      shape.window = 45;
      break;
    case Architecture::kNemotronHMoe: shape.layers = 4; break;  // one layer has attention
    default: break;
  }
  return shape;
}

std::unique_ptr<Engine> MakeEngine(const ModelShape& shape, EngineOptions options,
                                   Tokenizer tokenizer) {
  options.model_path = TinyModelPath(shape, tokenizer);
  auto engine = Engine::Create(options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return std::move(*engine);
}

std::vector<TokenId> RandomTokens(std::uint64_t seed, std::size_t count, std::uint32_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab_size);
  return tokens;
}

std::vector<float> Feed(Engine& engine, SequenceHandle sequence, const std::vector<TokenId>& tokens,
                        std::size_t chunk) {
  const std::size_t vocab_size = engine.config().vocab_size;
  std::vector<float> logits(tokens.size() * vocab_size);
  std::int32_t pos = engine.memory().sequences().Query(sequence)->next_pos.value;
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t take =
        engine.StepTokens(engine.memory().sequences().Query(sequence)->cell_count, Pos{pos},
                          std::min(chunk, tokens.size() - done));
    StepItem item{.sequence = sequence,
                  .pos = Pos{pos},
                  .tokens = std::span(tokens).subspan(done, take),
                  .first_logits_row = 0,
                  .logits = logits.data() + done * vocab_size};
    engine.Step({&item, 1});
    if (!item.status) {
      ADD_FAILURE() << item.status.error().message;
      return {};
    }
    done += take;
    pos += static_cast<std::int32_t>(take);
  }
  return logits;
}

}  // namespace kvd::test
