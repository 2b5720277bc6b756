// The numbers of a model that its GGUF metadata declares, validated.
//
// `ModelConfig` is a plain value. The config is read once when the model is loaded and is then
// shared read-only. Every number is in the range that its comment gives, so the code that uses it
// does not check it again. Defaults for missing keys are those of llama.cpp's loader.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model/expert_config.h"
#include "engine/model/gguf_file.h"

namespace kvd {

struct ModelFormat;

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
  kMistral3,
  kSmolLm3,
  kQwen2Moe,
  kQwen3Moe,
  kGranite,
  kGraniteMoe,
  kGlm4,
  kGlm4Moe,
  kOlmo2,
  kOlmoe,
  kGptOss,
  kLfm2Moe,
  kQwen35Moe,
  kQwen3Next,
  kNemotronH,
  kNemotronHMoe,
  kSeedOss,
  kInternLm2,
  kErnie45,
  kErnie45Moe,
  kMiniCpm,
  kMiniMaxM2,
  kBailingMoe2,
  kExaone4,
  kGemma,
  kDeepseek2,
  kCommandR,
  kCohere2,
  kPhi2,
  kStableLm,
  kFalcon,
  kStarCoder2,
  kHunyuanDense,
  kHunyuanMoe,
  kPhiMoe,
  kGpt2,
  kGemma4,
  kGemma3n,
  kKimiLinear,
  kGemmaEmbedding,
  kNomicBert,
  kModernBert,
  kJinaBertV2,
};

// The method that maps positions beyond the trained context. RopeScaling is only shown to users;
// the numbers in RopeConfig determine the rotation.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kYarn, kLlama3, kLongRope };
std::string_view RopeScalingName(RopeScaling scaling);

// The rotation of pair i at position p, i in [0, rotated_dim/2):
//   extrapolated = p * freq_base^(-2i/rotated_dim) / factor[i]
//   interpolated = extrapolated * freq_scale
//   angle        = interpolated * (1 - mix) + extrapolated * mix
//   mix          = yarn_ext_factor * ramp(i)
//   ramp(i)      = 1 - clamp((i - yarn_low) / max(0.001, yarn_high - yarn_low), 0, 1)
// factor is ModelWeights::rope_factors, or 1 if there are none. cos and sin are both multiplied by
// attention_factor. Source: Peng et al., YaRN (arXiv:2309.00071), section 3, as ggml computes it
// (rope_yarn in ggml-cpu/ops.cpp).
struct RopeConfig {
  bool interleaved = false;
  // The elements of a head that rotate: rotated_dim of them (even, 2 to head_dim_k) from
  // first_rotated on.
  std::uint32_t rotated_dim = 0;
  std::uint32_t first_rotated = 0;
  float freq_base = 10000.0f;  // finite, > 0
  float freq_scale = 1.0f;     // 1 / rope.scaling.factor; finite, > 0
  RopeScaling scaling = RopeScaling::kNone;
  // Positions that the model was trained on before scaling.
  std::uint32_t original_context_length = 0;
  float yarn_ext_factor = 0.0f;  // 0: the ramp is not used
  float yarn_beta_fast = 32.0f;
  float yarn_beta_slow = 1.0f;
  float yarn_low = 0.0f;  // first and last pair of the ramp, computed from the betas
  float yarn_high = 0.0f;
  float attention_factor = 1.0f;  // the file's attn_factor times YaRN's 1 + 0.1 ln(1/freq_scale)
  // The number of pairs that each component of a position rotates (Qwen-VL's multimodal rotation).
  // In text the first three components equal the position and the fourth is 0. All 0: a position
  // has one component.
  std::array<std::uint32_t, 4> sections = {};
};

// Whether pair i belongs to the component that is 0 in text; such a pair is not rotated.
// Consecutive pairs take the first three components in turn, each while its section has pairs left,
// and the other pairs take the fourth component (Qwen3-VL; ggml's "imrope", ggml_mrope_cache_init
// in ggml-cpu/ops.cpp).
bool IsStillPair(const RopeConfig& rope, std::uint32_t pair);

// What a layer keeps of past tokens: a cell per token, one recurrent state, or nothing.
enum class LayerKind : std::uint8_t { kAttention, kRecurrent, kFeedForward };

