#include "engine/forward/encoder.h"

#include <algorithm>
#include <cmath>

#include "engine/forward/architectures/architecture.h"
#include "engine/forward/compute/row_functions.h"

namespace kvd {
namespace {

// The mean of all rows, summed in f64.
void Mean(const EncoderRows& rows, std::size_t row_count, std::vector<float>* mean) {
  for (std::size_t i = 0; i < rows.width(); ++i) {
    double sum = 0;
    for (std::size_t row = 0; row < row_count; ++row) sum += double{rows[row][i]};
    mean->push_back(static_cast<float>(sum / static_cast<double>(row_count)));
  }
}

Status CheckTokens(const ModelConfig& config, std::span<const TokenId> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<std::uint32_t>(tokens[i]) < config.vocab_size) continue;
    return Fail(Code::kInvalidArgument, "token ", i, ": id ", tokens[i], ", the vocabulary has ",
                config.vocab_size);
  }
  return {};
}

}  // namespace

std::size_t EncoderTokensMax(const ModelConfig& config) { return config.context_length; }

// The buffers of EncoderText: stream, keys and values, and a pointer to each row of the three.
std::uint64_t EncoderBytes(const ModelConfig& config, std::size_t token_count) {
  const EncoderConfig& encoder = config.encoder;
  const std::uint64_t floats =
      config.embedding_size + 2ull * encoder.kv_head_count * encoder.head_dim;
  return token_count * (floats * sizeof(float) + 3 * sizeof(float*));
}

Result<Pooling> PoolingFor(const ModelConfig& config, std::optional<Pooling> wanted) {
  const EncoderConfig& encoder = config.encoder;
  const std::string_view name = config.architecture_name();
  if (encoder.layer_count == 0 || config.has_cross_attention()) {
    return Fail(Code::kUnsupported, "embed: a model of architecture ", name,
                " with these layers does not embed texts");
  }
  const std::optional<Pooling> pooling = wanted ? wanted : encoder.pooling;
  if (!pooling) {
    return Fail(Code::kUnsupported, "embed: the model's file has no ", name,
                ".pooling_type; the request must name a pooling");
  }
  if (*pooling == Pooling::kRank && !encoder.classifier.is_present) {
    return Fail(Code::kUnsupported, "rank: this model of architecture ", name,
                " has no classifier; it ranks no texts");
  }
  return *pooling;
}

std::size_t EmbeddingWidth(const ModelConfig& config, Pooling pooling) {
  const EncoderConfig& encoder = config.encoder;
  const ClassifierConfig& classifier = encoder.classifier;
  if (pooling == Pooling::kRank) {
    return classifier.is_dense_only ? classifier.dense_size : classifier.label_count;
  }
  std::size_t width = config.embedding_size;
  if (pooling == Pooling::kNone) return width;
  for (const std::uint32_t size : encoder.projection_sizes) width = size != 0 ? size : width;
  return width;
}

Status CheckEmbed(const ModelConfig& config, std::span<const TokenId> tokens,
                  std::optional<Pooling> pooling) {
  KVD_TRY([[maybe_unused]] const Pooling used, PoolingFor(config, pooling));
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "tokens: none given");
  if (tokens.size() > EncoderTokensMax(config)) {
    return Fail(Code::kInvalidArgument, "tokens: ", tokens.size(), ", the model reads at most ",
                EncoderTokensMax(config));
  }
  return CheckTokens(config, tokens);
}

Status CheckEncode(const ModelConfig& config, std::span<const TokenId> tokens) {
  if (!config.has_cross_attention()) {
    return Fail(Code::kUnsupported, "encode: a model of architecture ", config.architecture_name(),
                " does not have both an encoder and a decoder");
  }
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "tokens: none given");
  if (tokens.size() > kEncodeTokensMax) {
    return Fail(Code::kInvalidArgument, "tokens: ", tokens.size(), ", an encoded text has at most ",
                kEncodeTokensMax);
  }
  return CheckTokens(config, tokens);
}

std::uint64_t Encoder::KeysCost() const {
  const ModelConfig& config = pass_.config();
  const EncoderConfig& encoder = config.encoder;
  return 2 * std::uint64_t{config.embedding_size} * encoder.kv_head_count * encoder.head_dim;
}

std::uint64_t Encoder::RowsCost(std::size_t token_count) const {
  const ModelConfig& config = pass_.config();
  const EncoderConfig& encoder = config.encoder;
  const std::uint64_t heads_width = std::uint64_t{encoder.head_count} * encoder.head_dim;
  return 2 * config.embedding_size * (heads_width + std::uint64_t{encoder.feed_forward_size}) +
         2 * heads_width * token_count;
}

