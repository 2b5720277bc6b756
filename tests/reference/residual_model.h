// Models whose layers compute x += Mixer(Norm(x)) and x += FeedForward(Norm(x)), with one more norm
// after the last layer (Xiong et al. 2020). The architectures differ in mixers and feed-forwards.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/reference/model.h"

namespace kvd::reference {

// Computes (x, layer, sequence), where x is the token of the sequence's last cell.
using Mixer = std::function<Vector(const Vector&, std::size_t, Sequence&)>;

// Returns the mixer of a recurrent layer, which computes (x, state).
template <class Recurrence>
Mixer MixerOf(Recurrence recurrence) {
  return
      [recurrence = std::move(recurrence)](const Vector& x, std::size_t layer, Sequence& sequence) {
        return recurrence(x, sequence.states[layer]);
      };
}

struct LayerParts {
  Mixer mixer;
  std::function<Vector(const Vector&)> feed_forward;  // empty: the layer has no feed-forward
};

// Reads the norms and, with `read_parts`, the parts of each layer. `output_norm`: the name of the
// weight of the last norm.
std::unique_ptr<Model> ReadResidualModel(
    const ModelFile& file, const std::function<LayerParts(std::size_t layer)>& read_parts,
    const std::string& output_norm = "output_norm.weight");

}  // namespace kvd::reference
