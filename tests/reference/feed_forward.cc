#include "tests/reference/feed_forward.h"

namespace kvd::reference {

FeedForward FeedForward::Read(const ModelFile& file, const std::string& block) {
  FeedForward read;
  if (file.Has(block + "ffn_gate.weight")) read.gate = file.ReadMatrix(block + "ffn_gate.weight");
  read.up = file.ReadMatrix(block + "ffn_up.weight");
  read.down = file.ReadMatrix(block + "ffn_down.weight");
  return read;
}

Vector FeedForward::operator()(const Vector& x) const {
  if (gate.rows == 0) return down * Map(activation, up * x);
  return down * ElementwiseProduct(Map(activation, gate * x), up * x);
}

}  // namespace kvd::reference
