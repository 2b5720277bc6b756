// The maker turns the shape into metadata and reads the metadata with ReadModelConfig. The
// ModelConfig that ReadModelConfig returns defines the tensors to write. A shape that the engine's
// reader refuses is therefore refused with the reader's message before any byte is written.
#include "tools/make_model/model_maker.h"

#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_writer.h"
#include "engine/model/model_format.h"
#include "tools/make_model/architecture_metadata.h"
#include "tools/make_model/random_weights.h"

namespace kvd {
namespace {

using kernels::DataType;

void AddMetadata(const ModelShape& shape, const GgufFile* vocabulary, GgufWriter& writer) {
  std::string prefix = std::string(DefinitionOf(shape.architecture).format.name) + ".";
  writer.AddString("general.architecture", DefinitionOf(shape.architecture).format.name);
  writer.AddString("general.name", shape.name);
  writer.AddU32(prefix + "context_length", shape.context);
  writer.AddU32(prefix + "embedding_length", shape.embedding);
  writer.AddU32(prefix + "block_count", shape.layers);
  if (!HasOwnFeedForwardLengths(shape.architecture)) {
    writer.AddU32(prefix + "feed_forward_length", shape.ffn);
  }
  writer.AddU32(prefix + "attention.head_count", shape.heads);
  if (shape.head_dim != 0 && !HasOwnHeadLengths(shape.architecture)) {
    writer.AddU32(prefix + "attention.key_length", shape.head_dim);
    writer.AddU32(prefix + "attention.value_length", shape.head_dim);
    writer.AddU32(prefix + "rope.dimension_count", shape.head_dim);
  }
  writer.AddF32(prefix + "attention.layer_norm_rms_epsilon", shape.rms_epsilon);
  writer.AddF32(prefix + "rope.freq_base", shape.rope_base);
  const bool has_factors = shape.rope_scaling == RopeScaling::kLongRope;
  if (shape.rope_scaling == RopeScaling::kLinear || shape.rope_scaling == RopeScaling::kYarn ||
      has_factors) {
    writer.AddString(prefix + "rope.scaling.type", RopeScalingName(shape.rope_scaling));
    if (!has_factors) writer.AddF32(prefix + "rope.scaling.factor", shape.rope_factor);
    if (shape.rope_original_context != 0) {
      writer.AddU32(prefix + "rope.scaling.original_context_length", shape.rope_original_context);
    }
  }
  if (shape.window != 0) writer.AddU32(prefix + "attention.sliding_window", shape.window);
  if (shape.window_period != 0 && shape.architecture != Architecture::kGemma4) {
    writer.AddU32(prefix + "attention.sliding_window_pattern", shape.window_period);
  }
  AddArchitectureMetadata(shape, prefix, writer);
  constexpr const char* kTypeCount = "tokenizer.ggml.token_type_count";
  if (HasSegmentTypes(shape.architecture) &&
      (vocabulary == nullptr || !vocabulary->Has(kTypeCount))) {
    writer.AddU32(kTypeCount, 2);
  }
  if (vocabulary == nullptr) {
    writer.AddU32(prefix + "vocab_size", shape.vocab);
    writer.AddString("tokenizer.ggml.model", "no_vocab");
    return;
  }
  for (const GgufEntry& entry : vocabulary->entries()) {
    if (entry.key.starts_with("tokenizer.")) writer.AddEntry(entry);
  }
}

// A tensor to write. The numbers of a PlannedTensor are drawn when the tensor is written.
struct PlannedTensor {
  std::optional<VectorRole> vector_role;  // role of a vector; nullopt: the tensor is a matrix
  DataType type = DataType::kF32;
  std::uint64_t in_features = 0;
  std::uint64_t element_count = 0;
};

// Lists the tensors of the config into the writer's table.
class Planner : public TensorVisitor {
 public:
  Planner(const ModelShape& shape, GgufWriter& writer)
      : shape_(shape),
        writer_(writer),
        biases_(shape.bias.value_or(DefaultBiases(shape.architecture))) {}

