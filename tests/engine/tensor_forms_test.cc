// Tests that the forms in which files store the same weights give the same logits: tensors of
// different types in one layer, gate and up of the experts in one tensor, a tensor for each expert,
// and attn_kv_b beside its halves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

#include "base/text.h"
#include "engine/engine.h"
#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "kernels/kernel_table.h"
#include "tests/support/edited_model.h"
#include "tests/support/normalised_error.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::EditedModelPath;
using test::EditedTensor;
using test::EditedTensors;
using test::NormalisedError;
using test::TensorOf;
using test::TinyModelPath;

// Returns the logits of a prompt and of four tokens after the prompt, or nothing if the model
// cannot be loaded; then the test fails.
std::vector<float> LogitsOfFile(const std::string& path, const std::string& table = "") {
  const auto engine = Engine::Create({.model_path = path,
                                      .cells = 512,
                                      .threads = 2,
                                      .k_type = DataType::kF32,
                                      .v_type = DataType::kF32,
                                      .kernel_table = table});
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    return {};
  }
  Engine& model = **engine;
  const SequenceHandle sequence = *model.memory().sequences().Create({});
  const std::uint32_t vocabulary = model.config().vocab_size;
  if (model.config().has_cross_attention()) {
    EXPECT_TRUE(model.Encode(sequence, test::RandomTokens(3, 20, vocabulary)));
  }
  std::vector<float> logits =
      test::Feed(model, sequence, test::RandomTokens(1, 33, vocabulary), 33);
  std::ranges::copy(test::Feed(model, sequence, test::RandomTokens(2, 4, vocabulary), 1),
                    std::back_inserter(logits));
  return logits;
}

struct NamedDecoder {
  std::string name;
  ModelShape shape;
};

// Returns a tiny model whose matrices are in q8_0. Its layers have four experts if the architecture
// has experts; every token uses all of them, so rounding does not change the choice.
ModelShape ShapeWithExperts(Architecture architecture, std::uint32_t experts) {
  ModelShape shape = test::TinyOf(architecture);
  shape.experts = experts;
  shape.experts_used = experts;
  if (architecture == Architecture::kDeepseek2 || architecture == Architecture::kKimiLinear) {
    shape.head_dim = 64;
    shape.leading_dense = 1;
  }
  if (architecture == Architecture::kDeepseek2) shape.query_rank = 32;
  return shape;
}

// Every decoder; gemma4 with and without experts.
std::vector<NamedDecoder> NamedDecoders() {
  std::vector<NamedDecoder> shapes;
  for (const ArchitectureDefinition* definition : Architectures()) {
    const Architecture architecture = definition->format.architecture;
    std::string name(definition->format.name);
    std::ranges::replace(name, '-', '_');
    for (const std::uint32_t experts : {4u, 0u}) {
      ModelShape shape = ShapeWithExperts(architecture, experts);
      if (experts == 0) shape.name = "tiny-dense";
      const auto bytes = MakeModelBytes(shape);  // fails for experts that are not supported
      if (!bytes || !ReadModelConfig(*GgufFile::FromBytes(*bytes))->has_decoder) continue;
      shapes.push_back({name + (experts == 0 ? "_dense" : ""), shape});
      if (architecture != Architecture::kGemma4) break;
    }
  }
  return shapes;
}

class MixedTypesTest : public ::testing::TestWithParam<NamedDecoder> {};

