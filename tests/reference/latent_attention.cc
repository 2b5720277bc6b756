#include "tests/reference/latent_attention.h"

#include <cmath>

namespace kvd::reference {

LatentAttention LatentAttention::Read(const ModelFile& file, std::size_t layer) {
  const std::string block = BlockName(layer);
  LatentAttention read;
  read.rank = file.Count("attention.kv_lora_rank");
  read.rotated_size = file.Count("rope.dimension_count");
  read.epsilon = file.Real("attention.layer_norm_rms_epsilon");
  if (file.Has(block + "attn_q.weight")) {
    read.query = file.ReadMatrix(block + "attn_q.weight");
  } else {
    read.query_down = file.ReadMatrix(block + "attn_q_a.weight");
    read.query_norm = file.ReadVector(block + "attn_q_a_norm.weight");
    read.query_up = file.ReadMatrix(block + "attn_q_b.weight");
  }
  read.down = file.ReadMatrix(block + "attn_kv_a_mqa.weight");
  read.norm = file.ReadVector(block + "attn_kv_a_norm.weight");
  read.key_up = file.ReadMatrices(block + "attn_k_b.weight");
  read.value_up = file.ReadMatrices(block + "attn_v_b.weight");
  read.out = file.ReadMatrix(block + "attn_output.weight");
  return read;
}

Vector LatentAttention::operator()(const Vector& x, std::size_t layer, Sequence& sequence) const {
  const std::int32_t pos = sequence.cells.back().pos;
  const Vector latent = down * x;
  sequence.cells.back().keys[layer] =
      Join(RmsNorm(Slice(latent, 0, rank), norm, epsilon), Slice(latent, rank, rotated_size));
  const Vector queries =
      query.rows != 0 ? query * x : query_up * RmsNorm(query_down * x, query_norm, epsilon);

  Vector attended;
  for (std::size_t head = 0; head < key_up.size(); ++head) {
    const std::size_t plain_size = key_up[head].columns;
    const std::size_t head_size = plain_size + rotated_size;
    const Vector plain = Slice(queries, head * head_size, plain_size);
    const Vector rotated =
        Rotate(rotation, Slice(queries, head * head_size + plain_size, rotated_size), pos);
    Vector scores;
    std::vector<Vector> values;
    for (const Cell& cell : sequence.cells) {
      if (cell.pos > pos) continue;
      const Vector c = Slice(cell.keys[layer], 0, rank);
      const Vector r = Rotate(rotation, Slice(cell.keys[layer], rank, rotated_size), cell.pos);
      const double score = Dot(plain, TransposedProduct(key_up[head], c)) + Dot(rotated, r);
      scores.push_back(score / std::sqrt(static_cast<double>(head_size)));
      values.push_back(value_up[head] * c);
    }
    const Vector shares = Softmax(scores);
    Vector mix(value_up[head].rows, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) mix = mix + shares[i] * values[i];
    attended = Join(attended, mix);
  }
  return out * attended;
}

}  // namespace kvd::reference
