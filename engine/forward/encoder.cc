#include "engine/forward/encoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/forward/architectures/architecture.h"

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
  const std::uint64_t floats = config.embedding_size + 2ull * encoder.head_count * encoder.head_dim;
  return token_count * (floats * sizeof(float) + 3 * sizeof(float*));
}

Status CheckEmbed(const ModelConfig& config, std::span<const TokenId> tokens) {
  const std::string name(config.architecture_name());
  if (config.encoder.layer_count == 0 || config.has_decoder) {
    return Fail(Code::kUnsupported, "embed: a model of architecture ", name,
                " does not embed texts");
  }
  if (config.encoder.pooling == Pooling::kRank) {
    return Fail(Code::kUnsupported, "embed: ", name,
                ".pooling_type is rank: this model ranks texts and does not embed them");
  }
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
  return 2 * std::uint64_t{config.embedding_size} * encoder.head_count * encoder.head_dim;
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

Result<Embedding> Encoder::Pool(const TextEncoding& encoding) const {
  const EncoderRows& rows = encoding.text.stream;
  const std::size_t count = encoding.text.tokens.size();
  const auto append = [&](Embedding& into, std::size_t row) {
    into.values.insert(into.values.end(), rows[row], rows[row] + rows.width());
  };
  Embedding embedding{.values = {}, .row_count = 1, .width = rows.width()};
  switch (pass_.config().encoder.pooling) {
    case Pooling::kNone:
      embedding.row_count = count;
      for (std::size_t row = 0; row < count; ++row) append(embedding, row);
      break;
    case Pooling::kMean: Mean(rows, count, &embedding.values); break;
    case Pooling::kLast: append(embedding, count - 1); break;
    case Pooling::kCls:
    case Pooling::kRank: append(embedding, 0); break;
  }
  if (!pass_.compute().kernels->all_finite(embedding.values.data(), embedding.values.size()))
    return Fail(Code::kNumerical, "embed: the embedding is not finite");
  return embedding;
}

void NormalizeRow(std::span<float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * double{x};
  if (squares == 0) return;
  const double scale = 1.0 / std::sqrt(squares);
  for (float& x : row) x = static_cast<float>(double{x} * scale);
}

}  // namespace kvd
