// Gemma 3 (Gemma Team 2025): x += PostNorm(Attention(Norm(x))), x +=
// PostNorm(FeedForward(Norm(x))). The embedding is multiplied by the square root of its size, the
// activation is GELU, and most layers attend to a window.
//
// The last of every `sliding_window_pattern` layers has no window, and its rotation uses the base
// in the file. The layers with a window use the rotation base 10000.
#include <cmath>

#include "tests/reference/attention.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct Gemma3Layer {
  Vector attention_norm, post_attention_norm;
  Attention attention;
  Vector feed_forward_norm, post_feed_forward_norm;
  FeedForward feed_forward;
};

class Gemma3 : public Model {
 public:
  explicit Gemma3(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector("output_norm.weight")) {
    constexpr double kWindowBase = 10000;
    const std::size_t period = file.Count("attention.sliding_window_pattern");
    for (std::size_t i = 0; i < layer_count(); ++i) {
      const std::string block = BlockName(i);
      layers_.push_back(
          {.attention_norm = file.ReadVector(block + "attn_norm.weight"),
           .post_attention_norm = file.ReadVector(block + "post_attention_norm.weight"),
           .attention = Attention::Read(file, i),
           .feed_forward_norm = file.ReadVector(block + "ffn_norm.weight"),
           .post_feed_forward_norm = file.ReadVector(block + "post_ffw_norm.weight"),
           .feed_forward = FeedForward::Read(file, block)});
      const bool has_window = (i + 1) % period != 0;
      Attention& attention = layers_.back().attention;
      attention.window = has_window ? file.Count("attention.sliding_window") : 0;
      attention.rotation = {.pairs = Pairs::kHalves,
                            .base = has_window ? kWindowBase : file.Real("rope.freq_base")};
      layers_.back().feed_forward.activation = GeluOfHalves;
    }
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = std::sqrt(static_cast<double>(embedding.size())) * embedding;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Gemma3Layer& layer = layers_[i];
      const Vector attended =
          layer.attention(RmsNorm(x, layer.attention_norm, epsilon_), i, sequence);
      x = x + RmsNorm(attended, layer.post_attention_norm, epsilon_);
      const Vector fed = layer.feed_forward(RmsNorm(x, layer.feed_forward_norm, epsilon_));
      x = x + RmsNorm(fed, layer.post_feed_forward_norm, epsilon_);
    }
    return RmsNorm(x, output_norm_, epsilon_);
  }

 private:
  double epsilon_;
  Vector output_norm_;
  std::vector<Gemma3Layer> layers_;
};

}  // namespace

std::unique_ptr<Model> ReadGemma3(const ModelFile& file) { return std::make_unique<Gemma3>(file); }

}  // namespace kvd::reference
