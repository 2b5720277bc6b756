// A feed-forward layer computes down(f(up x)) (Vaswani et al. 2017) or, with a gate, down(f(gate x)
// * up x) (Shazeer 2020).
#pragma once

#include "tests/reference/linear_algebra.h"
#include "tests/reference/model_file.h"

namespace kvd::reference {

struct FeedForward {
  double (*activation)(double) = Silu;
  Matrix gate;  // without rows: the layer has no gate
  Matrix up, down;

  // Reads the tensors of the block: `block` + "ffn_up.weight", "ffn_down.weight" and, if present,
  // "ffn_gate.weight".
  static FeedForward Read(const ModelFile& file, const std::string& block);

  Vector operator()(const Vector& x) const;
};

}  // namespace kvd::reference
