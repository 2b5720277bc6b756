// The numbers of a model that its GGUF metadata declares, validated.
//
// `ModelConfig` is a plain value: read once at load, then shared read-only. Every number in it is
// in the range its comment gives, so code behind it does no checks of its own. Defaults for missing
// keys are those of llama.cpp's loader.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf_file.h"
#include "shm/error.h"

namespace kvd {

enum class Architecture : std::uint8_t {
  kLlama,
  kQwen2,
  kQwen3,
  kGemma2,
  kGemma3,
  kLfm2,
  kPhi3,
  kRwkv6,
  kRwkv7,
  kQwen35,
  kMamba,
  kMamba2,
  kJamba,
  kGraniteHybrid,
  kFalconH1,
  kBert,
  kT5,
};

// How positions beyond the trained context are mapped. For display; the numbers in RopeConfig say
// it all.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kYarn, kLlama3, kLongRope };
std::string_view RopeScalingName(RopeScaling scaling);

// The rotation of pair i at position p, i in [0, rotated_dim/2):
//   extrapolated = p * freq_base^(-2i/rotated_dim) / factor[i]
//   interpolated = extrapolated * freq_scale
//   angle        = interpolated * (1 - mix) + extrapolated * mix
//   mix          = yarn_ext_factor * ramp(i)
//   ramp(i)      = 1 - clamp((i - yarn_low) / max(0.001, yarn_high - yarn_low), 0, 1)
// factor: ModelWeights::rope_factors, else 1. cos and sin are both multiplied by attention_factor.
// Source: Peng et al., YaRN (arXiv:2309.00071) section 3, as ggml computes it (rope_yarn in
// ggml-cpu/ops.cpp).
struct RopeConfig {
  bool interleaved = false;
  std::uint32_t rotated_dim = 0;  // leading elements of a head that rotate: even, 2 to head_dim_k
  float freq_base = 10000.0f;     // finite, > 0
  float freq_scale = 1.0f;        // 1 / rope.scaling.factor; finite, > 0
  RopeScaling scaling = RopeScaling::kNone;
  std::uint32_t original_context_length = 0;  // positions the model was trained on before scaling
  float yarn_ext_factor = 0.0f;               // 0: the ramp is not used
  float yarn_beta_fast = 32.0f;
  float yarn_beta_slow = 1.0f;
  float yarn_low = 0.0f;  // the pairs between which the ramp falls, computed from the betas
  float yarn_high = 0.0f;
  float attention_factor =
      1.0f;  // all of it: the file's attn_factor times YaRN's 1 + 0.1 ln(1/freq_scale)
  // How many pairs turn with each component of a position (Qwen-VL's multimodal rotation): in text
  // the first three are the position and the fourth is 0. All 0: a position has one component.
  std::array<std::uint32_t, 4> sections = {};
};

// Whether pair i turns with a component that is 0 in text, and so not at all. The components take
// turns over the pairs, the first three of them as long as each has pairs left (Qwen3-VL; ggml's
// "imrope", ggml_mrope_cache_init in ggml-cpu/ops.cpp).
bool IsStillPair(const RopeConfig& rope, std::uint32_t pair);

// What a layer keeps of the past: a cell per token, or one state.
enum class LayerKind : std::uint8_t { kAttention, kRecurrent };

// Sizes of the layers of rwkv6 and rwkv7: of a head, 1 to kLinearHeadSizeMax and a divisor of
// embedding_size, and of their low-rank matrices; 0 where the architecture has none.
struct RwkvConfig {
  std::uint32_t head_size = 0;
  std::uint32_t mix_rank = 0;
  std::uint32_t decay_rank = 0;
  std::uint32_t rate_rank = 0;
  std::uint32_t value_rank = 0;
  std::uint32_t gate_rank = 0;
  std::uint32_t halving_period = 0;  // the stream is halved behind every so many layers; 0: never
};

// Sizes of the gated delta net layers of qwen35.
struct DeltaNetConfig {
  std::uint32_t convolution_width = 0;  // taps, 1 to ModelConfig::kConvolutionWidthMax
  std::uint32_t head_size = 0;          // of keys and values, 1 to kLinearHeadSizeMax
  std::uint32_t key_heads = 0;          // at least 1
  std::uint32_t value_heads = 0;        // a multiple of key_heads
};

// A state-space mixer. Heads and groups are those of the second kind (Mamba-2).
struct SsmConfig {
  std::uint32_t conv_width = 0;      // taps of its convolution, 2 to kConvolutionWidthMax
  std::uint32_t inner_size = 0;      // channels; a multiple of the heads
  std::uint32_t state_size = 0;      // numbers kept per channel
  std::uint32_t time_step_rank = 0;  // of the time step's projection; or the number of heads
  std::uint32_t group_count = 0;     // heads share B and C within a group; divides the heads

