// The selective state-space layer of Mamba (Gu and Dao 2023, algorithm 2 and section 3.4), for one
// token:
//
//   u, z = In x;  u = silu(Convolution(u))
//   dt, B, C = X u;  dt = softplus(Dt dt + bias)
//   h[c][s] = exp(dt[c] A[c][s]) h[c][s] + dt[c] B[s] u[c]
//   y[c] = sum over s of C[s] h[c][s], + D[c] u[c];  the result is Out (y * silu(z))
//
// In Jamba, dt, B and C are normalised before they are used (Lieber et al. 2024).
#pragma once

#include "tests/reference/convolution.h"
#include "tests/reference/linear_algebra.h"
#include "tests/reference/model_file.h"
#include "tests/reference/sequence.h"

namespace kvd::reference {

struct Mamba {
  double epsilon = 0;
  Matrix in, x, dt, out;
  Convolution convolution;
  Vector dt_bias;
  Vector dt_norm, b_norm, c_norm;  // empty: none
  Matrix a;                        // [channels, states]
  Vector d;

  static Mamba Read(const ModelFile& file, std::size_t layer);

  Vector operator()(const Vector& input, RecurrentState& state) const;
};

}  // namespace kvd::reference
