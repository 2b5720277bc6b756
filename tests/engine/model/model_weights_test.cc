#include "engine/model/model_weights.h"
#include "engine/forward/architectures/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "engine/model/gguf_writer.h"
#include "engine/model/model_fingerprint.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using kernels::DataType;
using ::testing::HasSubstr;

struct RawTensor {
  std::string name;
  DataType type;
  std::vector<std::uint64_t> dims;
  std::vector<std::byte> data;

  void Fill(float value) {
    for (std::size_t i = 0; i < data.size(); i += 4) std::memcpy(&data[i], &value, 4);
  }
};

// A small model file whose tensors a test can change, add and remove.
class EditableModel {
 public:
  explicit EditableModel(ModelShape shape = {}) {
    shape.embedding = 64;
    shape.ffn = 96;
    shape.vocab = 40;
    auto file = GgufFile::FromBytes(*MakeModelBytes(shape));
    for (const GgufEntry& entry : file->entries()) writer_.AddEntry(entry);
    for (const GgufTensor& t : file->tensors()) {
      tensors_.push_back({std::string(t.name),
                          t.type,
                          {t.dims.begin(), t.dims.begin() + t.rank},
                          {t.data, t.data + t.bytes}});
    }
  }

  RawTensor& operator[](std::string_view name) {
    for (RawTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << "no tensor " << name;
    return tensors_.front();
  }
  EditableModel& Remove(std::string_view name) {
    std::erase_if(tensors_, [&](const RawTensor& t) { return t.name == name; });
    return *this;
  }
  RawTensor& Add(const std::string& name, DataType type, std::vector<std::uint64_t> dims) {
    std::uint64_t bytes = kernels::RowBytes(type, dims[0]);
    for (std::size_t d = 1; d < dims.size(); ++d) bytes *= dims[d];
    return tensors_.emplace_back(
        RawTensor{name, type, std::move(dims), std::vector<std::byte>(bytes)});
  }
  EditableModel& Reshape(std::string_view name, DataType type, std::vector<std::uint64_t> dims) {
    Remove(name);
    Add(std::string(name), type, std::move(dims));
    return *this;
  }

  GgufFile Write() const {
    GgufWriter writer = writer_;
    for (const RawTensor& t : tensors_) writer.AddTensor(t.name, t.type, t.dims);
    auto bytes = writer.ToBytes(
        [&](std::size_t index, GgufSink& sink) { return sink.Append(tensors_[index].data); });
    return std::move(*GgufFile::FromBytes(*bytes));
  }

  void ExpectRefused(Code code, const std::string& text) const {
    GgufFile file = Write();
    auto config = ReadModelConfig(file);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    auto weights = BindWeights(file, *config);
    ASSERT_FALSE(weights.has_value()) << "accepted, wanted: " << text;
    EXPECT_EQ(weights.error().code, code) << weights.error().message;
    EXPECT_THAT(weights.error().message, HasSubstr(text));
  }

 private:
  GgufWriter writer_;
  std::vector<RawTensor> tensors_;
};

struct Bound {
  GgufFile file;
  ModelConfig config;
  ModelWeights weights;
};

Bound Bind(const EditableModel& model) {
  GgufFile file = model.Write();
  auto config = ReadModelConfig(file);
  auto weights = BindWeights(file, *config);
  EXPECT_TRUE(weights.has_value()) << weights.error().message;
  return {std::move(file), std::move(*config), std::move(*weights)};
}

const std::byte* Data(const Bound& bound, std::string_view name) {
  return bound.file.FindTensor(name)->data;
}

TEST(ModelWeightsTest, ViewsPointIntoTheFileWithTheirShapes) {
  Bound bound = Bind(EditableModel());
  const LayerWeights& layer = bound.weights.layers[1];
  EXPECT_EQ(bound.weights.token_embedding.data, Data(bound, "token_embd.weight"));
  EXPECT_EQ(bound.weights.output.weight.data, Data(bound, "output.weight"));
  EXPECT_EQ(bound.weights.output.weight.out_features, 40u);
  EXPECT_EQ(layer.attention.k.weight.data, Data(bound, "blk.1.attn_k.weight"));
  EXPECT_EQ(layer.attention.k.weight.in_features, 64u);
  EXPECT_EQ(layer.attention.k.weight.out_features, 32u);
  EXPECT_EQ(layer.attention.k.weight.type, DataType::kQ8_0);
  EXPECT_EQ(layer.feed_forward.down.weight.in_features, 96u);
  EXPECT_EQ(layer.attention.q.bias, nullptr);
  EXPECT_EQ(layer.attention.q.scale, 1.0f);
  EXPECT_EQ(layer.attention.q_norm, nullptr);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(layer.feed_forward.norm.weight),
            Data(bound, "blk.1.ffn_norm.weight"));
  EXPECT_EQ(bound.weights.rope_factors, nullptr);
}