  std::uint32_t convolved_channels() const { return inner_size + 2 * group_count * state_size; }
};

// What an embedding of a text is made of. The numbers of a file's pooling_type.
enum class Pooling : std::uint8_t { kNone = 0, kMean = 1, kCls = 2, kLast = 3, kRank = 4 };

// The half of a model that reads a whole text at once and keeps nothing.
struct EncoderConfig {
  std::uint32_t layer_count = 0;  // 0: the model has no encoder
  std::uint32_t head_count = 0;   // as many of k and v as of q
  std::uint32_t head_dim = 0;
  std::uint32_t feed_forward_size = 0;
  float attention_scale = 0.0f;
  std::uint32_t type_count = 0;      // of segments that the file tells apart
  float norm_epsilon = 0.0f;         // of LayerNorm; RMS norms have rms_epsilon
  Pooling pooling = Pooling::kNone;  // of embeddings
};

struct ModelConfig {
  static constexpr std::uint32_t kConvolutionWidthMax = 32;
  static constexpr std::uint32_t kLayerCountMax = 1024;
  static constexpr std::uint32_t kVocabSizeMax = 1u << 24;
  static constexpr std::uint32_t kEmbeddingSizeMax = 1u << 18;
  static constexpr std::uint32_t kFeedForwardSizeMax = 1u << 21;
  static constexpr std::uint32_t kHeadCountMax = 1u << 13;
  static constexpr std::uint32_t kHeadDimMax = 1u << 13;
  // Two sides of at least one exact distance and a range each; fewer exact ones than kBiasReach.
  static constexpr std::uint32_t kBiasBucketsMin = 4;
  static constexpr std::uint32_t kBiasBucketsMax = 254;

  Architecture architecture = Architecture::kLlama;
  std::string name;                  // general.name as printable ASCII, or empty
  std::uint32_t vocab_size = 0;      // 1 to kVocabSizeMax
  std::uint32_t embedding_size = 0;  // 1 to kEmbeddingSizeMax
  std::uint32_t layer_count = 0;     // 1 to kLayerCountMax
  std::uint32_t context_length = 0;  // positions trained on, 1 to INT32_MAX
  // One number per layer. head_count[l] is a multiple of kv_head_count[l], both at least 1 where
  // the layer is attention; kv_head_count[l] is 0 elsewhere.
  std::vector<LayerKind> layer_kind;
  std::vector<std::uint32_t> head_count;
  std::vector<std::uint32_t> kv_head_count;
  std::vector<std::uint32_t> feed_forward_size;  // 0: the layer has none
  // Positions that a query of the layer reaches back to, its own included; 0: all. At most one
  // number beside 0.
  std::vector<std::uint32_t> window;
  std::uint32_t head_dim_k = 0;  // elements of one head of q and k
  std::uint32_t head_dim_v = 0;  // elements of one head of v
  float rms_epsilon = 0.0f;      // finite, > 0
  float attention_scale = 0.0f;  // q·k is multiplied by it: 1/sqrt(head_dim_k) unless the file says
  float attention_softcap = 0.0f;   // scores become cap * tanh(score / cap); 0: as they are
  float logit_softcap = 0.0f;       // the same of logits
  float embedding_scale = 1.0f;     // token embeddings are multiplied by it
  float residual_scale = 1.0f;      // what a layer adds to the residual stream likewise
  float logit_scale = 1.0f;         // logits likewise
  bool has_rope = true;             // false: attention knows no positions beside the mask
  RopeConfig rope;                  // of layers without a window
  RopeConfig window_rope;           // of layers with one
  float layer_norm_epsilon = 0.0f;  // of layer norms; finite, > 0 where there are any
  RwkvConfig rwkv;
  DeltaNetConfig delta_net;
  SsmConfig ssm;                              // all 0: no such layer
  std::uint32_t short_convolution_width = 0;  // taps, 2 to kConvolutionWidthMax; 0: no such layer
  // A sequence that holds this position or a later one rotates by ModelWeights::long_rope_factors
  // instead of rope_factors; 0: none does.
  std::uint32_t long_rope_from = 0;
  EncoderConfig encoder;
  bool has_decoder = true;  // false: it embeds texts and continues none
  // Scores get a bias by the distance between query and key (engine/layers/position_bias.h), learnt
  // for so many ranges of distances: kBiasBucketsMin to kBiasBucketsMax; 0: none.
  std::uint32_t bias_bucket_count = 0;
  // Decoding behind an encoded text starts with this token; -1: the file names none.
  std::int32_t decoder_start_token = -1;
  bool tied_embeddings = false;  // no output.weight: the token embedding serves as output
  bool has_qkv_bias = false;     // layer 0 has a bias on q, k or v

  std::string_view architecture_name() const;
  // The decoder attends to a text that the encoder has read.
  bool has_cross_attention() const { return has_decoder && encoder.layer_count != 0; }
  const RopeConfig& rope_of(std::size_t layer) const {
    return window[layer] != 0 ? window_rope : rope;
  }
};

// kUnsupported: an architecture or a feature that we do not have (the message lists those we do);
// kNotFound: a required key is missing; kCorrupt: a number out of its range (the message names the
// key, the number and the limit).
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

// kUnsupported: the model embeds texts and continues none.
Status CheckDecoder(const ModelConfig& config);

}  // namespace kvd
