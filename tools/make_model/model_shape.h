// ModelShape: the input of make-model: an architecture, its sizes, types and seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/model/model_config.h"
#include "kernels/data_type.h"

namespace kvd {

// The sets of optional biases that a model can have.
enum class BiasSet : std::uint8_t { kNone, kQkv, kAll };

struct ModelShape {
  std::string name = "random";
  Architecture architecture = Architecture::kLlama;
  std::uint32_t layers = 2;
  std::uint32_t embedding = 256;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  // Length of a head; 0: the embedding size divided by the number of heads.
  std::uint32_t head_dim = 0;
  std::uint32_t ffn = 512;
  std::uint32_t vocab = 256;
  std::uint32_t context = 512;
  float rms_epsilon = 1e-5f;
  bool tied = false;                 // no output.weight (IsTied)
  std::optional<BiasSet> bias = {};  // nullopt: the biases of the architecture's published models
  bool qk_norm = false;              // norms of q and k, for architectures that may lack them

  float rope_base = 10000.0f;
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 1.0f;
  // Context of the model before its context was extended; 0: the same as `context`.
  std::uint32_t rope_original_context = 0;

  // gemma2, gemma3, olmo2, cohere2: the sliding window's size in positions, and the period of the
  // layers: the last layer of each period has no window. 0: the value is not written, so that the
  // architecture's default applies.
  std::uint32_t window = 0;
  std::uint32_t window_period = 0;

  std::uint32_t convolution_width = 3;  // width of the convolution in lfm2 and qwen35
  // The rank of the low-rank matrices in rwkv6 and rwkv7; some of these matrices have twice this
  // rank.
  std::uint32_t low_rank = 16;
  // Amount of numbers in the state of one channel of a state-space layer.
  std::uint32_t state_size = 16;
  std::uint32_t ssm_head_dim = 64;  // the head size of Mamba-2 layers
  // Pooling of the file; nullopt: mean for encoders, none in the file for decoders. kRank: the file
  // also has a classifier with `labels` scores.
  std::optional<Pooling> pooling = {};
  std::uint32_t labels = 1;
  bool gated = true;  // true: t5 has gated feed-forward layers

  // The following members describe mixtures of experts. `experts`: number of experts of a layer; 0:
  // no experts, or 4 experts if every model of the architecture has experts. `experts_used`: number
  // of experts that a token uses; 0: 2 experts. `expert_ffn`: number of hidden rows of an expert;
  // 0: the same number as `ffn`. `shared_ffn`: number of hidden rows of the shared expert; 0: the
  // same number as `expert_ffn`.
  std::uint32_t experts = 0;
  std::uint32_t experts_used = 0;
  std::uint32_t expert_ffn = 0;
  std::uint32_t shared_ffn = 0;

  // The following members describe deepseek2 and, except `query_rank` and `caches_latent`,
  // kimi-linear, in which `head_dim` is the length of a query head.
  // `rotated_dim`: number of rotated elements of a query head; 0: half of them. `latent_rank`:
  // number of elements of the latent row; 0: the length of a query head. `query_rank`: rank of the
  // low-rank queries; 0: the queries have full rank. `value_dim`: number of elements of a value; 0:
  // the length of a query head. If `caches_latent` is false, the file has the older tensor
  // attn_kv_b, with keys and values for each head.
  std::uint32_t rotated_dim = 0;
  std::uint32_t latent_rank = 0;
  std::uint32_t query_rank = 0;
  std::uint32_t value_dim = 0;
  bool caches_latent = true;
  // The number of layers before the layers with experts, for architectures that read
  // leading_dense_block_count.
  std::uint32_t leading_dense = 0;

  kernels::DataType type = kernels::DataType::kQ8_0;  // the type of the matrices
  // Type of the embedding matrix; nullopt: the type is `type`.
  std::optional<kernels::DataType> embedding_type = {};
  // Type of the output matrix; nullopt: the type is `type`.
  std::optional<kernels::DataType> output_type = {};
  // True for q4_k_m and q5_k_m: some matrices are in q6_K, and matrices whose rows are not a
  // multiple of 256 elements are in q5_0, q5_1 or q8_0.
  bool mixture = false;

  std::uint64_t seed = 1;

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// Returns the shape with this name: "tiny", "small" or a published model. kNotFound lists the known
// names.
Result<ModelShape> NamedShape(std::string_view name);

// Sets `type` and `mixture` from the name "q8_0", ..., "q4_k_m", "q5_k_m"; case does not matter.
// kNotFound lists the known names.
Status SetType(ModelShape& shape, std::string_view name);
Result<kernels::DataType> DataTypeByName(std::string_view name);

// Returns whether the token embedding is also the output matrix: if shape.tied, and in every file
// of some architectures.
bool IsTied(const ModelShape& shape);

// Returns the type of the named matrix, whose rows have `in_features` elements.
kernels::DataType MatrixType(const ModelShape& shape, std::string_view tensor_name,
                             std::uint64_t in_features);

}  // namespace kvd