TEST(ModelWeightsTest, NormsHaveTheBiasesOfTheirArchitecture) {
  const ModelShape starcoder = {.architecture = Architecture::kStarCoder2};
  const Bound bound = Bind(EditableModel(starcoder));
  EXPECT_NE(bound.weights.layers[0].attention.norm.bias, nullptr);
  EXPECT_NE(bound.weights.layers[0].feed_forward.norm.bias, nullptr);
  EXPECT_NE(bound.weights.output_norm_bias, nullptr);
  for (const char* name : {"blk.0.attn_norm.bias", "blk.1.ffn_norm.bias", "output_norm.bias"}) {
    const std::string tensor = "tensor " + std::string(name);
    EditableModel(starcoder).Remove(name).ExpectRefused(Code::kNotFound, tensor + ": missing");
    EditableModel(starcoder)
        .Reshape(name, DataType::kF32, {32})
        .ExpectRefused(Code::kCorrupt, tensor + ": shape [32, 1], must be [64, 1]");
  }
  EditableModel cohere({.architecture = Architecture::kCohere2});
  EXPECT_EQ(Bind(cohere).weights.layers[0].attention.norm.bias, nullptr);
  cohere.Add("blk.0.attn_norm.bias", DataType::kF32, {64});
  cohere.ExpectRefused(Code::kCorrupt, "tensor blk.0.attn_norm.bias: unknown");
}

TEST(ModelWeightsTest, ParallelLayersHaveOneNormOrTwo) {
  EditableModel falcon({.architecture = Architecture::kFalcon});
  const Bound one = Bind(falcon);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(one.weights.layers[0].attention.norm.weight),
            Data(one, "blk.0.attn_norm.weight"));
  EXPECT_EQ(one.weights.layers[0].feed_forward.norm.weight, nullptr);
  falcon.Add("blk.0.attn_norm_2.weight", DataType::kF32, {64}).Fill(1.0f);
  falcon.ExpectRefused(Code::kNotFound, "tensor blk.0.attn_norm_2.bias: missing");
  falcon.Add("blk.0.attn_norm_2.bias", DataType::kF32, {64});
  const Bound two = Bind(falcon);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(two.weights.layers[0].attention.norm.weight),
            Data(two, "blk.0.attn_norm_2.weight"));
  EXPECT_EQ(reinterpret_cast<const std::byte*>(two.weights.layers[0].feed_forward.norm.weight),
            Data(two, "blk.0.attn_norm.weight"));
  falcon.Reshape("blk.0.attn_norm_2.weight", DataType::kF32, {32})
      .ExpectRefused(Code::kCorrupt, "tensor blk.0.attn_norm_2.weight: shape [32, 1]");
}

TEST(ModelWeightsTest, EachHeadMayHaveWeightsOfItsNorm) {
  const ModelShape stablelm = {.architecture = Architecture::kStableLm, .qk_norm = true};
  const Bound bound = Bind(EditableModel(stablelm));
  EXPECT_TRUE(bound.weights.layers[0].attention.has_norm_per_head);
  for (const char* name : {"blk.1.attn_q_norm.weight", "blk.1.attn_k_norm.weight"}) {
    const std::string tensor = "tensor " + std::string(name);
    EditableModel(stablelm).Remove(name).ExpectRefused(Code::kNotFound, tensor + ": missing");
    EditableModel(stablelm)
        .Reshape(name, DataType::kF32, {16})
        .ExpectRefused(Code::kCorrupt, tensor + ": shape [16, 1], must be [16, ");
  }
}

TEST(ModelWeightsTest, ThereAreAsManyPositionEmbeddingsAsContextPositions) {
  const ModelShape gpt2 = {.architecture = Architecture::kGpt2, .context = 32};
  EXPECT_EQ(Bind(EditableModel(gpt2)).weights.position_embedding.out_features, 32u);
  EditableModel(gpt2)
      .Remove("position_embd.weight")
      .ExpectRefused(Code::kNotFound, "tensor position_embd.weight: missing");
  EditableModel(gpt2)
      .Reshape("position_embd.weight", DataType::kF32, {64, 31})
      .ExpectRefused(Code::kCorrupt,
                     "tensor position_embd.weight: shape [64, 31], must be [64, 32]");
}

