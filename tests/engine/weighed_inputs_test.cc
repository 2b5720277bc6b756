// Tests ExpertConfig::weighs_inputs, which no supported architecture sets: a decoder whose config
// sets it is compared with a file whose tensors contain the weights.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "engine/engine_parts.h"
#include "engine/forward/compute/thread_pool.h"
#include "engine/forward/decoder.h"
#include "tests/support/edited_model.h"
#include "tests/support/normalised_error.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::EditedTensor;
using test::EditedTensors;
using test::NormalisedError;

constexpr std::uint32_t kExperts = 4;
constexpr float kRouterLogits[kExperts] = {0.3f, -0.4f, 0.9f, 0.1f};

// Returns the weight of an expert if all experts are chosen.
float WeightOf(std::size_t expert) {
  float sum = 0.0f;
  for (const float logit : kRouterLogits) sum += std::exp(logit);
  return std::exp(kRouterLogits[expert]) / sum;
}

void SetNumbers(EditedTensor& tensor, const std::vector<float>& numbers) {
  tensor.bytes.resize(numbers.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
}

// Returns a gpt-oss model in which every token uses every expert with the weight WeightOf, and in
// which the last products have no bias. If `has_weights`, gate and up are scaled by the weights and
// the results divided by them: f_e(weight[e] * x) = weight[e] * (1 / weight[e] * f_e(scaled)).
std::string WeighedModelPath(DataType type, bool has_weights) {
  ModelShape shape = test::TinyOf(Architecture::kGptOss);
  shape.experts = shape.experts_used = kExperts;
  shape.type = type;
  return test::EditedModelPath(test::TinyModelPath(shape), [&](EditedTensors& tensors) {
    std::vector<float> weights, inverses;
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      weights.push_back(WeightOf(expert));
      inverses.push_back(1.0f / WeightOf(expert));
    }
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      EditedTensor& router = TensorOf(tensors, block + "ffn_gate_inp.weight");
      SetNumbers(router, std::vector<float>(NumbersOf(router).size()));
      SetNumbers(TensorOf(tensors, block + "ffn_gate_inp.bias"),
                 {std::begin(kRouterLogits), std::end(kRouterLogits)});
      EditedTensor& bias = TensorOf(tensors, block + "ffn_down_exps.bias");
      SetNumbers(bias, std::vector<float>(NumbersOf(bias).size()));
      if (!has_weights) continue;
      for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
        EditedTensor scales{.name = block + name + ".scale",
                            .type = DataType::kF32,
                            .dims = {kExperts},
                            .bytes = {}};
        SetNumbers(scales, std::string_view(name) == "ffn_down_exps" ? inverses : weights);
        tensors.push_back(scales);
      }
    }
  });
}

// Returns the logits of a prompt of 40 tokens.
std::vector<float> PromptLogits(const std::string& path, bool weighs_inputs) {
  auto parts = BuildEngineParts({.model_path = path,
                                 .cells = 256,
                                 .threads = 2,
                                 .k_type = DataType::kF32,
                                 .v_type = DataType::kF32});
  EXPECT_TRUE(parts.has_value());
  if (!parts) return {};
  ModelConfig& config = parts->model->config;
  config.experts.weighs_inputs = weighs_inputs;
  ThreadPool pool(2);
  Decoder decoder(config, parts->model->weights, parts->cells, *parts->kernels, pool, false, 64,
                  nullptr);
  Memory& memory = *parts->memory.memory;
  const std::vector<TokenId> tokens = test::RandomTokens(1, 40, config.vocab_size);
  const AppendRequest request{*memory.sequences().Create({}), Pos{0}, tokens};
  StepPlan plan;
  EXPECT_TRUE(memory.steps().Reserve({&request, 1}, plan).has_value());
  std::vector<float> logits(tokens.size() * config.vocab_size);
  ForwardItem item{.first_logits_row = 0, .logits = logits.data()};
  decoder.Run(plan, memory, {&item, 1});
  EXPECT_TRUE(item.finite);
  memory.steps().Abandon(plan, 0);
  memory.steps().EndStep(plan);
  return logits;
}

TEST(WeighedInputsTest, WeighingInputsEqualsAFileThatContainsTheWeights) {
  for (const DataType type : {DataType::kF32, DataType::kQ8_0}) {
    const std::string plain = WeighedModelPath(type, false), weighed = WeighedModelPath(type, true);
    const std::vector<float> expected = PromptLogits(weighed, false);
    EXPECT_LT(NormalisedError(PromptLogits(plain, true), expected),
              type == DataType::kF32 ? 1e-9 : 1e-4)
        << kernels::DataTypeName(type);
    EXPECT_GT(NormalisedError(PromptLogits(plain, false), expected), 1e-2)
        << kernels::DataTypeName(type);
  }
}

}  // namespace
}  // namespace kvd
