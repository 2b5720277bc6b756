#include "tests/reference/attention.h"

#include <cmath>

namespace kvd::reference {

std::string BlockName(std::size_t layer) { return "blk." + std::to_string(layer) + "."; }

Vector Rotate(const Rotation& rotation, const Vector& head, std::int32_t pos) {
  if (rotation.base == 0) return head;
  Vector turned(head);
  const std::size_t half = head.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double divisor = rotation.divisors.empty() ? 1.0 : rotation.divisors[i];
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head.size());
    const double angle = pos * std::pow(rotation.base, exponent) / divisor;
    const bool is_interleaved = rotation.pairs == Pairs::kNeighbours;
    const std::size_t a = is_interleaved ? 2 * i : i;
    const std::size_t b = is_interleaved ? 2 * i + 1 : i + half;
    turned[a] = head[a] * std::cos(angle) - head[b] * std::sin(angle);
    turned[b] = head[a] * std::sin(angle) + head[b] * std::cos(angle);
  }
  return turned;
}

Attention Attention::Read(const ModelFile& file, std::size_t layer) {
  const std::string block = BlockName(layer);
  Attention attention;
  attention.q = file.ReadMatrix(block + "attn_q.weight");
  if (file.Has(block + "attn_k.weight")) {
    attention.k = file.ReadMatrix(block + "attn_k.weight");
    attention.v = file.ReadMatrix(
        block + (file.Has(block + "attn_v.weight") ? "attn_v.weight" : "attn_k.weight"));
  }
  attention.out = file.ReadMatrix(block + "attn_output.weight");
  if (file.Has(block + "attn_q_norm.weight")) {
    attention.q_norm = file.ReadVector(block + "attn_q_norm.weight");
  }
  if (file.Has(block + "attn_k_norm.weight")) {
    attention.k_norm = file.ReadVector(block + "attn_k_norm.weight");
  }
  const std::size_t head_count = file.Count("attention.head_count");
  attention.head_size = attention.q.rows / head_count;
  attention.heads_per_kv_head = head_count / file.CountOfLayer("attention.head_count_kv", layer);
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_size));
  attention.epsilon = file.Real("attention.layer_norm_rms_epsilon");
  return attention;
}

Vector Attention::NormedHeads(Vector heads, const Vector& weight) const {
  if (weight.empty()) return heads;
  Vector normed;
  for (std::size_t first = 0; first < heads.size(); first += head_size) {
    normed = Join(normed, RmsNorm(Slice(heads, first, head_size), weight, epsilon));
  }
  return normed;
}

Vector Attention::operator()(const Vector& x, std::size_t layer, Sequence& sequence) const {
  const std::int32_t pos = sequence.cells.back().pos;
  const Vector queries = NormedHeads(q * x, q_norm);
  if (!shared_layer) {
    sequence.cells.back().keys[layer] = NormedHeads(k * x, k_norm);
    const Vector ones(norms_values ? head_size : 0, 1.0);
    sequence.cells.back().values[layer] = NormedHeads(v * x, ones);
  }
  const std::size_t source = shared_layer.value_or(layer);

  Vector attended;
  for (std::size_t head = 0; head * head_size < q.rows; ++head) {
    const Vector query = Rotate(rotation, Slice(queries, head * head_size, head_size), pos);
    const std::size_t kv_first = head / heads_per_kv_head * head_size;
    Vector scores;
    std::vector<Vector> values;
    for (const Cell& cell : sequence.cells) {
      const bool is_in_reach = window == 0 || pos - cell.pos < static_cast<std::int32_t>(window);
      if (cell.pos > pos || !is_in_reach) continue;
      const Vector key = Rotate(rotation, Slice(cell.keys[source], kv_first, head_size), cell.pos);
      scores.push_back(scale * Dot(query, key));
      values.push_back(Slice(cell.values[source], kv_first, head_size));
    }
    const Vector shares = Softmax(scores);
    Vector mix(head_size, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) mix = mix + shares[i] * values[i];
    attended = Join(attended, mix);
  }
  return out * attended;
}

}  // namespace kvd::reference