// Sizes of the layers of rwkv6 and rwkv7; all 0 for other architectures. head_size is 1 to
// kLinearHeadSizeMax and divides embedding_size. The ranks are those of the low-rank matrices; 0
// for a matrix that the architecture does not have.
struct RwkvConfig {
  std::uint32_t head_size = 0;
  std::uint32_t mix_rank = 0;
  std::uint32_t decay_rank = 0;
  std::uint32_t rate_rank = 0;
  std::uint32_t value_rank = 0;
  std::uint32_t gate_rank = 0;
  // All values of the residual stream are halved after every halving_period layers; 0: never.
  std::uint32_t halving_period = 0;
};

// Sizes of the gated delta net layers of qwen35, and of the Kimi Delta Attention layers of
// kimi-linear, which have as many value heads as key heads.
struct DeltaNetConfig {
  std::uint32_t convolution_width = 0;  // number of taps, 1 to ModelConfig::kConvolutionWidthMax
  std::uint32_t head_size = 0;          // length of a key and of a value, 1 to kLinearHeadSizeMax
  std::uint32_t key_heads = 0;          // at least 1
  std::uint32_t value_heads = 0;        // a multiple of key_heads
  // True: consecutive value heads share a key head; false: value head j has key head j % key_heads.
  bool groups_value_heads = false;
};

// Sizes of multi-head latent attention (DeepSeek-AI 2024, V2): keys and values of all heads are
// products of one latent row per token; the last elements of each key, the same for all heads, are
// rotated if the model rotates keys.
struct LatentAttentionConfig {
  std::uint32_t rank = 0;        // elements of the latent row; 0: the model has ordinary attention
  std::uint32_t query_rank = 0;  // elements of the low-rank queries; 0: queries are one product
  std::uint32_t plain_dim = 0;   // elements of a query before its shared part, at least 1
  std::uint32_t shared_dim = 0;  // elements of the part of a key that all heads share, at least 1
  std::uint32_t value_dim = 0;   // elements of a value of a head
  // True: a cell has one head with the latent row and the shared part of the key, of which the
  // latent row is also the value (ModelConfig::values_in_keys). False: a cell has K and V of each
  // head.
  bool caches_latent = false;
};

// Sizes of a state-space mixer. Heads and groups exist only in Mamba-2.
struct SsmConfig {
  std::uint32_t conv_width = 0;  // number of taps of the convolution, 2 to kConvolutionWidthMax
  std::uint32_t inner_size = 0;  // number of channels; a multiple of the number of heads
  std::uint32_t state_size = 0;  // numbers kept per channel
  // Mamba: rank of the time step's projection; Mamba-2: number of heads.
  std::uint32_t time_step_rank = 0;
  std::uint32_t group_count = 0;  // heads of one group share B and C; divides the number of heads

  std::uint32_t convolved_channels() const { return inner_size + 2 * group_count * state_size; }
};

// How the embedding of a text is made from its rows. The values are those of the file's
// pooling_type.
enum class Pooling : std::uint8_t { kNone = 0, kMean = 1, kCls = 2, kLast = 3, kRank = 4 };

// "none", "mean", "cls", "last" or "rank".
std::string_view PoolingName(Pooling pooling);
// Returns the pooling with the name; nullopt: there is none.
std::optional<Pooling> PoolingByName(std::string_view name);

// The head of a reranker: scores = Output(activation(Dense(x))), of one row x. A file may lack
// Dense.
struct ClassifierConfig {
  bool is_present = false;            // the file has the head
  Pooling row = Pooling::kCls;        // how x is made from the text's rows: kMean, kCls or kLast
  std::uint32_t dense_size = 0;       // elements after Dense; 0: the architecture has no Dense
  bool is_dense_only = false;         // the architecture has no Output: the score is the activation
  bool has_gelu = false;              // the activation is GELU, not the hyperbolic tangent
  bool has_softmax = false;           // the scores are probabilities
  std::uint32_t label_count = 1;      // scores of a text
  std::vector<std::string> labels{};  // their names; may be empty
};

