// Llama (Touvron et al. 2023): x += Attention(Norm(x)), x += FeedForward(Norm(x)).
#include "tests/reference/attention.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct Layer {
  Vector attention_norm;
  Attention attention;
  Vector feed_forward_norm;
  FeedForward feed_forward;
};

class Llama : public Model {
 public:
  explicit Llama(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector("output_norm.weight")) {
    Rotation rotation{.pairs = Pairs::kNeighbours, .base = file.Real("rope.freq_base")};
    if (file.Has("rope_freqs.weight")) rotation.divisors = file.ReadVector("rope_freqs.weight");
    for (std::size_t i = 0; i < layer_count(); ++i) {
      const std::string block = BlockName(i);
      layers_.push_back({.attention_norm = file.ReadVector(block + "attn_norm.weight"),
                         .attention = Attention::Read(file, i),
                         .feed_forward_norm = file.ReadVector(block + "ffn_norm.weight"),
                         .feed_forward = FeedForward::Read(file, block)});
      layers_.back().attention.rotation = rotation;
    }
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = embedding;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      x = x + layer.attention(RmsNorm(x, layer.attention_norm, epsilon_), i, sequence);
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

std::unique_ptr<Model> ReadLlama(const ModelFile& file) { return std::make_unique<Llama>(file); }

}  // namespace kvd::reference
