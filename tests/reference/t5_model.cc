// T5 (Raffel et al. 2020). Encoder layer: x += Attention(Norm(x)), x += FeedForward(Norm(x)); each
// token attends to the whole text. Decoder layer: x += CausalAttention(Norm(x)), x +=
// CrossAttention(Norm(x)) to the encoded text, x += FeedForward(Norm(x)). Attention scores are not
// scaled. Self-attention adds a bias by the distance between query and key; all layers share the
// biases of the first layer. Feed-forwards without a gate use ReLU (Raffel et al. 2020), those with
// a gate GELU (Shazeer 2020).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/reference/feed_forward.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

// Returns the bucket of a distance (Raffel et al. 2020, section 2.1). Half of the buckets of a side
// are for single distances; the other buckets are logarithmic up to distance 128.
std::size_t Bucket(int key_minus_query, std::size_t bucket_count, bool sees_both_sides) {
  constexpr double kReach = 128;
  // compensates rounding errors of logarithms that are whole numbers
  constexpr double kRounding = 1e-9;
  const std::size_t side = sees_both_sides ? bucket_count / 2 : bucket_count;
  const std::size_t first = sees_both_sides && key_minus_query > 0 ? side : 0;
  const int distance = sees_both_sides ? std::abs(key_minus_query) : std::max(0, -key_minus_query);
  const std::size_t single_distances = side / 2;
  const auto exact = static_cast<double>(single_distances);
  if (distance < exact) return first + static_cast<std::size_t>(distance);
  const double share = std::log(distance / exact) / std::log(kReach / exact);
  const auto bucket = static_cast<std::size_t>(
      exact + std::floor(share * (static_cast<double>(side) - exact) + kRounding));
  return first + std::min(bucket, side - 1);
}

struct Projections {
  Matrix q, k, v, out;

  static Projections Read(const ModelFile& file, const std::string& prefix) {
    return {.q = file.ReadMatrix(prefix + "q.weight"),
            .k = file.ReadMatrix(prefix + "k.weight"),
            .v = file.ReadMatrix(prefix + "v.weight"),
            .out = file.ReadMatrix(prefix + "o.weight")};
  }
};

// Returns, for each head, the mean of `values` weighted by the softmax of the scores of `query`
// with `keys`. `bias`: added to the scores, indexed by key and head; empty: none.
Vector Mix(const Vector& query, const std::vector<Vector>& keys, const std::vector<Vector>& values,
           const std::vector<Vector>& bias, std::size_t head_count) {
  const std::size_t head_size = query.size() / head_count;
  Vector mixed;
  for (std::size_t head = 0; head < head_count; ++head) {
    const std::size_t first = head * head_size;
    const Vector own = Slice(query, first, head_size);
    Vector scores;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const double offset = bias.empty() ? 0.0 : bias[i][head];
      scores.push_back(Dot(own, Slice(keys[i], first, head_size)) + offset);
    }
    const Vector shares = Softmax(scores);
    Vector mix(head_size, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      mix = mix + shares[i] * Slice(values[i], first, head_size);
    }
    mixed = Join(mixed, mix);
  }
  return mixed;
}

struct T5Layer {
  Vector attention_norm, cross_norm, feed_forward_norm;
  Projections attention, cross;
  FeedForward feed_forward;

  static T5Layer Read(const ModelFile& file, const std::string& block) {
    T5Layer layer;
    layer.attention_norm = file.ReadVector(block + "attn_norm.weight");
    layer.attention = Projections::Read(file, block + "attn_");
    if (file.Has(block + "cross_attn_norm.weight")) {
      layer.cross_norm = file.ReadVector(block + "cross_attn_norm.weight");
      layer.cross = Projections::Read(file, block + "cross_attn_");
    }
    layer.feed_forward_norm = file.ReadVector(block + "ffn_norm.weight");
    layer.feed_forward = FeedForward::Read(file, block);
    layer.feed_forward.activation = layer.feed_forward.gate.rows == 0 ? Relu : GeluOfHalves;
    return layer;
  }
};

