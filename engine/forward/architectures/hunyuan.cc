// x += Attention(Norm(x)), x += FeedForward(Norm(x)) or experts with a shared expert. Heads of q
// and k are normed after their rotation (Tencent Hunyuan Team 2025). Names and defaults are those
// of llama.cpp (src/models/hunyuan-vl.cpp, hunyuan-moe.cpp).
#include "engine/forward/architectures/hunyuan.h"

#include <cmath>

#include "engine/forward/architectures/transformer.h"

namespace kvd {
namespace {

Status ReadRotation(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kAlpha = "rope.scaling.alpha";
  RopeConfig& rope = config.rope;
  KVD_TRY(const float alpha, reader.PositiveOrNone(kAlpha));
  if (alpha != 0.0f) {
    const auto dim = static_cast<float>(rope.rotated_dim);
    rope.freq_base *= std::pow(alpha, dim / (dim - 2.0f));
    if (!std::isfinite(rope.freq_base) || rope.freq_base <= 0.0f) {
      return Fail(Code::kCorrupt, reader.Key(kAlpha), ": ", alpha, " with heads of ",
                  rope.rotated_dim, " rotated elements gives no finite base of the rotation");
    }
  }
  // A norm after the rotation removes a common factor of cos and sin.
  rope.attention_factor = 1.0f;
  config.window_rope = rope;
  return {};
}

constexpr TransformerTraits kDenseTraits = {
    .qk_norm = QkNorm::kHeads, .norms_rotated = true, .read_more = ReadRotation};

constexpr TransformerTraits kMoeTraits = {
    .qk_norm = QkNorm::kHeads,
    .norms_rotated = true,
    .expert_rule = {.is_normalised = true, .has_shared = true, .size_is_feed_forward = true},
    .has_experts = true,
    .read_more = ReadRotation};

}  // namespace

const ArchitectureDefinition kHunyuanDenseDefinition =
    DefineTransformer<kDenseTraits>(Architecture::kHunyuanDense, "hunyuan-dense");
const ArchitectureDefinition kHunyuanMoeDefinition =
    DefineTransformer<kMoeTraits>(Architecture::kHunyuanMoe, "hunyuan-moe");

}  // namespace kvd