// Files of the kind "UD" choose a type for each tensor. Products with q8_0, f16 and f32 weights
// take their inputs in three different forms.
TEST_P(MixedTypesTest, NeighbouringTensorsOfThreeTypesGiveTheLogitsOfOneType) {
  const std::string path = TinyModelPath(GetParam().shape);
  const auto change_types = [](const std::function<DataType(std::size_t)>& type_of) {
    return [=](EditedTensors& tensors) {
      std::size_t index = 0;
      for (EditedTensor& tensor : tensors) {
        if (tensor.type != DataType::kQ8_0) continue;
        if (const DataType type = type_of(index++); type != tensor.type) ChangeType(tensor, type);
      }
    };
  };
  const std::string exact =
      EditedModelPath(path, change_types([](std::size_t) { return DataType::kF32; }));
  const std::vector<float> expected = LogitsOfFile(exact, "scalar");
  // Recurrent models and t5 amplify the rounding of quantised products.
  const double rounding = NormalisedError(LogitsOfFile(path, "scalar"), expected);
  constexpr DataType kTypes[] = {DataType::kQ8_0, DataType::kF16, DataType::kF32};
  for (std::size_t shift = 0; shift < (test::IsScaledDown() ? 1u : 3u); ++shift) {
    const std::string mixed = EditedModelPath(
        path, change_types([&](std::size_t index) { return kTypes[(index + shift) % 3]; }));
    for (const kernels::KernelTable* table : {kernels::ScalarTable(), kernels::Avx2Table(),
                                              kernels::Avx512Table(), kernels::AmxTable()}) {
      if (table == nullptr) continue;
      EXPECT_LT(NormalisedError(LogitsOfFile(mixed, table->name), expected),
                std::max(2e-4, 4 * rounding))
          << table->name << ", mix " << shift;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDecoder, MixedTypesTest, ::testing::ValuesIn(NamedDecoders()),
                         [](const auto& tested) { return tested.param.name; });

// Returns a tensor with the parts of `first` and `second` in turn, each expert of each tensor being
// one part.
EditedTensor Interleave(std::string name, const EditedTensor& first, const EditedTensor& second) {
  EditedTensor fused{.name = std::move(name), .type = first.type, .dims = first.dims, .bytes = {}};
  const std::size_t experts = first.dims.back();
  fused.dims[first.dims.size() - 2] *= 2;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    for (const EditedTensor* from : {&first, &second}) {
      const auto part = static_cast<std::ptrdiff_t>(from->bytes.size() / experts);
      const auto begin = from->bytes.begin() + part * static_cast<std::ptrdiff_t>(expert);
      fused.bytes.insert(fused.bytes.end(), begin, begin + part);
    }
  }
  return fused;
}

// Fuses the gate and up of the experts of all layers. `part`: weight or bias.
void FuseGateAndUp(EditedTensors& tensors, std::uint32_t layers, const std::string& part) {
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const EditedTensor gate = TakeTensor(tensors, Concat(block, "ffn_gate_exps.", part));
    const EditedTensor up = TakeTensor(tensors, Concat(block, "ffn_up_exps.", part));
    tensors.push_back(Interleave(Concat(block, "ffn_gate_up_exps.", part), gate, up));
  }
}

TEST(ExpertFormsTest, GateAndUpInOneTensorGiveTheSameBits) {
  const ModelShape shape = test::TinyOf(Architecture::kQwen3Moe);
  const std::string path = TinyModelPath(shape);
  const std::string fused = EditedModelPath(
      path, [&](EditedTensors& tensors) { FuseGateAndUp(tensors, shape.layers, "weight"); });
  EXPECT_TRUE(test::SameBits(LogitsOfFile(fused), LogitsOfFile(path)));
}

TEST(ExpertFormsTest, BiasesOfGateAndUpInOneTensorOrInTwoGiveTheSameBits) {
  const ModelShape shape = test::TinyOf(Architecture::kGptOss);
  const std::string path = TinyModelPath(shape);
  const std::vector<float> expected = LogitsOfFile(path);
  const std::string fused_weights = EditedModelPath(
      path, [&](EditedTensors& tensors) { FuseGateAndUp(tensors, shape.layers, "weight"); });
  EXPECT_TRUE(test::SameBits(LogitsOfFile(fused_weights), expected));
  const std::string fused = EditedModelPath(path, [&](EditedTensors& tensors) {
    FuseGateAndUp(tensors, shape.layers, "weight");
    FuseGateAndUp(tensors, shape.layers, "bias");
  });
  EXPECT_TRUE(test::SameBits(LogitsOfFile(fused), expected));
}

TEST(ExpertFormsTest, FusedExpertsWithoutTheirBiasesAreRefusedByName) {
  const ModelShape shape = test::TinyOf(Architecture::kGptOss);
  const std::string path = EditedModelPath(TinyModelPath(shape), [&](EditedTensors& tensors) {
    FuseGateAndUp(tensors, shape.layers, "weight");
    FuseGateAndUp(tensors, shape.layers, "bias");
    TakeTensor(tensors, "blk.1.ffn_gate_up_exps.bias");
  });
  const auto engine = Engine::Create({.model_path = path, .cells = 512});
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().message, "tensor blk.1.ffn_gate_exps.bias: missing from the file");
}

