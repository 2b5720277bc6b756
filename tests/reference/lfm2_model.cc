// LFM2 (Liquid AI 2025): x += Mixer(Norm(x)), x += FeedForward(Norm(x)). The mixer is attention in
// layers that have KV heads, and a gated short convolution in the other layers: B, C, u = In x;
// Mixer = Out (C * Convolution(B * u)). The weight of the last norm is named token_embd_norm.
#include <optional>

#include "tests/reference/attention.h"
#include "tests/reference/convolution.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct ShortConvolution {
  Matrix in, out;
  Convolution convolution;

  static ShortConvolution Read(const ModelFile& file, std::size_t layer) {
    const std::string block = BlockName(layer) + "shortconv.";
    return {.in = file.ReadMatrix(block + "in_proj.weight"),
            .out = file.ReadMatrix(block + "out_proj.weight"),
            .convolution = {.taps = file.ReadMatrix(block + "conv.weight"), .bias = {}}};
  }

  Vector operator()(const Vector& x, RecurrentState& state) const {
    const Vector gates = in * x;
    const Vector b = Slice(gates, 0, x.size());
    const Vector c = Slice(gates, x.size(), x.size());
    const Vector u = Slice(gates, 2 * x.size(), x.size());
    return out * ElementwiseProduct(c, convolution(ElementwiseProduct(b, u), state));
  }
};

struct Layer {
  Vector mixer_norm;
  std::optional<Attention> attention;
  std::optional<ShortConvolution> convolution;
  Vector feed_forward_norm;
  FeedForward feed_forward;
};

class Lfm2 : public Model {
 public:
  explicit Lfm2(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector("token_embd_norm.weight")) {
    for (std::size_t i = 0; i < layer_count(); ++i) {
      const std::string block = BlockName(i);
      Layer& layer = layers_.emplace_back();
      layer.mixer_norm = file.ReadVector(block + "attn_norm.weight");
      if (file.CountOfLayer("attention.head_count_kv", i) != 0) {
        layer.attention = Attention::Read(file, i);
        layer.attention->rotation = {.pairs = Pairs::kHalves, .base = file.Real("rope.freq_base")};
      } else {
        layer.convolution = ShortConvolution::Read(file, i);
      }
      layer.feed_forward_norm = file.ReadVector(block + "ffn_norm.weight");
      layer.feed_forward = FeedForward::Read(file, block);
    }
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = embedding;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const Vector normed = RmsNorm(x, layer.mixer_norm, epsilon_);
      x = x + (layer.attention ? (*layer.attention)(normed, i, sequence)
                               : (*layer.convolution)(normed, sequence.states[i]));
      x = x + layer.feed_forward(RmsNorm(x, layer.feed_forward_norm, epsilon_));
    }
    return RmsNorm(x, output_norm_, epsilon_);
  }

 private:
  double epsilon_;
  Vector output_norm_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Model> ReadLfm2(const ModelFile& file) { return std::make_unique<Lfm2>(file); }

}  // namespace kvd::reference
