#include "tools/make_model/model_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_writer.h"
#include "engine/model/model_weights.h"
#include "kernels/kernel_table.h"
#include "tests/support/test_scale.h"
#include "tools/make_model/quantize.h"

namespace kvd {
namespace {

using kernels::DataType;
using ::testing::HasSubstr;

// The test makes models of every weight type in the architecture llama, models of types with blocks
// of 1, 32 and 256 elements in every architecture, and f16 models with every choice of biases and
// output matrix. Sanitizer builds take every seventh model: for each architecture one of its eight.
TEST(ModelMakerTest, EveryArchitectureAndTypeBinds) {
  std::size_t number = 0;
  for (const ArchitectureDefinition* definition : Architectures()) {
    const bool has_every_type = definition->format.name == "llama";
    for (DataType type : kernels::kDataTypes) {
      if (!has_every_type && type != DataType::kF16 && type != DataType::kQ4_0 &&
          type != DataType::kQ6_K) {
        continue;
      }
      for (bool tied : {false, true}) {
        for (BiasSet bias : {BiasSet::kNone, BiasSet::kQkv, BiasSet::kAll}) {
          if (type != DataType::kF16 && (tied || bias != BiasSet::kNone)) continue;
          if (number++ % test::Stride(7) != 0) continue;
          ModelShape shape{.architecture = definition->format.architecture,
                           .tied = tied,
                           .bias = bias,
                           .type = type};
          SCOPED_TRACE(std::string(definition->format.name) + " " + kernels::DataTypeName(type));
          auto bytes = MakeModelBytes(shape);
          ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
          auto file = GgufFile::FromBytes(*bytes);
          ASSERT_TRUE(file.has_value()) << file.error().message;
          auto config = ReadModelConfig(*file);
          ASSERT_TRUE(config.has_value()) << config.error().message;
          EXPECT_EQ(config->tied_embeddings, IsTied(shape) || !config->has_decoder);
          auto weights = BindWeights(*file, *config);
          ASSERT_TRUE(weights.has_value()) << weights.error().message;
          EXPECT_EQ(weights->token_embedding.type, type);
          const bool has_attention = config->has_decoder &&
                                     config->layer_kind[1] == LayerKind::kAttention &&
                                     config->latent.rank == 0;
          EXPECT_EQ(weights->layers[1].attention.q.bias != nullptr,
                    has_attention && !weights->layers[1].attention.has_output_gate &&
                        config->architecture != Architecture::kT5 && bias != BiasSet::kNone);
        }
      }
    }
  }
}

// llama.cpp refuses files without these tensors, and files of gemma with an output matrix.
TEST(ModelMakerTest, AFileHasTheTensorsThatItsArchitectureRequires) {
  const auto has = [](Architecture architecture, const char* tensor) {
    const auto bytes = MakeModelBytes({.architecture = architecture});
    EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
    return GgufFile::FromBytes(*bytes)->FindTensor(tensor) != nullptr;
  };
  EXPECT_TRUE(has(Architecture::kGpt2, "blk.1.attn_qkv.weight"));
  EXPECT_TRUE(has(Architecture::kGpt2, "blk.1.attn_qkv.bias"));
  EXPECT_FALSE(has(Architecture::kFalcon, "blk.1.attn_qkv.bias"));
  EXPECT_TRUE(has(Architecture::kGptOss, "blk.0.attn_output.bias"));
  EXPECT_TRUE(has(Architecture::kGemma4, "rope_freqs.weight"));
  EXPECT_TRUE(has(Architecture::kMamba2, "blk.0.ssm_conv1d.bias"));
  EXPECT_TRUE(has(Architecture::kMiniMaxM2, "blk.0.exp_probs_b.bias"));
  EXPECT_FALSE(has(Architecture::kDeepseek2, "blk.0.exp_probs_b.bias"));
  EXPECT_TRUE(has(Architecture::kRwkv7, "blk.0.time_mix_v2.weight"));
  EXPECT_FALSE(has(Architecture::kGemma, "output.weight"));
  EXPECT_TRUE(has(Architecture::kLlama, "output.weight"));
}

TEST(ModelMakerTest, TheSameSeedGivesTheSameBytesAndAnotherSeedOthers) {
  ModelShape shape;
  EXPECT_EQ(*MakeModelBytes(shape), *MakeModelBytes(shape));
  ModelShape other;
  other.seed = 2;
  EXPECT_NE(*MakeModelBytes(shape), *MakeModelBytes(other));
}

TEST(ModelMakerTest, EveryNamedShapeIsAModel) {
  for (const char* name : {"tiny", "small"}) {
    auto shape = NamedShape(name);
    ASSERT_TRUE(shape.has_value());
    EXPECT_TRUE(MakeModelBytes(*shape).has_value()) << name;
  }
  EXPECT_THAT(NamedShape("none").error().message, HasSubstr("tinyllama-1.1b"));
}

TEST(ModelMakerTest, RopeScalingsArriveInTheConfig) {
  auto config = [](const ModelShape& shape) {
    auto bytes = MakeModelBytes(shape);
    EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
    return *ReadModelConfig(*GgufFile::FromBytes(*bytes));
  };
  ModelShape shape;
  shape.rope_factor = 8.0f;
  shape.rope_original_context = 64;
  shape.rope_scaling = RopeScaling::kLinear;
  EXPECT_EQ(config(shape).rope.freq_scale, 0.125f);
  shape.rope_scaling = RopeScaling::kYarn;
  EXPECT_EQ(config(shape).rope.yarn_ext_factor, 1.0f);
  EXPECT_EQ(config(shape).rope.original_context_length, 64u);
  shape.rope_scaling = RopeScaling::kLlama3;
  EXPECT_EQ(config(shape).rope.scaling, RopeScaling::kLlama3);
  auto file = GgufFile::FromBytes(*MakeModelBytes(shape));
  const auto* factors = reinterpret_cast<const float*>(file->FindTensor("rope_freqs.weight")->data);
  EXPECT_FLOAT_EQ(factors[0], 1.0f);   // high-frequency pairs are not scaled
  EXPECT_FLOAT_EQ(factors[31], 8.0f);  // low-frequency pairs are scaled
}

TEST(ModelMakerTest, MixturesUseFinerTypesAndOtherTypesWhereRowsDoNotFit) {
  ModelShape shape;
  shape.layers = 8;
  ASSERT_TRUE(SetType(shape, "Q4_K_M"));
  EXPECT_EQ(MatrixType(shape, "output.weight", 256), DataType::kQ6_K);
  EXPECT_EQ(MatrixType(shape, "blk.0.attn_v.weight", 256), DataType::kQ6_K);
  EXPECT_EQ(MatrixType(shape, "blk.1.attn_v.weight", 256), DataType::kQ4_K);
  EXPECT_EQ(MatrixType(shape, "blk.7.ffn_down.weight", 256), DataType::kQ6_K);
  EXPECT_EQ(MatrixType(shape, "blk.0.ffn_up.weight", 256), DataType::kQ4_K);
  EXPECT_EQ(MatrixType(shape, "blk.0.ffn_up.weight", 96), DataType::kQ5_0);
  EXPECT_EQ(MatrixType(shape, "output.weight", 96), DataType::kQ8_0);
  shape.embedding = 288;
  EXPECT_TRUE(MakeModelBytes(shape).has_value());
}

TEST(ModelMakerTest, ContradictingOptionsAreNamed) {
  ModelShape shape;
  shape.embedding = 288;
  shape.type = DataType::kQ4_K;
  EXPECT_EQ(MakeModelBytes(shape).error().message,
            "token_embd.weight: rows of 288 elements are not a multiple of 256, the block of q4_K");
  ModelShape heads;
  heads.kv_heads = 3;
  EXPECT_THAT(MakeModelBytes(heads).error().message, HasSubstr("not a multiple of its 3 KV heads"));
  ModelShape llama3{.architecture = Architecture::kQwen2, .rope_scaling = RopeScaling::kLlama3};
  EXPECT_THAT(MakeModelBytes(llama3).error().message, HasSubstr("llama3"));
  ModelShape layers;
  layers.layers = 1025;
  EXPECT_THAT(MakeModelBytes(layers).error().message, HasSubstr("block_count: 1025"));
  EXPECT_THAT(SetType(shape, "iq1_s").error().message, HasSubstr("q4_k_m"));
}

TEST(ModelMakerTest, AVocabularyIsCopiedWithItsSize) {
  GgufWriter writer;
  writer.AddString("general.architecture", "other");
  writer.AddString("tokenizer.ggml.model", "llama");
  writer.AddStringArray("tokenizer.ggml.tokens", std::vector<std::string_view>(300, "t"));
  auto vocabulary = GgufFile::FromBytes(*writer.ToBytes({}));
  auto file = GgufFile::FromBytes(*MakeModelBytes(ModelShape{}, &*vocabulary));
  EXPECT_EQ(file->GetString("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(ReadModelConfig(*file)->vocab_size, 300u);
  EXPECT_EQ(file->FindTensor("token_embd.weight")->dims[1], 300u);
  auto without = GgufFile::FromBytes(*GgufWriter().ToBytes({}));
  EXPECT_THAT(MakeModelBytes(ModelShape{}, &*without).error().message,
              HasSubstr("no tokenizer.ggml.tokens"));
}

// Runs the built make-model tool and returns its exit code; -1: it did not run.
int RunMakeModel(const std::string& arguments) {
  const char* bin = std::getenv("KVD_BIN");
  std::string tool = std::string(bin != nullptr ? bin : "") + "/make-model";
  int status = std::system((tool + " " + arguments + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(MakeModelToolTest, UsageErrorsAndFailuresHaveDifferentExitCodes) {
  const char* bin = std::getenv("KVD_BIN");
  if (bin == nullptr || access((std::string(bin) + "/make-model").c_str(), X_OK) != 0) {
    GTEST_SKIP() << "make-model is not built";
  }
  std::string path = (std::filesystem::temp_directory_path() /
                      ("kvd_make_model_" + std::to_string(getpid()) + ".gguf"))
                         .string();
  EXPECT_EQ(RunMakeModel("--arch qwen3 --head-dim 128 --type q4_K --embedding-type q6_K "
                         "--rope-scaling yarn --rope-factor 2 --seed 9 -o " +
                         path),
            0);
  auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->FindTensor("token_embd.weight")->type, DataType::kQ6_K);
  EXPECT_EQ(ReadModelConfig(*file)->head_dim_k, 128u);
  std::filesystem::remove(path);
  EXPECT_EQ(RunMakeModel("--help"), 0);
  EXPECT_EQ(RunMakeModel(""), 2);
  for (const char* wrong :
       {"--arch x", "--type x", "--embedding-type x", "--output-type x", "--shape x", "--bias x",
        "--rope-scaling x", "--layers x", "--x", "--parts 0", "--parts 65536"}) {
    EXPECT_EQ(RunMakeModel(std::string(wrong) + " -o " + path), 2) << wrong;
  }
  EXPECT_EQ(RunMakeModel("--kv-heads 3 -o " + path), 1);
  EXPECT_EQ(RunMakeModel("--vocab-from /nonexistent -o " + path), 1);
  EXPECT_EQ(RunMakeModel("-o /nonexistent/x.gguf"), 1);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Returns the root mean square of the quantisation error divided by that of the values.
double RelativeError(DataType type, std::span<const float> values) {
  std::vector<std::byte> encoded = Quantize(type, values);
  std::vector<float> decoded(values.size());
  kernels::ScalarTable()->decode_row(type, encoded.data(), decoded.data(), decoded.size());
  double error = 0, power = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(double{decoded[i]} - double{values[i]}, 2);
    power += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(error / power);
}

TEST(QuantizeTest, DecodedValuesAreAsCloseAsTheTypeAllows) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 0.03f);
  std::vector<float> values(256 * 64);
  for (float& value : values) value = normal(random);
  const std::pair<DataType, double> limits[] = {
      {DataType::kF32, 0.0},    {DataType::kF16, 3e-4},     {DataType::kBF16, 2.5e-3},
      {DataType::kQ8_0, 6e-3},  {DataType::kQ4_0, 0.11},    {DataType::kQ4_1, 0.09},
      {DataType::kQ5_0, 0.055}, {DataType::kQ5_1, 0.045},   {DataType::kQ4_K, 0.095},
      {DataType::kQ5_K, 0.05},  {DataType::kQ6_K, 0.025},   {DataType::kQ2_K, 0.35},
      {DataType::kQ3_K, 0.2},   {DataType::kIQ4_NL, 0.1},   {DataType::kIQ4_XS, 0.1},
      {DataType::kMXFP4, 0.13}, {DataType::kIQ2_XXS, 0.45}, {DataType::kIQ2_XS, 0.4},
      {DataType::kIQ2_S, 0.4},  {DataType::kIQ3_XXS, 0.3},  {DataType::kIQ3_S, 0.25}};
  for (auto [type, limit] : limits) {
    EXPECT_LE(RelativeError(type, values), limit) << kernels::DataTypeName(type);
  }
}

TEST(QuantizeTest, ConstantZeroAndOneSidedRowsAreQuantised) {
  for (DataType type : kernels::kDataTypes) {
    SCOPED_TRACE(kernels::DataTypeName(type));
    std::vector<float> zeros(256, 0.0f);
    std::vector<std::byte> encoded = Quantize(type, zeros);
    std::vector<float> decoded(256, 1.0f);
    kernels::ScalarTable()->decode_row(type, encoded.data(), decoded.data(), 256);
    EXPECT_EQ(decoded, zeros);
    // mxfp4 has powers of two as scales, and 0.7 lies between 0.5 and 0.75.
    const double limit = type == DataType::kMXFP4 ? 0.08 : 0.02;
    EXPECT_LT(RelativeError(type, std::vector<float>(256, 0.7f)), limit);
    EXPECT_LT(RelativeError(type, std::vector<float>(256, -0.7f)), limit);
  }
}

}  // namespace
}  // namespace kvd