// Replaces the stacked experts of a layer by a tensor for each expert (files of 2023).
void SplitExperts(EditedTensors& tensors, const std::string& name) {
  const EditedTensor stacked = TakeTensor(tensors, name + "_exps.weight");
  const std::size_t experts = stacked.dims.back();
  const auto part = static_cast<std::ptrdiff_t>(stacked.bytes.size() / experts);
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const auto begin = stacked.bytes.begin() + part * static_cast<std::ptrdiff_t>(expert);
    tensors.push_back({.name = name + "." + std::to_string(expert) + ".weight",
                       .type = stacked.type,
                       .dims = {stacked.dims[0], stacked.dims[1]},
                       .bytes = {begin, begin + part}});
  }
}

void SplitAllExperts(EditedTensors& tensors, std::uint32_t layers) {
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      SplitExperts(tensors, "blk." + std::to_string(layer) + "." + name);
    }
  }
}

TEST(ExpertFormsTest, ATensorForEachExpertGivesTheSameBits) {
  ModelShape shape = test::TinyLlama();
  shape.experts = 4;
  shape.experts_used = 2;
  const std::string path = TinyModelPath(shape);
  const std::string split = EditedModelPath(
      path, [&](EditedTensors& tensors) { SplitAllExperts(tensors, shape.layers); });
  EXPECT_TRUE(test::SameBits(LogitsOfFile(split), LogitsOfFile(path)));
}

TEST(ExpertFormsTest, AMissingExpertOrOneOfAnotherTypeIsRefusedByName) {
  ModelShape shape = test::TinyLlama();
  shape.experts = 4;
  shape.experts_used = 2;
  const auto problem = [&](const std::function<void(EditedTensors&)>& spoil) {
    const std::string path = EditedModelPath(TinyModelPath(shape), [&](EditedTensors& tensors) {
      SplitAllExperts(tensors, shape.layers);
      spoil(tensors);
    });
    const auto engine = Engine::Create({.model_path = path, .cells = 512});
    return engine ? std::string() : engine.error().message;
  };
  EXPECT_EQ(problem([](EditedTensors& tensors) { TakeTensor(tensors, "blk.1.ffn_up.3.weight"); }),
            "tensor blk.1.ffn_up.3.weight: missing from the file");
  EXPECT_EQ(problem([](EditedTensors& tensors) {
              ChangeType(TensorOf(tensors, "blk.1.ffn_up.2.weight"), DataType::kF16);
            }),
            "tensor blk.1.ffn_up.2.weight: is f16, that of expert 0 is q8_0");
}

TEST(LatentFormsTest, TheUnusedTensorBesideItsHalvesChangesNothing) {
  for (const std::uint32_t query_rank : {0u, 32u}) {
    ModelShape shape = ShapeWithExperts(Architecture::kDeepseek2, 4);
    shape.query_rank = query_rank;
    const std::string path = TinyModelPath(shape);
    const std::string both = EditedModelPath(path, [&](EditedTensors& tensors) {
      for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
        const std::string block = "blk." + std::to_string(layer) + ".";
        const EditedTensor value_up = TensorOf(tensors, block + "attn_v_b.weight");
        const std::uint64_t rank = value_up.dims[0], heads = value_up.dims.back();
        const std::uint64_t plain = TensorOf(tensors, block + "attn_k_b.weight").dims[0];
        EditedTensor whole{.name = block + "attn_kv_b.weight",
                           .type = DataType::kF32,
                           .dims = {rank, heads * (plain + value_up.dims[1])},
                           .bytes = {}};
        whole.bytes.resize(rank * whole.dims[1] * sizeof(float));
        tensors.push_back(whole);
      }
    });
    EXPECT_TRUE(test::SameBits(LogitsOfFile(both), LogitsOfFile(path))) << query_rank;
  }
}

}  // namespace
}  // namespace kvd