class T5 : public Model {
 public:
  explicit T5(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_rms_epsilon")),
        head_count_(file.Count("attention.head_count")),
        encoder_bias_(file.ReadMatrix("enc.blk.0.attn_rel_b.weight")),
        decoder_bias_(file.ReadMatrix("dec.blk.0.attn_rel_b.weight")),
        encoder_norm_(file.ReadVector("enc.output_norm.weight")),
        decoder_norm_(file.ReadVector("dec.output_norm.weight")) {
    for (std::size_t i = 0; i < layer_count(); ++i) {
      const std::string block = "blk." + std::to_string(i) + ".";
      encoder_.push_back(T5Layer::Read(file, "enc." + block));
      decoder_.push_back(T5Layer::Read(file, "dec." + block));
    }
  }

  void Encode(const std::vector<TokenId>& tokens, Sequence& sequence) const override {
    std::vector<Vector> rows;
    for (const TokenId token : tokens) rows.push_back(Embed(token));
    for (const T5Layer& layer : encoder_) RunEncoderLayer(layer, rows);
    for (Vector& row : rows) row = RmsNorm(row, encoder_norm_, epsilon_);
    EncodedText text;
    for (const T5Layer& layer : decoder_) {
      text.keys.emplace_back();
      text.values.emplace_back();
      for (const Vector& row : rows) {
        text.keys.back().push_back(layer.cross.k * row);
        text.values.back().push_back(layer.cross.v * row);
      }
    }
    sequence.text = std::move(text);
  }

 protected:
  Vector RunLayers(const Vector& embedding, Sequence& sequence) const override {
    Vector x = embedding;
    for (std::size_t i = 0; i < decoder_.size(); ++i) {
      const T5Layer& layer = decoder_[i];
      x = x + AttendToCells(layer, i, RmsNorm(x, layer.attention_norm, epsilon_), sequence);
      const Vector query = layer.cross.q * RmsNorm(x, layer.cross_norm, epsilon_);
      x = x + layer.cross.out *
                  Mix(query, sequence.text.keys[i], sequence.text.values[i], {}, head_count_);
      x = x + layer.feed_forward(RmsNorm(x, layer.feed_forward_norm, epsilon_));
    }
    return RmsNorm(x, decoder_norm_, epsilon_);
  }

 private:
  void RunEncoderLayer(const T5Layer& layer, std::vector<Vector>& rows) const {
    std::vector<Vector> queries, keys, values;
    for (const Vector& row : rows) {
      const Vector x = RmsNorm(row, layer.attention_norm, epsilon_);
      queries.push_back(layer.attention.q * x);
      keys.push_back(layer.attention.k * x);
      values.push_back(layer.attention.v * x);
    }
    for (std::size_t query = 0; query < rows.size(); ++query) {
      std::vector<Vector> bias;
      for (std::size_t key = 0; key < rows.size(); ++key) {
        const int distance = static_cast<int>(key) - static_cast<int>(query);
        bias.push_back(encoder_bias_.Row(Bucket(distance, encoder_bias_.rows, true)));
      }
      Vector& x = rows[query];
      x = x + layer.attention.out * Mix(queries[query], keys, values, bias, head_count_);
      x = x + layer.feed_forward(RmsNorm(x, layer.feed_forward_norm, epsilon_));
    }
  }

  Vector AttendToCells(const T5Layer& layer, std::size_t i, const Vector& x,
                       Sequence& sequence) const {
    sequence.cells.back().keys[i] = layer.attention.k * x;
    sequence.cells.back().values[i] = layer.attention.v * x;
    const std::int32_t pos = sequence.cells.back().pos;
    std::vector<Vector> keys, values, bias;
    for (const Cell& cell : sequence.cells) {
      if (cell.pos > pos) continue;
      keys.push_back(cell.keys[i]);
      values.push_back(cell.values[i]);
      bias.push_back(decoder_bias_.Row(Bucket(cell.pos - pos, decoder_bias_.rows, false)));
    }
    return layer.attention.out * Mix(layer.attention.q * x, keys, values, bias, head_count_);
  }

  double epsilon_;
  std::size_t head_count_;
  Matrix encoder_bias_, decoder_bias_;  // [buckets, heads]
  Vector encoder_norm_, decoder_norm_;
  std::vector<T5Layer> encoder_, decoder_;
};

}  // namespace

std::unique_ptr<Model> ReadT5(const ModelFile& file) { return std::make_unique<T5>(file); }

}  // namespace kvd::reference
