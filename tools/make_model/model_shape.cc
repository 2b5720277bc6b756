#include "tools/make_model/model_shape.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace kvd {
namespace {

using kernels::DataType;

// Sizes from the published configurations of the models. The order of a hybrid's layer kinds
// differs from the published order.
// clang-format off
const std::array<ModelShape, 25> kShapes = {{
    {.name = "tiny"},
    {.name = "small", .layers = 4, .embedding = 512, .heads = 8, .kv_heads = 4, .ffn = 1536,
     .vocab = 4096, .context = 2048},
    {.name = "smol-135m", .layers = 30, .embedding = 576, .heads = 9, .kv_heads = 3, .ffn = 1536,
     .vocab = 49152, .context = 8192, .tied = true, .rope_base = 100000.0f},
    {.name = "qwen2-0.5b", .architecture = Architecture::kQwen2, .layers = 24, .embedding = 896,
     .heads = 14, .kv_heads = 2, .ffn = 4864, .vocab = 151936, .context = 32768,
     .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e6f},
    {.name = "qwen3-0.6b", .architecture = Architecture::kQwen3, .layers = 28, .embedding = 1024,
     .heads = 16, .kv_heads = 8, .head_dim = 128, .ffn = 3072, .vocab = 151936, .context = 40960,
     .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e6f},
    {.name = "tinyllama-1.1b", .layers = 22, .embedding = 2048, .heads = 32, .kv_heads = 4,
     .ffn = 5632, .vocab = 32000, .context = 2048},
    {.name = "llama3.2-1b", .layers = 16, .embedding = 2048, .heads = 32, .kv_heads = 8,
     .ffn = 8192, .vocab = 128256, .context = 131072, .tied = true, .rope_base = 500000.0f,
     .rope_scaling = RopeScaling::kLlama3, .rope_factor = 32.0f, .rope_original_context = 8192},
    {.name = "llama3-8b", .layers = 32, .embedding = 4096, .heads = 32, .kv_heads = 8,
     .ffn = 14336, .vocab = 128256, .context = 8192, .rope_base = 500000.0f},
    {.name = "lfm2-350m", .architecture = Architecture::kLfm2, .layers = 16, .embedding = 1024,
     .heads = 16, .kv_heads = 8, .ffn = 4608, .vocab = 65536, .context = 128000, .tied = true,
     .rope_base = 1e6f},
    {.name = "mamba-130m", .architecture = Architecture::kMamba, .layers = 24, .embedding = 768,
     .ffn = 0, .vocab = 50280, .context = 1048576, .tied = true, .state_size = 16},
    {.name = "mamba2-130m", .architecture = Architecture::kMamba2, .layers = 24, .embedding = 768,
     .ffn = 0, .vocab = 50288, .context = 1048576, .tied = true, .bias = BiasSet::kAll,
     .state_size = 128},
    {.name = "qwen35-small", .architecture = Architecture::kQwen35, .layers = 12,
     .embedding = 1024, .heads = 16, .kv_heads = 4, .head_dim = 128, .ffn = 3584, .vocab = 65536,
     .context = 262144, .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e7f,
     .convolution_width = 4},
    {.name = "jamba-small", .architecture = Architecture::kJamba, .layers = 8, .embedding = 1024,
     .heads = 16, .kv_heads = 8, .ffn = 3584, .vocab = 65536, .context = 262144, .state_size = 16},
    {.name = "bge-small", .architecture = Architecture::kBert, .layers = 12, .embedding = 384,
     .heads = 12, .kv_heads = 12, .ffn = 1536, .vocab = 30522, .context = 512,
     .pooling = Pooling::kCls},
    {.name = "minilm-reranker", .architecture = Architecture::kBert, .layers = 6, .embedding = 384,
     .heads = 12, .kv_heads = 12, .ffn = 1536, .vocab = 30522, .context = 512,
     .pooling = Pooling::kRank},
    {.name = "nomic-embed", .architecture = Architecture::kNomicBert, .layers = 12,
     .embedding = 768, .heads = 12, .kv_heads = 12, .ffn = 3072, .vocab = 30522, .context = 2048,
     .rope_base = 1000.0f, .pooling = Pooling::kMean},
    {.name = "jina-v2-small", .architecture = Architecture::kJinaBertV2, .layers = 4,
     .embedding = 512, .heads = 8, .kv_heads = 8, .ffn = 2048, .vocab = 30528, .context = 8192,
     .pooling = Pooling::kMean},
    {.name = "modernbert-base", .architecture = Architecture::kModernBert, .layers = 22,
     .embedding = 768, .heads = 12, .kv_heads = 12, .ffn = 1152, .vocab = 50368, .context = 8192,
     .rope_base = 160000.0f, .window = 128, .pooling = Pooling::kCls},
    {.name = "embeddinggemma-300m", .architecture = Architecture::kGemmaEmbedding, .layers = 24,
     .embedding = 768, .heads = 3, .kv_heads = 1, .head_dim = 256, .ffn = 1152, .vocab = 262144,
     .context = 2048, .rms_epsilon = 1e-6f, .rope_base = 1e6f, .window = 512,
     .pooling = Pooling::kMean},
    {.name = "qwen3-embedding-0.6b", .architecture = Architecture::kQwen3, .layers = 28,
     .embedding = 1024, .heads = 16, .kv_heads = 8, .head_dim = 128, .ffn = 3072, .vocab = 151669,
     .context = 32768, .rms_epsilon = 1e-6f, .tied = true, .rope_base = 1e6f,
     .pooling = Pooling::kLast},
    {.name = "flan-t5-small", .architecture = Architecture::kT5, .layers = 8, .embedding = 512,
     .heads = 6, .kv_heads = 6, .head_dim = 64, .ffn = 1024, .vocab = 32128, .context = 512,
     .rms_epsilon = 1e-6f},
    {.name = "qwen3moe-small", .architecture = Architecture::kQwen3Moe, .layers = 8,
     .embedding = 2048, .heads = 32, .kv_heads = 4, .head_dim = 128, .ffn = 768, .vocab = 65536,
     .context = 40960, .rms_epsilon = 1e-6f, .rope_base = 1e6f, .experts = 128, .experts_used = 8,
     .expert_ffn = 768},
    {.name = "gpt-oss-small", .architecture = Architecture::kGptOss, .layers = 4,
     .embedding = 2880, .heads = 64, .kv_heads = 8, .head_dim = 64, .ffn = 2880, .vocab = 65536,
     .context = 131072, .rope_base = 150000.0f, .rope_scaling = RopeScaling::kYarn,
     .rope_factor = 32.0f, .rope_original_context = 4096, .window = 128, .experts = 32,
     .experts_used = 4, .expert_ffn = 2880},
    {.name = "deepseek2-lite-small", .architecture = Architecture::kDeepseek2, .layers = 8,
     .embedding = 2048, .heads = 16, .kv_heads = 1, .head_dim = 192, .ffn = 10944, .vocab = 65536,
     .context = 163840, .rms_epsilon = 1e-6f, .rope_scaling = RopeScaling::kYarn,
     .rope_factor = 40.0f, .rope_original_context = 4096, .experts = 64, .experts_used = 6,
     .expert_ffn = 1408, .shared_ffn = 2816, .rotated_dim = 64, .latent_rank = 512,
     .value_dim = 128, .leading_dense = 1},
    {.name = "kimi-linear-small", .architecture = Architecture::kKimiLinear, .layers = 8,
     .embedding = 2304, .heads = 32, .kv_heads = 1, .head_dim = 192, .ffn = 9216, .vocab = 65536,
     .context = 1048576, .experts = 64, .experts_used = 8, .expert_ffn = 1024, .shared_ffn = 1024,
     .rotated_dim = 64, .latent_rank = 512, .value_dim = 128, .leading_dense = 1},
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

// llama.cpp's *_K_M mixtures use a finer type for the first and last eighth of the layers and for
// every third layer in between.
bool IsFinerLayer(std::string_view tensor_name, std::uint32_t layers) {
  constexpr std::string_view kBlock = "blk.";
  std::uint32_t layer = 0;
  std::from_chars(tensor_name.data() + kBlock.size(), tensor_name.data() + tensor_name.size(),
                  layer);
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// Returns the type for rows whose length is not a multiple of the 256 elements of a block of
// `type`, as llama.cpp's quantiser chooses it.
DataType Fallback(DataType type) {
  switch (type) {
    case DataType::kQ4_K: return DataType::kQ5_0;
    case DataType::kQ5_K: return DataType::kQ5_1;
    case DataType::kQ6_K: return DataType::kQ8_0;
    default: return kernels::ElementsPerBlock(type) == 256 ? DataType::kIQ4_NL : type;
  }
}

}  // namespace

Result<ModelShape> NamedShape(std::string_view name) {
  std::string names;
  for (const ModelShape& shape : kShapes) {
    if (shape.name == name) return shape;
    names += " " + shape.name;
  }
  return Fail(Code::kNotFound, "shape: ", name, " is unknown; known are", names);
}

Result<DataType> DataTypeByName(std::string_view name) {
  std::string names;
  for (DataType type : kernels::kDataTypes) {
    if (Lower(kernels::DataTypeName(type)) == Lower(name)) return type;
    names += std::string(" ") + kernels::DataTypeName(type);
  }
  return Fail(Code::kNotFound, "type: ", name, " is unknown; known are", names);
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
  if (!type) return Fail(type.error().code, type.error().message, " q4_k_m q5_k_m");
  shape.type = *type;
  return {};
}

bool IsTied(const ModelShape& shape) {
  switch (shape.architecture) {
    case Architecture::kGemma:
    case Architecture::kGemma2:
    case Architecture::kCommandR:
    case Architecture::kCohere2: return true;
    default: return shape.tied;
  }
}

DataType MatrixType(const ModelShape& shape, std::string_view tensor_name,
                    std::uint64_t in_features) {
  // llama.cpp's converter and quantiser do not quantise RWKV's low-rank matrices.
  if (IsOneOf(tensor_name, {"time_mix_w", "time_mix_a", "time_mix_v1", "time_mix_v2", "time_mix_g1",
                            "time_mix_g2", "time_mix_decay_w"})) {
    return DataType::kF32;
  }
  bool is_embedding = tensor_name == "token_embd.weight";
  bool is_output = tensor_name == "output.weight" || (is_embedding && IsTied(shape));
  if (is_embedding && shape.embedding_type) return *shape.embedding_type;
  if (is_output && shape.output_type) return *shape.output_type;
  // The tensors with the names below are small, and few block sizes divide their rows: published
  // files do not quantise them.
  if (IsOneOf(tensor_name,
              {"ssm_x.", "ssm_dt.", "attn_rel_b.", "ffn_gate_inp.", "altup_", "laurel_"}))
    return DataType::kF32;
  // The rows of these matrices are as short as a head or as a latent row.
  const bool is_of_heads =
      IsOneOf(tensor_name, {"attn_k_b.", "attn_v_b.", "attn_kv_b.", "ssm_f_b.", "ssm_g_b."});
  if (!shape.mixture && !is_of_heads) return shape.type;
  bool is_finer = is_output || (IsOneOf(tensor_name, {"attn_v.", "ffn_down.", "ffn_down_exps."}) &&
                                IsFinerLayer(tensor_name, shape.layers));
  DataType type = is_finer && shape.mixture ? DataType::kQ6_K : shape.type;
  if (in_features % kernels::ElementsPerBlock(type) == 0) return type;
  type = Fallback(type);
  const bool fits = in_features % kernels::ElementsPerBlock(type) == 0;
  return fits || !is_of_heads ? type : DataType::kF16;
}

}  // namespace kvd
