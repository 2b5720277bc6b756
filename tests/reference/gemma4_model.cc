// Gemma 4 without experts (Gemma Team 2026; its layer inputs and shared cells are those of Gemma
// 3n):
//
//   x += PostNorm(Attention(Norm(x)));  x += PostNorm(FeedForward(Norm(x)))
//   x += PostNorm(Out(gelu(Gate x) * input of the layer));  x *= scale of the layer
//
// The input of a layer is (Norm(part of Projection e / sqrt(size of e)) + sqrt(size of the input) *
// part of the token's row in a table) / sqrt(2), where e is the token's embedding. The last layers
// have no keys and values: each reads those of the last layer of its kind, with or without a
// window, that has them. The heads of values are normed without weights, the scores are not scaled.
// Layers without a window have no matrix for values, which are keys before their norm.
#include <cmath>

#include "tests/reference/attention.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct Gemma4Layer {
  Vector attention_norm, post_attention_norm;
  Attention attention;
  Vector feed_forward_norm, post_feed_forward_norm;
  FeedForward feed_forward;
  Matrix input_gate, input_out;
  Vector post_input_norm;
  double scale = 1;
};

class Gemma4 : public Model {
 public:
  explicit Gemma4(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector("output_norm.weight")),
        input_table_(file.ReadMatrix("per_layer_token_embd.weight")),
        input_projection_(file.ReadMatrix("per_layer_model_proj.weight")),
        input_norm_(file.ReadVector("per_layer_proj_norm.weight")) {
    for (std::size_t i = 0; i < layer_count(); ++i) layers_.push_back(ReadLayer(file, i));
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = std::sqrt(static_cast<double>(embedding.size())) * embedding;
    const Vector inputs = LayerInputs(x, sequence.cells.back().token);
    const std::size_t input_size = input_norm_.size();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Gemma4Layer& layer = layers_[i];
      const Vector attended =
          layer.attention(RmsNorm(x, layer.attention_norm, epsilon_), i, sequence);
      x = x + RmsNorm(attended, layer.post_attention_norm, epsilon_);
      const Vector fed = layer.feed_forward(RmsNorm(x, layer.feed_forward_norm, epsilon_));
      x = x + RmsNorm(fed, layer.post_feed_forward_norm, epsilon_);
      const Vector gated = ElementwiseProduct(Map(GeluOfHalves, layer.input_gate * x),
                                              Slice(inputs, i * input_size, input_size));
      x = x + RmsNorm(layer.input_out * gated, layer.post_input_norm, epsilon_);
      x = layer.scale * x;
    }
    return RmsNorm(x, output_norm_, epsilon_);
  }

 private:
  static Gemma4Layer ReadLayer(const ModelFile& file, std::size_t i) {
    const std::string block = BlockName(i);
    Gemma4Layer layer{.attention_norm = file.ReadVector(block + "attn_norm.weight"),
                      .post_attention_norm = file.ReadVector(block + "post_attention_norm.weight"),
                      .attention = Attention::Read(file, i),
                      .feed_forward_norm = file.ReadVector(block + "ffn_norm.weight"),
                      .post_feed_forward_norm = file.ReadVector(block + "post_ffw_norm.weight"),
                      .feed_forward = FeedForward::Read(file, block),
                      .input_gate = file.ReadMatrix(block + "inp_gate.weight"),
                      .input_out = file.ReadMatrix(block + "proj.weight"),
                      .post_input_norm = file.ReadVector(block + "post_norm.weight"),
                      .scale = 1};
    const std::string scale = block + "layer_output_scale.weight";
    if (file.Has(scale)) layer.scale = file.ReadVector(scale)[0];
    constexpr const char* kPattern = "attention.sliding_window_pattern";
    const bool has_window = file.FlagOfLayer(kPattern, i);
    layer.feed_forward.activation = GeluOfHalves;
    Attention& attention = layer.attention;
    attention.scale = 1;
    attention.norms_values = true;
    attention.rotation.pairs = Pairs::kHalves;
    if (has_window) {
      constexpr double kWindowBase = 10000;
      attention.window = file.Count("attention.sliding_window");
      attention.rotation.base = file.RealOr("rope.freq_base_swa", kWindowBase);
    } else {
      attention.rotation.base = file.Real("rope.freq_base");
      attention.rotation.divisors = file.ReadVector("rope_freqs.weight");
    }
    const std::size_t first_shared =
        file.Count("block_count") - file.Count("attention.shared_kv_layers");
    if (i >= first_shared) {
      std::size_t source = first_shared - 1;
      while (file.FlagOfLayer(kPattern, source) != has_window) --source;
      attention.shared_layer = source;
    }
    return layer;
  }

  // `x`: the token's embedding, scaled. Returns the inputs of all layers.
  Vector LayerInputs(const Vector& x, TokenId token) const {
    const std::size_t size = input_norm_.size();
    const Vector projected =
        (1.0 / std::sqrt(static_cast<double>(x.size()))) * (input_projection_ * x);
    const Vector row = input_table_.Row(static_cast<std::size_t>(token));
    Vector inputs;
    for (std::size_t first = 0; first < row.size(); first += size) {
      const Vector normed = RmsNorm(Slice(projected, first, size), input_norm_, epsilon_);
      const Vector own = std::sqrt(static_cast<double>(size)) * Slice(row, first, size);
      inputs = Join(inputs, std::sqrt(0.5) * (normed + own));
    }
    return inputs;
  }

  double epsilon_;
  Vector output_norm_;
  Matrix input_table_, input_projection_;
  Vector input_norm_;
  std::vector<Gemma4Layer> layers_;
};

}  // namespace

std::unique_ptr<Model> ReadGemma4(const ModelFile& file) { return std::make_unique<Gemma4>(file); }

}  // namespace kvd::reference