  Status Matrix(const std::string& name, std::uint64_t in_features, std::uint64_t out_features,
                Presence presence, WeightView& target) override {
    return MatrixStack(name, in_features, out_features, 1, presence, target);
  }

  Status MatrixStack(const std::string& name, std::uint64_t in_features, std::uint64_t out_features,
                     std::uint64_t count, Presence presence, WeightView&) override {
    if (presence == Presence::kOptional && !WantsMatrix(name)) return {};
    DataType type = MatrixType(shape_, name, in_features);
    if (in_features % kernels::ElementsPerBlock(type) != 0) {
      return Fail(Code::kInvalidArgument, name, ": rows of ", in_features,
                  " elements are not a multiple of ", kernels::ElementsPerBlock(type),
                  ", the block of ", kernels::DataTypeName(type));
    }
    std::array<std::uint64_t, 3> dims = {in_features, out_features, count};
    writer_.AddTensor(name, type, std::span(dims).first(count == 1 ? 2 : 3));
    planned_.push_back({std::nullopt, type, in_features, in_features * out_features * count});
    return {};
  }

  Status Floats(const std::string& name, std::span<const std::uint64_t> dims, VectorRole role,
                Presence presence, const float*&) override {
    if (presence == Presence::kOptional && !Wanted(name, role)) return {};
    writer_.AddTensor(name, DataType::kF32, dims);
    std::uint64_t element_count = 1;
    for (const std::uint64_t dim : dims) element_count *= dim;
    planned_.push_back({role, DataType::kF32, dims[0], element_count});
    return {};
  }

  Status Scale(const std::string&, float&) override { return {}; }
  Status Ignore(const std::string& name) override {
    if (shape_.architecture != Architecture::kRwkv7) return {};
    return UnusedValueMix(name);
  }
  Status IgnoreAll(const std::string&) override { return {}; }
  Result<bool> Fused(const std::string& name, std::uint64_t in_features,
                     std::span<const FusedPart> parts) override {
    if (!HasFusedQkv(shape_.architecture)) return false;
    std::uint64_t out_features = 0;
    for (const FusedPart& part : parts) out_features += part.out_features;
    WeightView unused;
    KVD_CHECK_OK(Matrix(name + ".weight", in_features, out_features, Presence::kRequired, unused));
    const float* unused_bias = nullptr;
    KVD_CHECK_OK(
        Vector(name + ".bias", out_features, VectorRole::kBias, Presence::kOptional, unused_bias));
    return true;
  }

  const std::vector<PlannedTensor>& planned() const { return planned_; }

 private:
  // rwkv7: the first layer has the three tensors that mix the values of the first layer into later
  // layers, although nothing uses them. Does nothing for other names.
  Status UnusedValueMix(const std::string& name) {
    WeightView unused;
    const float* unused_vector = nullptr;
    const std::uint64_t width = shape_.embedding, rank = shape_.low_rank;
    if (name.contains("time_mix_v0")) {
      return Vector(name, width, VectorRole::kBias, Presence::kRequired, unused_vector);
    }
    if (name.contains("time_mix_v1")) {
      return Matrix(name, width, rank, Presence::kRequired, unused);
    }
    if (name.contains("time_mix_v2")) {
      return Matrix(name, rank, width, Presence::kRequired, unused);
    }
    return {};
  }

  bool WantsMatrix(const std::string& name) const {
    if (name.starts_with("cls.")) return shape_.pooling == Pooling::kRank;
    return shape_.gated && name.ends_with("ffn_gate.weight");
  }