TEST(ModelWeightsTest, WithoutAnOutputTensorTheEmbeddingIsUsed) {
  EditableModel model;
  model.Remove("output.weight");
  Bound bound = Bind(model);
  EXPECT_TRUE(bound.config.tied_embeddings);
  EXPECT_EQ(bound.weights.output.weight.data, Data(bound, "token_embd.weight"));
}

TEST(ModelWeightsTest, OptionalBiasesAndScalesAreBoundInTheirOrder) {
  EditableModel model;
  model.Add("blk.0.attn_q.bias", DataType::kF32, {64});
  model.Add("blk.0.ffn_up.bias", DataType::kF32, {96});
  model.Add("blk.0.attn_q.scale", DataType::kF32, {1}).Fill(0.5f);
  model.Add("blk.0.ffn_up.scale", DataType::kF32, {1}).Fill(-2.0f);
  model.Add("blk.0.ffn_up.input_scale", DataType::kF32, {1}).Fill(3.0f);
  Bound bound = Bind(model);
  const LayerWeights& layer = bound.weights.layers[0];
  EXPECT_NE(layer.attention.q.bias, nullptr);
  EXPECT_EQ(layer.attention.q.scale, 0.5f);
  EXPECT_FALSE(layer.attention.q.scale_after_bias);
  EXPECT_NE(layer.feed_forward.up.bias, nullptr);
  EXPECT_EQ(layer.feed_forward.up.scale, -2.0f);
  EXPECT_TRUE(layer.feed_forward.up.scale_after_bias);
}

TEST(ModelWeightsTest, Qwen2TakesAnOutputBiasAndLeavesFeedForwardScalesOut) {
  EditableModel model({.architecture = Architecture::kQwen2});
  model.Add("output.bias", DataType::kF32, {40});
  model.Add("blk.0.ffn_up.scale", DataType::kF32, {1}).Fill(7.0f);
  Bound bound = Bind(model);
  EXPECT_NE(bound.weights.output.bias, nullptr);
  EXPECT_EQ(bound.weights.layers[0].feed_forward.up.scale, 1.0f);
  EXPECT_NE(bound.weights.layers[0].attention.q.bias, nullptr);
}

TEST(ModelWeightsTest, Qwen3HasHeadsWiderThanTheEmbeddingAndNormsOnThem) {
  Bound bound = Bind(EditableModel({.architecture = Architecture::kQwen3, .head_dim = 48}));
  const LayerWeights& layer = bound.weights.layers[0];
  EXPECT_EQ(layer.attention.q.weight.out_features, 4u * 48);
  EXPECT_EQ(layer.attention.out.weight.in_features, 4u * 48);
  EXPECT_NE(layer.attention.q_norm, nullptr);
  EXPECT_NE(layer.attention.k_norm, nullptr);
}

TEST(ModelWeightsTest, AFusedMatrixIsSlicedByRows) {
  EditableModel model;
  for (const char* part : {"q", "k", "v"}) {
    model.Remove("blk.0.attn_" + std::string(part) + ".weight");
  }
  model.Add("blk.0.attn_qkv.weight", DataType::kQ8_0, {64, 64 + 32 + 32});
  model.Add("blk.0.attn_qkv.bias", DataType::kF32, {64 + 32 + 32});
  Bound bound = Bind(model);
  const LayerWeights& layer = bound.weights.layers[0];
  std::size_t row_bytes = kernels::RowBytes(DataType::kQ8_0, 64);
  EXPECT_EQ(layer.attention.q.weight.data, Data(bound, "blk.0.attn_qkv.weight"));
  EXPECT_EQ(layer.attention.k.weight.data, layer.attention.q.weight.data + 64 * row_bytes);
  EXPECT_EQ(layer.attention.v.weight.data, layer.attention.k.weight.data + 32 * row_bytes);
  EXPECT_EQ(layer.attention.v.weight.out_features, 32u);
  EXPECT_EQ(layer.attention.v.bias, layer.attention.q.bias + 96);
}

TEST(ModelWeightsTest, EveryMissingTensorIsNamed) {
  for (Architecture architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    ModelShape shape{.architecture = architecture, .bias = BiasSet::kNone};
    GgufFile whole = EditableModel(shape).Write();
    for (const GgufTensor& tensor : whole.tensors()) {
      if (tensor.name == "output.weight") continue;
      EditableModel(shape)
          .Remove(tensor.name)
          .ExpectRefused(Code::kNotFound, "tensor " + std::string(tensor.name) + ": missing");
    }
  }
}

