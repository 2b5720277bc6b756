// Jamba (Lieber et al. 2024): x += Mixer(Norm(x)), x += FeedForward(Norm(x)). The mixer is
// attention without rotation in layers that have KV heads, and Mamba in the other layers.
#include <optional>

#include "tests/reference/attention.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/mamba.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct Layer {
  Vector mixer_norm;
  std::optional<Attention> attention;
  std::optional<Mamba> mamba;
  Vector feed_forward_norm;
  FeedForward feed_forward;
};

class Jamba : public Model {
 public:
  explicit Jamba(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector("output_norm.weight")) {
    for (std::size_t i = 0; i < layer_count(); ++i) {
      const std::string block = BlockName(i);
      Layer& layer = layers_.emplace_back();
      layer.mixer_norm = file.ReadVector(block + "attn_norm.weight");
      if (file.CountOfLayer("attention.head_count_kv", i) != 0) {
        layer.attention = Attention::Read(file, i);
      } else {
        layer.mamba = Mamba::Read(file, i);
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
                               : (*layer.mamba)(normed, sequence.states[i]));
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

std::unique_ptr<Model> ReadJamba(const ModelFile& file) { return std::make_unique<Jamba>(file); }

}  // namespace kvd::reference