std::uint64_t Encoder::TokenCost() const {
  const std::uint64_t layers = pass_.config().encoder.layer_count;
  return std::max<std::uint64_t>(layers * (KeysCost() + RowsCost(0)), 1);
}

std::uint64_t Encoder::CostLeft(const TextEncoding& encoding) const {
  const std::size_t layer_count = pass_.config().encoder.layer_count;
  if (encoding.layer == layer_count) return 0;
  const std::size_t count = encoding.text.tokens.size();
  const std::uint64_t layer = count * (KeysCost() + RowsCost(count));
  const std::uint64_t done = encoding.has_keys ? count * KeysCost() + encoding.row * RowsCost(count)
                                               : encoding.row * KeysCost();
  return (layer_count - encoding.layer) * layer - done;
}

void Encoder::Advance(TextEncoding& encoding, std::uint64_t cost_max) {
  // With fewer than kRowsMin rows, reading the weights costs more than the products.
  constexpr std::size_t kRowsMin = 16;
  const ArchitectureDefinition& definition = DefinitionOf(pass_.config().architecture);
  const std::size_t count = encoding.text.tokens.size();
  if (encoding.layer == 0 && !encoding.has_keys && encoding.row == 0) pass_.Shape(encoding.text);
  const std::uint64_t row_cost = encoding.has_keys ? RowsCost(count) : KeysCost();
  const std::uint64_t affordable = cost_max / std::max<std::uint64_t>(row_cost, 1);
  const std::size_t rows = std::min<std::size_t>(
      std::clamp<std::uint64_t>(affordable, kRowsMin, EncoderPass::kRowsMax), count - encoding.row);
  pass_.Begin(encoding.text, encoding.row, rows);
  (encoding.has_keys ? definition.encode_rows : definition.encode_keys)(pass_, encoding.layer);
  encoding.row += rows;
  if (encoding.row < count) return;
  encoding.row = 0;
  encoding.layer += encoding.has_keys ? 1 : 0;
  encoding.has_keys = !encoding.has_keys;
}

Result<Embedding> Encoder::Pool(const TextEncoding& encoding, Pooling pooling) {
  const EncoderRows& rows = encoding.text.stream;
  const std::size_t count = encoding.text.tokens.size();
  const auto copy = [&](std::size_t first, std::size_t row_count) {
    return std::vector<float>(rows[first], rows[first] + row_count * rows.width());
  };
  const ClassifierConfig& classifier = pass_.config().encoder.classifier;
  std::vector<float> values;
  switch (pooling == Pooling::kRank ? classifier.row : pooling) {
    case Pooling::kNone: values = copy(0, count); break;
    case Pooling::kMean: Mean(rows, count, &values); break;
    case Pooling::kLast: values = copy(count - 1, 1); break;
    case Pooling::kCls:
    case Pooling::kRank: values = copy(0, 1); break;
  }
  if (pooling == Pooling::kRank) {
    values = Scores(std::move(values));
  } else if (pooling != Pooling::kNone) {
    for (const LinearView& projection : pass_.weights().encoder.projections) {
      if (projection.weight) values = pass_.Project(projection, values);
    }
  }
  if (!pass_.compute().kernels->all_finite(values.data(), values.size()))
    return Fail(Code::kNumerical, "embed: the embedding is not finite");
  const std::size_t row_count = pooling == Pooling::kNone ? count : 1;
  const std::size_t width = values.size() / row_count;
  return Embedding{.values = std::move(values), .row_count = row_count, .width = width};
}

std::vector<float> Encoder::Scores(std::vector<float> row) {
  const ClassifierConfig& config = pass_.config().encoder.classifier;
  const ClassifierWeights& weights = pass_.weights().encoder.classifier;
  if (weights.dense.weight) {
    row = pass_.Project(weights.dense, row);
    if (config.has_gelu) {
      const std::vector<float> ones(row.size(), 1.0f);
      pass_.compute().kernels->gelu_multiply(row.data(), ones.data(), row.size(), row.data());
    } else {
      for (float& x : row) x = static_cast<float>(std::tanh(static_cast<double>(x)));
    }
    if (weights.norm.weight != nullptr) {
      LayerNorm(row.data(), weights.norm, row.size(), pass_.config().encoder.norm_epsilon,
                row.data());
    }
  }
  if (weights.output.weight) row = pass_.Project(weights.output, row);
  if (!config.has_softmax) return row;
  const double greatest = static_cast<double>(*std::ranges::max_element(row));
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - greatest);
  for (float& x : row) {
    x = static_cast<float>(std::exp(static_cast<double>(x) - greatest) / sum);
  }
  return row;
}

void NormalizeRow(std::span<float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * double{x};
  if (squares == 0) return;
  const double scale = 1.0 / std::sqrt(squares);
  for (float& x : row) x = static_cast<float>(double{x} * scale);
}

}  // namespace kvd
