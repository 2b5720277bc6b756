// Mamba (Gu and Dao 2023): layers of a mixer alone.
#include "tests/reference/mamba.h"
#include "tests/reference/residual_model.h"

namespace kvd::reference {

std::unique_ptr<Model> ReadMamba(const ModelFile& file) {
  return ReadResidualModel(file, [&](std::size_t layer) {
    return LayerParts{.mixer = MixerOf(Mamba::Read(file, layer)), .feed_forward = {}};
  });
}

}  // namespace kvd::reference