// The encoder: the part of a model that reads a whole text at once and caches nothing.
struct EncoderConfig {
  std::uint32_t layer_count = 0;    // 0: the model has no encoder
  std::uint32_t head_count = 0;     // heads of q
  std::uint32_t kv_head_count = 0;  // heads of k and v; divides head_count
  std::uint32_t head_dim = 0;
  std::uint32_t feed_forward_size = 0;
  float attention_scale = 0.0f;
  std::uint32_t type_count = 0;  // number of segment types that the file distinguishes
  // Epsilon of layer norms; 0: the norms are RMS norms with rms_epsilon.
  float norm_epsilon = 0.0f;
  // True: the encoder is the decoder, which reads a text without cells, and a token sees the tokens
  // up to itself.
  bool is_causal = false;
  // True: q and k are rotated by ModelConfig::rope, in layers with a window by window_rope.
  bool has_rope = false;
  // Per layer: whether a token sees only the tokens that are at most `reach` positions before or
  // after it. Empty: no layer has a window.
  std::vector<bool> has_window{};
  std::uint32_t reach = 0;
  // The score of a key at distance d is lowered by d times a slope of the head; 2^-bias_max is the
  // smallest slope. 0: scores have no such bias.
  float bias_max = 0.0f;
  std::optional<Pooling> pooling{};                    // how the file says that embeddings are made
  std::array<std::uint32_t, 2> projection_sizes = {};  // elements after each projection; 0: none
  ClassifierConfig classifier{};

  bool has_window_in(std::size_t layer) const { return !has_window.empty() && has_window[layer]; }
};

struct ModelConfig {
  static constexpr std::uint32_t kConvolutionWidthMax = 32;
  static constexpr std::uint32_t kLayerCountMax = 1024;
  static constexpr std::uint32_t kVocabSizeMax = 1u << 24;
  static constexpr std::uint32_t kEmbeddingSizeMax = 1u << 18;
  static constexpr std::uint32_t kFeedForwardSizeMax = 1u << 21;
  static constexpr std::uint32_t kHeadCountMax = 1u << 13;
  static constexpr std::uint32_t kHeadDimMax = 1u << 13;
  // With kBiasBucketsMin or more buckets, each side (keys before and after the query) has at least
  // one bucket for a single distance and one for a range of distances. With kBiasBucketsMax or
  // fewer, the number of buckets for single distances is less than kBiasReach.
  static constexpr std::uint32_t kBiasBucketsMin = 4;
  static constexpr std::uint32_t kBiasBucketsMax = 254;

