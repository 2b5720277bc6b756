// Multi-head latent attention (DeepSeek-AI 2024, section 2.1), for one token:
//
//   c, r = Down x;  c = Norm(c)
//   for each head: q, s = the head's part of Query x
//   key = KeyUp^T c;  value = ValueUp c
//   score = (q . key + Rotate(s) . Rotate(r)) / sqrt(size of q and s together)
//
// A cell holds c and r, without rotation, and no value; keys and values of the heads are computed
// from them whenever they are read. With low-rank queries, Query x is QueryUp Norm(QueryDown x).
#pragma once

#include <vector>

#include "tests/reference/attention.h"

namespace kvd::reference {

struct LatentAttention {
  std::size_t rank = 0;          // elements of c
  std::size_t rotated_size = 0;  // elements of r, and of s
  double epsilon = 0;
  Rotation rotation;
  Matrix query;  // without rows: the queries have a low rank
  Matrix query_down, query_up;
  Vector query_norm;
  Matrix down;
  Vector norm;
  std::vector<Matrix> key_up;    // by head: [rank, elements of q]
  std::vector<Matrix> value_up;  // by head: [elements of a value, rank]
  Matrix out;

  static LatentAttention Read(const ModelFile& file, std::size_t layer);

  // Stores c and r of `x` in the last cell and returns the attention output of `x` at the position
  // of that cell. REQUIRES: sequence.cells is not empty.
  Vector operator()(const Vector& x, std::size_t layer, Sequence& sequence) const;
};

}  // namespace kvd::reference