  bool Wanted(const std::string& name, VectorRole role) const {
    switch (role) {
      case VectorRole::kNorm:
      case VectorRole::kTaps:
      case VectorRole::kMix:
      case VectorRole::kDecayScale: return false;
      case VectorRole::kRopeFactors:
        return shape_.architecture == Architecture::kGemma4 ||
               shape_.rope_scaling == RopeScaling::kLlama3 ||
               shape_.rope_scaling == RopeScaling::kLongRope;
      case VectorRole::kLongRopeFactors: return shape_.rope_scaling == RopeScaling::kLongRope;
      case VectorRole::kBias: break;
    }
    if (biases_ == BiasSet::kAll) return true;
    if (shape_.bias == BiasSet::kNone) return false;
    // Every published model has ssm_conv1d.bias and exp_probs_b.bias, except that DeepSeek V2 has
    // no exp_probs_b.bias.
    if (name.ends_with("ssm_conv1d.bias")) return true;
    if (name.ends_with("exp_probs_b.bias")) return shape_.architecture != Architecture::kDeepseek2;
    return biases_ == BiasSet::kQkv && (name.contains("attn_q.") || name.contains("attn_k.") ||
                                        name.contains("attn_v.") || name.contains("attn_qkv."));
  }

  const ModelShape& shape_;
  GgufWriter& writer_;
  BiasSet biases_;
  std::vector<PlannedTensor> planned_;
};

// Returns the divisor of each pair's frequency: low frequencies are divided by `factor`, high
// frequencies are unchanged. Source: Llama 3.1's published rope_scaling (low_freq_factor 1,
// high_freq_factor 4).
std::vector<float> Llama3Factors(const ModelShape& shape, const ModelConfig& config) {
  constexpr float kLowFrequency = 1.0f, kHighFrequency = 4.0f;
  auto original = static_cast<float>(shape.rope_original_context != 0 ? shape.rope_original_context
                                                                      : shape.context);
  std::vector<float> factors;
  for (std::uint32_t i = 0; i < config.rope.rotated_dim / 2; ++i) {
    float exponent = 2.0f * static_cast<float>(i) / static_cast<float>(config.rope.rotated_dim);
    float wave = 2.0f * std::numbers::pi_v<float> * std::pow(config.rope.freq_base, exponent);
    float turns = original / wave;
    float smooth = std::fmin(
        1.0f, std::fmax(0.0f, (turns - kLowFrequency) / (kHighFrequency - kLowFrequency)));
    factors.push_back(1.0f / ((1.0f - smooth) / shape.rope_factor + smooth));
  }
  return factors;
}

// Returns the divisors of the frequencies with which pairs of elements rotate, from 1 for the
// fastest pair to `last` for the slowest pair.
std::vector<float> RampFactors(const ModelConfig& config, float last) {
  std::vector<float> factors(config.rope.rotated_dim / 2, 1.0f);
  for (std::size_t i = 1; i < factors.size(); ++i) {
    factors[i] += (last - 1.0f) * static_cast<float>(i) / static_cast<float>(factors.size() - 1);
  }
  return factors;
}

// Returns the divisors of gemma4's layers without a window: the first quarter of the pairs rotates,
// the others stand still.
std::vector<float> FactorsOfGemma4(const ModelConfig& config) {
  constexpr float kStill = 1e30f;
  std::vector<float> factors(config.rope.rotated_dim / 2, kStill);
  for (std::size_t i = 0; i < factors.size() / 4; ++i) factors[i] = 1.0f;
  return factors;
}

// Returns the factors of the tensor rope_freqs of llama and gemma4, or of phi3's tensor for short
// contexts.
std::vector<float> ShortFactors(const ModelShape& shape, const ModelConfig& config) {
  constexpr float kLastShort = 1.25f;
  if (shape.rope_scaling == RopeScaling::kLongRope) return RampFactors(config, kLastShort);
  if (shape.architecture == Architecture::kGemma4) return FactorsOfGemma4(config);
  return Llama3Factors(shape, config);
}

struct Plan {
  GgufWriter writer;
  ModelConfig config;
  std::vector<PlannedTensor> tensors;
};

Result<Plan> PlanModel(const ModelShape& shape, const GgufFile* vocabulary) {
  if (shape.rope_scaling == RopeScaling::kLlama3 && shape.architecture != Architecture::kLlama) {
    return Fail(Code::kInvalidArgument, "rope scaling: llama3 needs the architecture llama");
  }
  if (vocabulary != nullptr && !vocabulary->Has("tokenizer.ggml.tokens")) {
    return Fail(Code::kInvalidArgument, "vocabulary: the file has no tokenizer.ggml.tokens");
  }
  Plan plan;
  AddMetadata(shape, vocabulary, plan.writer);
  KVD_TRY(auto metadata, plan.writer.ToBytes({}));
  KVD_TRY(auto file, GgufFile::FromBytes(metadata));
  KVD_TRY(plan.config, ReadModelConfig(file));
  plan.config.tied_embeddings = IsTied(shape);
  plan.config.has_qk_norm |= shape.qk_norm;
  Planner planner(shape, plan.writer);
  ModelWeights unused;
  KVD_CHECK_OK(VisitTensors(plan.config, planner, unused));
  plan.tensors = planner.planned();
  return plan;
}

GgufWriter::Producer ProducerFor(const ModelShape& shape, const Plan& plan, RandomWeights& random) {
  return [&](std::size_t index, GgufSink& sink) -> Status {
    const PlannedTensor& tensor = plan.tensors[index];
    if (!tensor.vector_role) {
      float deviation = 1.0f / std::sqrt(static_cast<float>(tensor.in_features));
      return random.Matrix(tensor.type, tensor.element_count, deviation, sink);
    }
    switch (*tensor.vector_role) {
      case VectorRole::kNorm: return random.Vector(tensor.element_count, 1.0f, 0.1f, sink);
      case VectorRole::kBias: return random.Vector(tensor.element_count, 0.0f, 0.1f, sink);
      case VectorRole::kDecayScale: return random.Vector(tensor.element_count, -0.6f, 0.1f, sink);
      case VectorRole::kMix: return random.Vector(tensor.element_count, 0.5f, 0.1f, sink);
      case VectorRole::kTaps: {
        const float deviation = 1.0f / std::sqrt(static_cast<float>(tensor.in_features));
        return random.Vector(tensor.element_count, 0.0f, deviation, sink);
      }
      case VectorRole::kRopeFactors: {
        std::vector<float> factors = ShortFactors(shape, plan.config);
        return sink.Append(std::as_bytes(std::span(factors)));
      }
      case VectorRole::kLongRopeFactors: {
        std::vector<float> factors = RampFactors(plan.config, shape.rope_factor);
        return sink.Append(std::as_bytes(std::span(factors)));
      }
    }
    return {};
  };
}

}  // namespace

Result<MadeModel> MakeModelFile(const ModelShape& shape, const GgufFile* vocabulary,
                                const std::string& path, const MakeOptions& options) {
  KVD_TRY(auto plan, PlanModel(shape, vocabulary));
  RandomWeights random(shape.seed);
  const GgufWriter::Producer draw = ProducerFor(shape, plan, random);
  const GgufWriter::Producer produce = [&](std::size_t index, GgufSink& sink) -> Status {
    const bool is_matrix = !plan.tensors[index].vector_role.has_value();
    if (!options.is_sparse || !is_matrix) return draw(index, sink);
    return sink.AppendHole(plan.writer.tensor_bytes(index));
  };
  MadeModel made;
  if (options.part_count == 1) {
    KVD_CHECK_OK(plan.writer.WriteFile(path, produce));
    made.paths = {path};
  } else {
    KVD_TRY(made.paths, plan.writer.WriteParts(path, options.part_count, produce));
  }
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    made.parameter_count += plan.tensors[i].element_count;
    made.tensor_bytes += plan.writer.tensor_bytes(i);
  }
  return made;
}

Result<std::vector<std::byte>> MakeModelBytes(const ModelShape& shape, const GgufFile* vocabulary) {
  KVD_TRY(auto plan, PlanModel(shape, vocabulary));
  RandomWeights random(shape.seed);
  return plan.writer.ToBytes(ProducerFor(shape, plan, random));
}

}  // namespace kvd