  Architecture architecture = Architecture::kLlama;
  // The format of the config's architecture; null in a config that was not read from a file.
  const ModelFormat* format = nullptr;
  std::string name;                  // general.name as printable ASCII; may be empty
  std::uint32_t vocab_size = 0;      // 1 to kVocabSizeMax
  std::uint32_t embedding_size = 0;  // 1 to kEmbeddingSizeMax
  std::uint32_t layer_count = 0;     // 1 to kLayerCountMax
  std::uint32_t context_length = 0;  // positions that the model was trained on, 1 to INT32_MAX
  // One number per layer. In an attention layer head_count[l] is a multiple of kv_head_count[l] and
  // both are at least 1. In other layers kv_head_count[l] is 0.
  std::vector<LayerKind> layer_kind;
  std::vector<std::uint32_t> head_count;
  std::vector<std::uint32_t> kv_head_count;
  std::vector<std::uint32_t> feed_forward_size;  // 0: the layer has no feed-forward
  std::vector<bool> has_experts;                 // the feed-forward is a mixture of experts
  // Number of positions that a query of the layer sees, its own included; 0: all. All layers that
  // have a window have the same window.
  std::vector<std::uint32_t> window;
  std::uint32_t head_dim_k = 0;  // elements of one head of q and k
  std::uint32_t head_dim_v = 0;  // elements of one head of v
  // Elements of one head of q, k and v in layers with a window; 0: as in the other layers.
  std::uint32_t window_head_dim = 0;
  // Per layer: the layer whose cells it reads, its own number or that of an earlier layer with the
  // same window and the same numbers of KV heads and elements. Empty: every layer has its own.
  std::vector<std::uint32_t> cell_layer;
  // Elements of the input that each token has for each layer (Gemma 3n); 0: there is none.
  std::uint32_t layer_input_size = 0;
  float rms_epsilon = 0.0f;  // finite, > 0
  // The factor of each score q·k: 1/sqrt(head_dim_k) unless the file declares another factor.
  float attention_scale = 0.0f;
  float attention_softcap = 0.0f;  // a score becomes cap * tanh(score / cap); 0: no cap
  float logit_softcap = 0.0f;      // the same for logits
  float embedding_scale = 1.0f;    // token embeddings are multiplied by it
  // The factor by which the output of a layer is multiplied before it is added to the residual
  // stream.
  float residual_scale = 1.0f;
  float logit_scale = 1.0f;         // logits are multiplied by it
  bool has_rope = true;             // false: attention uses positions for its mask only
  std::vector<bool> is_unrotated;   // per layer: its heads are not rotated although has_rope is set
  RopeConfig rope;                  // of layers without a window
  RopeConfig window_rope;           // of layers with a window
  bool window_has_factors = false;  // rope factors also apply to layers with a window
  float layer_norm_epsilon = 0.0f;  // of layer norms; finite, > 0 if there are any
  bool has_layer_norms = false;     // norms of attention and feed-forward are not RMS norms
  // Attention and feed-forward of a layer read the same stream, and their results are added to it.
  bool is_parallel = false;
  // Number of learned position embeddings, which is the limit of a sequence's positions; 0: none.
  std::uint32_t position_count = 0;
  RwkvConfig rwkv;
  DeltaNetConfig delta_net;
  LatentAttentionConfig latent;
  SsmConfig ssm;  // all 0: no state-space layers
  ExpertConfig experts;
  // Number of taps of short convolutions, 2 to kConvolutionWidthMax; 0: the model has no short
  // convolution.
  std::uint32_t short_convolution_width = 0;
  // The keys of a sequence that contains this position or a later position are rotated by
  // ModelWeights::long_rope_factors instead of rope_factors; 0: no sequence uses long_rope_factors.
  std::uint32_t long_rope_from = 0;
  EncoderConfig encoder;
  bool has_decoder = true;  // false: the model only computes embeddings
  // Number of distance ranges (buckets) for which a bias of attention scores was learned
  // (engine/model/position_bias.h): kBiasBucketsMin to kBiasBucketsMax; 0: scores have no bias.
  std::uint32_t bias_bucket_count = 0;
  // The token with which decoding starts after a text was encoded; -1: the file names none.
  std::int32_t decoder_start_token = -1;
  bool tied_embeddings = false;  // true: no output.weight; the token embedding is the output matrix
  bool has_qkv_bias = false;     // true: layer 0 has a bias on q, k or v
  bool has_qk_norm = false;      // true: layer 0 has norms on q and k
  std::uint32_t draft_layer_count = 0;  // layers of the file after layer_count, which are not run
  // A query at position p is multiplied by 1 + query_scale * ln(1 + floor(p / query_scale_from));
  // 0: by 1.
  float query_scale = 0.0f;
  std::uint32_t query_scale_from = 0;

  std::string_view architecture_name() const;
  // Whether the decoder attends to a text that the encoder has read.
  bool has_cross_attention() const {
    return has_decoder && encoder.layer_count != 0 && !encoder.is_causal;
  }
  // Whether cells store no values: the value of a head is the first head_dim_v elements of its key.
  bool values_in_keys() const { return latent.caches_latent; }
  std::uint32_t key_dim(std::size_t layer) const {
    return window_head_dim != 0 && window[layer] != 0 ? window_head_dim : head_dim_k;
  }
  std::uint32_t value_dim(std::size_t layer) const {
    return window_head_dim != 0 && window[layer] != 0 ? window_head_dim : head_dim_v;
  }
  std::size_t cells_of(std::size_t layer) const {
    return cell_layer.empty() ? layer : cell_layer[layer];
  }
  // Whether the layer writes cells of its own.
  bool caches(std::size_t layer) const {
    return kv_head_count[layer] != 0 && cells_of(layer) == layer;
  }
  bool rotates(std::size_t layer) const { return has_rope && !is_unrotated[layer]; }
  const RopeConfig& rope_of(std::size_t layer) const {
    return window[layer] != 0 ? window_rope : rope;
  }
};

// Errors: kUnsupported (the model has no decoder; it only computes embeddings).
Status CheckDecoder(const ModelConfig& config);

}  // namespace kvd
