#include "tests/reference/experts.h"

#include <algorithm>
#include <numeric>

#include "tests/reference/attention.h"

namespace kvd::reference {

Experts Experts::Read(const ModelFile& file, std::size_t layer) {
  const std::string block = BlockName(layer);
  Experts read;
  read.used_count = file.Count("expert_used_count");
  read.router = file.ReadMatrix(block + "ffn_gate_inp.weight");
  const std::vector<Matrix> gates = file.ReadMatrices(block + "ffn_gate_exps.weight");
  const std::vector<Matrix> ups = file.ReadMatrices(block + "ffn_up_exps.weight");
  const std::vector<Matrix> downs = file.ReadMatrices(block + "ffn_down_exps.weight");
  for (std::size_t i = 0; i < gates.size(); ++i) {
    read.experts.push_back({.activation = Silu, .gate = gates[i], .up = ups[i], .down = downs[i]});
  }
  if (file.Has(block + "ffn_up_shexp.weight")) {
    read.shared = {.activation = Silu,
                   .gate = file.ReadMatrix(block + "ffn_gate_shexp.weight"),
                   .up = file.ReadMatrix(block + "ffn_up_shexp.weight"),
                   .down = file.ReadMatrix(block + "ffn_down_shexp.weight")};
  }
  return read;
}

Vector Experts::operator()(const Vector& x) const {
  const Vector shares = Softmax(router * x);
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  order.resize(used_count);
  double sum = 0;
  for (const std::size_t expert : order) sum += shares[expert];
  const double divisor = has_normed_weights ? sum : 1.0;
  Vector y = shared ? (*shared)(x) : Vector(x.size(), 0.0);
  for (const std::size_t expert : order) y = y + (shares[expert] / divisor) * experts[expert](x);
  return y;
}

}  // namespace kvd::reference