TEST(ModelWeightsTest, EveryWrongShapeIsNamedWithBoth) {
  ModelShape shape{.architecture = Architecture::kQwen3, .bias = BiasSet::kQkv};
  GgufFile whole = EditableModel(shape).Write();
  for (const GgufTensor& tensor : whole.tensors()) {
    std::vector<std::uint64_t> dims(tensor.dims.begin(), tensor.dims.begin() + tensor.rank);
    dims.back() += 1;
    EditableModel(shape)
        .Reshape(tensor.name, tensor.type, dims)
        .ExpectRefused(Code::kCorrupt, "tensor " + std::string(tensor.name) + ": shape [");
  }
  EditableModel()
      .Reshape("blk.0.attn_k.weight", DataType::kF32, {64, 64})
      .ExpectRefused(Code::kCorrupt,
                     "tensor blk.0.attn_k.weight: shape [64, 64], must be [64, 32]");
  EditableModel()
      .Reshape("blk.0.attn_k.weight", DataType::kF32, {64, 32, 2})
      .ExpectRefused(Code::kCorrupt, "shape [64, 32, 2]");
}

TEST(ModelWeightsTest, NormsAndBiasesMustBeF32) {
  EditableModel()
      .Reshape("output_norm.weight", DataType::kF16, {64})
      .ExpectRefused(Code::kUnsupported, "tensor output_norm.weight: must be f32, is f16");
}

TEST(ModelWeightsTest, FactorsAndScalesMustBeUsableNumbers) {
  EditableModel model({.rope_scaling = RopeScaling::kLlama3, .rope_factor = 8.0f});
  EXPECT_NE(Bind(model).weights.rope_factors, nullptr);
  for (float bad :
       {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    model["rope_freqs.weight"].Fill(bad);
    model.ExpectRefused(Code::kCorrupt, "tensor rope_freqs.weight: element 0 is");
  }
  EditableModel scaled;
  scaled.Add("blk.1.attn_output.scale", DataType::kF32, {1})
      .Fill(std::numeric_limits<float>::quiet_NaN());
  scaled.ExpectRefused(Code::kCorrupt, "tensor blk.1.attn_output.scale: not finite");
}

TEST(ModelWeightsTest, AnUnknownTensorIsRefused) {
  EditableModel extra;
  extra.Add("blk.0.attn_sinks.weight", DataType::kF32, {4});
  extra.ExpectRefused(Code::kCorrupt, "tensor blk.0.attn_sinks.weight: unknown");
  EditableModel beyond;
  beyond.Add("blk.2.attn_norm.weight", DataType::kF32, {64});
  beyond.ExpectRefused(Code::kCorrupt, "of a layer that the model does not have");
}

TEST(ModelFingerprintTest, TheFingerprintDependsOnWeightsShapesAndRopeButNotOnNames) {
  auto print = [](const EditableModel& model) {
    GgufFile file = model.Write();
    return ComputeFingerprint(file, *ReadModelConfig(file));
  };
  ModelFingerprint base = print(EditableModel());
  EXPECT_EQ(base, print(EditableModel()));
  EXPECT_EQ(base, print(EditableModel({.name = "another"})));
  EXPECT_NE(base, print(EditableModel({.seed = 2})));
  EXPECT_NE(base, print(EditableModel({.context = 1024})));
  EXPECT_NE(base, print(EditableModel({.rope_base = 5e5f})));
  EXPECT_NE(base, print(EditableModel({.rms_epsilon = 1e-6f})));
  EXPECT_NE(base, print(EditableModel({.type = DataType::kQ4_0})));
  EditableModel last_byte;
  last_byte["blk.1.ffn_down.weight"].data.back() ^= std::byte{1};
  EXPECT_NE(base, print(last_byte));
  EditableModel reordered;
  RawTensor norm = reordered["output_norm.weight"];
  reordered.Remove("output_norm.weight");
  reordered.Add(norm.name, norm.type, norm.dims).data = norm.data;
  EXPECT_EQ(base, print(reordered));
  EXPECT_EQ(base.ToHex().size(), 64u);

  const auto difference = [&](const EditableModel& model) {
    return DescribeDifference(base, print(model));
  };
  EXPECT_EQ(difference(EditableModel()), "");
  EXPECT_EQ(difference(EditableModel({.seed = 2})), "tensor data");
  EXPECT_EQ(difference(EditableModel({.rope_base = 5e5f})), "rope parameters");
  EXPECT_EQ(difference(EditableModel({.rms_epsilon = 1e-6f})), "architecture or shapes");
  EXPECT_EQ(difference(EditableModel({.type = DataType::kQ4_0})),
            "names, types or dimensions of the tensors, tensor data");
}

}  // namespace
}  // namespace kvd
