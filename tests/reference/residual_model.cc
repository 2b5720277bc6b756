#include "tests/reference/residual_model.h"

#include <utility>
#include <vector>

#include "tests/reference/attention.h"

namespace kvd::reference {
namespace {

struct ResidualLayer {
  Vector mixer_norm, feed_forward_norm;
  LayerParts parts;
};

class ResidualModel : public Model {
 public:
  ResidualModel(const ModelFile& file,
                const std::function<LayerParts(std::size_t layer)>& read_parts,
                const std::string& output_norm)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector(output_norm)) {
    for (std::size_t i = 0; i < layer_count(); ++i) {
      ResidualLayer& layer = layers_.emplace_back();
      layer.mixer_norm = file.ReadVector(BlockName(i) + "attn_norm.weight");
      layer.parts = read_parts(i);
      if (layer.parts.feed_forward)
        layer.feed_forward_norm = file.ReadVector(BlockName(i) + "ffn_norm.weight");
    }
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = embedding;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const ResidualLayer& layer = layers_[i];
      x = x + layer.parts.mixer(RmsNorm(x, layer.mixer_norm, epsilon_), i, sequence);
      if (!layer.parts.feed_forward) continue;
      x = x + layer.parts.feed_forward(RmsNorm(x, layer.feed_forward_norm, epsilon_));
    }
    return RmsNorm(x, output_norm_, epsilon_);
  }

 private:
  double epsilon_;
  Vector output_norm_;
  std::vector<ResidualLayer> layers_;
};

}  // namespace

std::unique_ptr<Model> ReadResidualModel(
    const ModelFile& file, const std::function<LayerParts(std::size_t layer)>& read_parts,
    const std::string& output_norm) {
  return std::make_unique<ResidualModel>(file, read_parts, output_norm);
}

}  // namespace kvd::reference
