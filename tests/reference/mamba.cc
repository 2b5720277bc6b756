#include "tests/reference/mamba.h"

#include <cmath>

#include "tests/reference/attention.h"

namespace kvd::reference {

Mamba Mamba::Read(const ModelFile& file, std::size_t layer) {
  const std::string block = BlockName(layer);
  Mamba mamba;
  mamba.epsilon = file.Real("attention.layer_norm_rms_epsilon");
  mamba.in = file.ReadMatrix(block + "ssm_in.weight");
  mamba.convolution = {.taps = file.ReadMatrix(block + "ssm_conv1d.weight"),
                       .bias = file.ReadVector(block + "ssm_conv1d.bias")};
  mamba.x = file.ReadMatrix(block + "ssm_x.weight");
  mamba.dt = file.ReadMatrix(block + "ssm_dt.weight");
  mamba.dt_bias = file.ReadVector(block + "ssm_dt.bias");
  mamba.a = file.ReadMatrix(block + "ssm_a");
  mamba.d = file.ReadVector(block + "ssm_d");
  mamba.out = file.ReadMatrix(block + "ssm_out.weight");
  if (file.Has(block + "ssm_dt_norm.weight")) {
    mamba.dt_norm = file.ReadVector(block + "ssm_dt_norm.weight");
    mamba.b_norm = file.ReadVector(block + "ssm_b_norm.weight");
    mamba.c_norm = file.ReadVector(block + "ssm_c_norm.weight");
  }
  return mamba;
}

Vector Mamba::operator()(const Vector& input, RecurrentState& state) const {
  const std::size_t channels = a.rows, states = a.columns, rank = dt.columns;
  const Vector projected = in * input;
  const Vector u = Map(Silu, convolution(Slice(projected, 0, channels), state));
  const Vector z = Slice(projected, channels, channels);

  const Vector selected = x * u;
  Vector low_rank = Slice(selected, 0, rank);
  Vector b = Slice(selected, rank, states);
  Vector c = Slice(selected, rank + states, states);
  if (!dt_norm.empty()) {
    low_rank = RmsNorm(low_rank, dt_norm, epsilon);
    b = RmsNorm(b, b_norm, epsilon);
    c = RmsNorm(c, c_norm, epsilon);
  }
  const Vector step = Map(Softplus, dt * low_rank + dt_bias);

  if (state.hidden.empty()) state.hidden.assign(channels, Vector(states, 0.0));
  Vector y(channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    Vector& h = state.hidden[channel];
    for (std::size_t s = 0; s < states; ++s) {
      h[s] = std::exp(step[channel] * a(channel, s)) * h[s] + step[channel] * b[s] * u[channel];
    }
    y[channel] = Dot(c, h) + d[channel] * u[channel];
  }
  return out * ElementwiseProduct(y, Map(Silu, z));
}

}  // namespace kvd::reference
