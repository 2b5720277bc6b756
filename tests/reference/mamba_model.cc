// Mamba (Gu and Dao 2023): x += Mamba(Norm(x)).
#include "tests/reference/attention.h"
#include "tests/reference/mamba.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct Layer {
  Vector norm;
  Mamba mixer;
};

class MambaModel : public Model {
 public:
  explicit MambaModel(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        output_norm_(file.ReadVector("output_norm.weight")) {
    for (std::size_t i = 0; i < layer_count(); ++i) {
      layers_.push_back({.norm = file.ReadVector(BlockName(i) + "attn_norm.weight"),
                         .mixer = Mamba::Read(file, i)});
    }
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = embedding;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      x = x + layers_[i].mixer(RmsNorm(x, layers_[i].norm, epsilon_), sequence.states[i]);
    }
    return RmsNorm(x, output_norm_, epsilon_);
  }

 private:
  double epsilon_;
  Vector output_norm_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Model> ReadMamba(const ModelFile& file) {
  return std::make_unique<MambaModel>(file);
}

}  // namespace kvd::reference
