#include "tools/make_model/model_shape.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace kvd {
namespace {

using kernels::DataType;

constexpr std::array kTypes = {DataType::kF32,  DataType::kF16,  DataType::kBF16, DataType::kQ8_0,
                               DataType::kQ4_0, DataType::kQ4_1, DataType::kQ5_0, DataType::kQ5_1,
                               DataType::kQ4_K, DataType::kQ5_K, DataType::kQ6_K};

// Sizes from the published configurations of the models (of hybrids all but which layers are which).
// clang-format off
const std::array<ModelShape, 15> kShapes = {{
    {.name = "tiny"},
    {.name = "small", .layers = 4, .embedding = 512, .heads = 8, .kv_heads = 4, .ffn = 1536, .vocab = 4096, .context = 2048},
    {.name = "smol-135m", .layers = 30, .embedding = 576, .heads = 9, .kv_heads = 3, .ffn = 1536, .vocab = 49152, .context = 8192,
     .tied = true, .rope_base = 100000.0f},
    {.name = "qwen2-0.5b", .architecture = Architecture::kQwen2, .layers = 24, .embedding = 896, .heads = 14, .kv_heads = 2, .ffn = 4864,
     .vocab = 151936, .context = 32768, .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e6f},
    {.name = "qwen3-0.6b", .architecture = Architecture::kQwen3, .layers = 28, .embedding = 1024, .heads = 16, .kv_heads = 8, .head_dim = 128,
     .ffn = 3072, .vocab = 151936, .context = 40960, .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e6f},
    {.name = "tinyllama-1.1b", .layers = 22, .embedding = 2048, .heads = 32, .kv_heads = 4, .ffn = 5632, .vocab = 32000, .context = 2048},
    {.name = "llama3.2-1b", .layers = 16, .embedding = 2048, .heads = 32, .kv_heads = 8, .ffn = 8192, .vocab = 128256, .context = 131072,
     .tied = true, .rope_base = 500000.0f, .rope_scaling = RopeScaling::kLlama3, .rope_factor = 32.0f, .rope_original_context = 8192},
    {.name = "llama3-8b", .layers = 32, .embedding = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256, .context = 8192,
     .rope_base = 500000.0f},
    {.name = "lfm2-350m", .architecture = Architecture::kLfm2, .layers = 16, .embedding = 1024, .heads = 16, .kv_heads = 8, .ffn = 4608,
     .vocab = 65536, .context = 128000, .tied = true, .rope_base = 1e6f},
    {.name = "mamba-130m", .architecture = Architecture::kMamba, .layers = 24, .embedding = 768, .ffn = 0, .vocab = 50280, .context = 1048576,
     .tied = true, .state_size = 16},
    {.name = "mamba2-130m", .architecture = Architecture::kMamba2, .layers = 24, .embedding = 768, .ffn = 0, .vocab = 50288,
     .context = 1048576, .tied = true, .bias = BiasSet::kAll, .state_size = 128},
    {.name = "qwen35-small", .architecture = Architecture::kQwen35, .layers = 12, .embedding = 1024, .heads = 16, .kv_heads = 4, .head_dim = 128,
     .ffn = 3584, .vocab = 65536, .context = 262144, .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e7f, .convolution_width = 4},
    {.name = "jamba-small", .architecture = Architecture::kJamba, .layers = 8, .embedding = 1024, .heads = 16, .kv_heads = 8, .ffn = 3584,
     .vocab = 65536, .context = 262144, .state_size = 16},
    {.name = "bge-small", .architecture = Architecture::kBert, .layers = 12, .embedding = 384, .heads = 12, .kv_heads = 12, .ffn = 1536,
     .vocab = 30522, .context = 512, .pooling = Pooling::kCls},
    {.name = "flan-t5-small", .architecture = Architecture::kT5, .layers = 8, .embedding = 512, .heads = 6, .kv_heads = 6, .head_dim = 64,
     .ffn = 1024, .vocab = 32128, .context = 512, .rms_epsilon = 1e-6f},
}};
// clang-format on

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.contains(part); });
}

// llama.cpp's *_K_M mixtures keep the first and last eighth of the layers and every third between
// finer.
bool IsFinerLayer(std::string_view tensor_name, std::uint32_t layers) {
  constexpr std::string_view kBlock = "blk.";
  std::uint32_t layer = 0;
  std::from_chars(tensor_name.data() + kBlock.size(), tensor_name.data() + tensor_name.size(),
                  layer);
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// A type for rows that no block of 256 divides.
DataType Fallback(DataType type) {
  switch (type) {
    case DataType::kQ4_K: return DataType::kQ5_0;
    case DataType::kQ5_K: return DataType::kQ5_1;
    case DataType::kQ6_K: return DataType::kQ8_0;
    default: return type;
  }
}

}  // namespace

Result<ModelShape> NamedShape(std::string_view name) {
  std::string names;
  for (const ModelShape& shape : kShapes) {
    if (shape.name == name) return shape;
    names += " " + shape.name;
  }
  return Fail(Code::kNotFound, "shape: no " + std::string(name) + "; there are" + names);
}

Result<DataType> DataTypeByName(std::string_view name) {
  std::string names;
  for (DataType type : kTypes) {
    if (Lower(kernels::DataTypeName(type)) == Lower(name)) return type;
    names += std::string(" ") + kernels::DataTypeName(type);
  }
  return Fail(Code::kNotFound, "type: no " + std::string(name) + "; there are" + names);
}

Status SetType(ModelShape& shape, std::string_view name) {
  shape.mixture = true;
  if (Lower(name) == "q4_k_m") {
    shape.type = DataType::kQ4_K;
    return {};
  }
  if (Lower(name) == "q5_k_m") {
    shape.type = DataType::kQ5_K;
    return {};
  }
  shape.mixture = false;
  auto type = DataTypeByName(name);
  if (!type) return Fail(type.error().code, type.error().message + " q4_k_m q5_k_m");
  shape.type = *type;
  return {};
}

DataType MatrixType(const ModelShape& shape, std::string_view tensor_name,
                    std::uint64_t in_features) {
  // llama.cpp's converter and quantiser leave the low-rank matrices of RWKV as they are.
  if (IsOneOf(tensor_name, {"time_mix_w", "time_mix_a", "time_mix_v1", "time_mix_v2", "time_mix_g1",
                            "time_mix_g2", "time_mix_decay_w"})) {
    return DataType::kF32;
  }
  bool is_embedding = tensor_name == "token_embd.weight";
  bool is_output = tensor_name == "output.weight" || (is_embedding && shape.tied);
  if (is_embedding && shape.embedding_type) return *shape.embedding_type;
  if (is_output && shape.output_type) return *shape.output_type;
  // Small, and of rows that few blocks divide: published files keep them as they are.
  if (IsOneOf(tensor_name, {"ssm_x.", "ssm_dt.", "attn_rel_b."})) return DataType::kF32;
  if (!shape.mixture) return shape.type;
  bool is_finer = is_output || (IsOneOf(tensor_name, {"attn_v.", "ffn_down."}) &&
                                IsFinerLayer(tensor_name, shape.layers));
  DataType type = is_finer ? DataType::kQ6_K : shape.type;
  return in_features % kernels::ElementsPerBlock(type) == 0 ? type : Fallback(type);
}

}  // namespace kvd
