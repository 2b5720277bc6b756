// BERT (Devlin et al. 2018): x = Norm(token + type + position), then in each layer
// x = Norm(x + Attention(x)), x = Norm(x + FeedForward(x)). Each token attends to the whole text,
// and every token has type 0, whose embedding is 0 if the file has none. Linear layers have biases,
// norms are layer norms, the activation is GELU.
#include <cmath>
#include <stdexcept>

#include "tests/reference/attention.h"
#include "tests/reference/model.h"

namespace kvd::reference {
namespace {

struct Linear {
  Matrix weight;
  Vector bias;

  static Linear Read(const ModelFile& file, const std::string& name) {
    return {.weight = file.ReadMatrix(name + ".weight"), .bias = file.ReadVector(name + ".bias")};
  }
  Vector operator()(const Vector& x) const { return weight * x + bias; }
};

struct Norm {
  Vector weight, bias;

  static Norm Read(const ModelFile& file, const std::string& name) {
    return {.weight = file.ReadVector(name + ".weight"), .bias = file.ReadVector(name + ".bias")};
  }
};

struct BertLayer {
  Linear q, k, v, out, up, down;
  Norm attention_norm, feed_forward_norm;
};

class Bert : public Model {
 public:
  explicit Bert(const ModelFile& file)
      : Model(file),
        epsilon_(file.Real("attention.layer_norm_epsilon")),
        head_count_(file.Count("attention.head_count")),
        positions_(file.ReadMatrix("position_embd.weight")),
        embedding_norm_(Norm::Read(file, "token_embd_norm")) {
    type_ = file.Has("token_types.weight") ? file.ReadMatrix("token_types.weight").Row(0)
                                           : Vector(embedding_norm_.weight.size(), 0.0);
    for (std::size_t i = 0; i < layer_count(); ++i) {
      const std::string block = BlockName(i);
      layers_.push_back({.q = Linear::Read(file, block + "attn_q"),
                         .k = Linear::Read(file, block + "attn_k"),
                         .v = Linear::Read(file, block + "attn_v"),
                         .out = Linear::Read(file, block + "attn_output"),
                         .up = Linear::Read(file, block + "ffn_up"),
                         .down = Linear::Read(file, block + "ffn_down"),
                         .attention_norm = Norm::Read(file, block + "attn_output_norm"),
                         .feed_forward_norm = Norm::Read(file, block + "layer_output_norm")});
    }
  }

  Vector TextEmbedding(const std::vector<TokenId>& tokens,
                       const std::string& pooling) const override {
    std::vector<Vector> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      rows.push_back(Normed(Embed(tokens[i]) + type_ + positions_.Row(i), embedding_norm_));
    for (const BertLayer& layer : layers_) rows = RunLayer(layer, rows);
    if (pooling == "cls") return rows.front();
    if (pooling == "last") return rows.back();
    if (pooling != "mean") throw std::runtime_error(pooling + ": no such pooling");
    Vector sum(rows.front().size(), 0.0);
    for (const Vector& row : rows) sum = sum + row;
    return (1.0 / static_cast<double>(rows.size())) * sum;
  }

 protected:
  Vector RunLayers(const Vector&, Sequence&) const override {
    throw std::runtime_error("the model decodes no tokens");
  }

 private:
  Vector Normed(const Vector& x, const Norm& norm) const {
    return LayerNorm(x, norm.weight, norm.bias, epsilon_);
  }

  std::vector<Vector> RunLayer(const BertLayer& layer, const std::vector<Vector>& rows) const {
    std::vector<Vector> keys, values, results;
    for (const Vector& x : rows) {
      keys.push_back(layer.k(x));
      values.push_back(layer.v(x));
    }
    for (const Vector& row : rows) {
      const Vector attended = layer.out(Attend(layer.q(row), keys, values));
      const Vector x = Normed(row + attended, layer.attention_norm);
      const Vector fed = layer.down(Map(GeluOfHalves, layer.up(x)));
      results.push_back(Normed(x + fed, layer.feed_forward_norm));
    }
    return results;
  }

  Vector Attend(const Vector& query, const std::vector<Vector>& keys,
                const std::vector<Vector>& values) const {
    const std::size_t size = query.size() / head_count_;
    Vector attended;
    for (std::size_t first = 0; first < query.size(); first += size) {
      const Vector own = Slice(query, first, size);
      Vector scores;
      for (const Vector& key : keys) {
        scores.push_back(Dot(own, Slice(key, first, size)) / std::sqrt(static_cast<double>(size)));
      }
      const Vector shares = Softmax(scores);
      Vector mix(size, 0.0);
      for (std::size_t i = 0; i < values.size(); ++i)
        mix = mix + shares[i] * Slice(values[i], first, size);
      attended = Join(attended, mix);
    }
    return attended;
  }

  double epsilon_;
  std::size_t head_count_;
  Matrix positions_;
  Norm embedding_norm_;
  Vector type_;
  std::vector<BertLayer> layers_;
};

}  // namespace

std::unique_ptr<Model> ReadBert(const ModelFile& file) { return std::make_unique<Bert>(file); }

}  // namespace kvd::reference
