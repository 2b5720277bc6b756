// A mixture of experts (Shazeer et al. 2017): the router scores the experts of a layer for a token,
// and the results of the experts with the best scores are added, each multiplied by its weight. A
// shared expert (DeepSeek-AI 2024) is added for every token, without a weight.
#pragma once

#include <optional>
#include <vector>

#include "tests/reference/feed_forward.h"

namespace kvd::reference {

struct Experts {
  std::size_t used_count = 0;
  // True: the weights of the chosen experts are divided by their sum. A weight is the softmax of
  // the router's scores, over all experts.
  bool has_normed_weights = false;
  Matrix router;
  std::vector<FeedForward> experts;
  std::optional<FeedForward> shared;

  // Reads the experts of the layer, and its shared expert if the file has one.
  static Experts Read(const ModelFile& file, std::size_t layer);

  Vector operator()(const Vector& x) const;
};

}  // namespace kvd::reference
