// The numbers of a mixture of experts (Shazeer et al. 2017), as a model's files declare them.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace kvd {

class ConfigReader;
struct ModelConfig;

// How the logits of the router become the probabilities of the experts. The values are those of the
// file's expert_gating_func.
enum class ExpertGating : std::uint8_t {
  kSoftmax = 1,          // softmax over all experts
  kSigmoid = 2,          // 1 / (1 + e^-logit), each expert alone
  kSoftmaxOfChosen = 3,  // the experts are chosen by their logits; softmax over the chosen ones
};

// Sizes and rules of the layers with experts; all layers with experts of a model have the same
// sizes and rules.
struct ExpertConfig {
  static constexpr std::uint32_t kCountMax = 1024;
  static constexpr std::uint32_t kUsedMax = 64;

  std::uint32_t count = 0;        // 0: the model has no experts
  std::uint32_t used = 0;         // experts that each token goes to, 1 to count
  std::uint32_t size = 0;         // hidden rows of an expert
  std::uint32_t input_size = 0;   // embedding_size, or the length of the latent rows
  std::uint32_t shared_size = 0;  // hidden rows of the shared expert; 0: there is none
  // The experts are divided into group_count consecutive groups of count / group_count experts, at
  // least 2 experts in each group if there is more than one group. Only experts of the best
  // groups_used groups are chosen.
  std::uint32_t group_count = 1;
  std::uint32_t groups_used = 1;
  ExpertGating gating = ExpertGating::kSoftmax;
  bool is_normalised = false;  // the weights of the chosen experts are divided by their sum
  float scale = 1.0f;          // all weights are multiplied by it
  // The weights multiply the experts' inputs (Llama 4), not their results.
  bool weighs_inputs = false;
};

// ExpertRule: which values of ExpertConfig an architecture fixes, and which values are read from
// its files.
struct ExpertRule {
  enum class From : std::uint8_t { kArchitecture, kFile };
  ExpertGating gating = ExpertGating::kSoftmax;  // with kFile, the value for a missing key
  From gating_from = From::kArchitecture;
  bool is_normalised = false;  // with normalised_from kArchitecture
  // With kFile, expert_weights_norm; a missing key means false, as in llama.cpp.
  From normalised_from = From::kArchitecture;
  bool reads_scale = false;   // expert_weights_scale
  bool reads_groups = false;  // expert_group_count, expert_group_used_count
  bool has_shared = false;    // expert_shared_feed_forward_length, or expert_shared_count experts
  // True: the number of hidden rows of an expert is feed_forward_length, not
  // expert_feed_forward_length.
  bool size_is_feed_forward = false;
  // True: the layers before leading_dense_block_count have an ordinary feed-forward.
  bool reads_leading_dense = false;
  bool weighs_inputs = false;
  bool reads_interval = false;  // only every interleave_moe_layer_step-th layer has experts
};

// Reads config.experts and config.has_experts; does nothing if expert_count is missing or 0.
// Errors: kCorrupt and kNotFound; messages name the key. REQUIRES: embedding_size, layer_count and
// feed_forward_size are read.
Status ReadExperts(const ConfigReader& reader, const ExpertRule& rule, ModelConfig& config);

}  // namespace kvd
