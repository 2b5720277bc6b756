// What make-model is asked to make: an architecture, its sizes, types and seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model_config.h"
#include "kernels/data_type.h"
#include "shm/error.h"

namespace kvd {

// Which optional biases to write.
enum class BiasSet : std::uint8_t { kNone, kQkv, kAll };

struct ModelShape {
  std::string name = "random";
  Architecture architecture = Architecture::kLlama;
  std::uint32_t layers = 2;
  std::uint32_t embedding = 256;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 0;  // 0: embedding / heads
  std::uint32_t ffn = 512;
  std::uint32_t vocab = 256;
  std::uint32_t context = 512;
  float rms_epsilon = 1e-5f;
  bool tied = false;                 // no output.weight
  std::optional<BiasSet> bias = {};  // unset: q, k and v for qwen2, else none

  float rope_base = 10000.0f;
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 1.0f;
  std::uint32_t rope_original_context = 0;  // 0: context

  // Positions in reach of layers with a window, and of how many layers the last has none; 0: not
  // written, the architecture's default. For gemma2 and gemma3.
  std::uint32_t window = 0;
  std::uint32_t window_period = 0;

  std::uint32_t convolution_width = 3;  // lfm2, qwen35
  std::uint32_t low_rank = 16;       // rwkv6, rwkv7: of their low-rank matrices; twice that of some
  std::uint32_t state_size = 16;     // of state-space layers, per channel
  std::uint32_t ssm_head_dim = 64;   // of those of the second kind
  Pooling pooling = Pooling::kMean;  // bert
  bool gated = true;                 // t5: its feed-forward layers

  kernels::DataType type = kernels::DataType::kQ8_0;     // of the matrices
  std::optional<kernels::DataType> embedding_type = {};  // unset: that of the matrices
  std::optional<kernels::DataType> output_type = {};     // unset: that of the matrices
  // q4_k_m, q5_k_m: some matrices in q6_K, and rows that no K block divides in q5_0, q5_1 or q8_0.
  bool mixture = false;

  std::uint64_t seed = 1;
};

// "tiny", "small" and shapes of published models. kNotFound lists those there are.
Result<ModelShape> NamedShape(std::string_view name);

// Sets type and mixture from "q8_0", ..., "q4_k_m", "q5_k_m"; case does not matter. kNotFound lists
// those there are.
Status SetType(ModelShape& shape, std::string_view name);
Result<kernels::DataType> DataTypeByName(std::string_view name);

// The type of the named matrix, whose rows have `in_features` elements.
kernels::DataType MatrixType(const ModelShape& shape, std::string_view tensor_name,
                             std::uint64_t in_features);

}  // namespace kvd
