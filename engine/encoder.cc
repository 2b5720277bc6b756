#include "engine/encoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/architectures/architecture.h"

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
    return Fail(Code::kInvalidArgument, "token " + std::to_string(i) + ": id " +
                                            std::to_string(tokens[i]) + ", the vocabulary has " +
                                            std::to_string(config.vocab_size));
  }
  return {};
}

}  // namespace

std::size_t EncoderTokensMax(const ModelConfig& config) { return config.context_length; }

Status CheckEmbed(const ModelConfig& config, std::span<const TokenId> tokens) {
  const std::string name(config.architecture_name());
  if (config.encoder.layer_count == 0 || config.has_decoder) {
    return Fail(Code::kUnsupported, "embed: a model of architecture " + name + " embeds no text");
  }
  if (config.encoder.pooling == Pooling::kRank) {
    return Fail(Code::kUnsupported, "embed: " + name + ".pooling_type is rank: this model ranks");
  }
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "tokens: none given");
  if (tokens.size() > EncoderTokensMax(config)) {
    return Fail(Code::kInvalidArgument, "tokens: " + std::to_string(tokens.size()) +
                                            ", the model reads at most " +
                                            std::to_string(EncoderTokensMax(config)));
  }
  return CheckTokens(config, tokens);
}

Status CheckEncode(const ModelConfig& config, std::span<const TokenId> tokens) {
  if (!config.has_cross_attention()) {
    return Fail(Code::kUnsupported, "encode: a model of architecture " +
                                        std::string(config.architecture_name()) +
                                        " has no encoder with a decoder behind it");
  }
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "tokens: none given");
  return CheckTokens(config, tokens);
}

EncoderPass& Encoder::Encode(std::span<const TokenId> tokens) {
  pass_.Begin(tokens);
  DefinitionOf(pass_.config().architecture).encode(pass_);
  return pass_;
}

Result<Embedding> Encoder::Embed(std::span<const TokenId> tokens) {
  const ModelConfig& config = pass_.config();
  KVD_CHECK_OK(CheckEmbed(config, tokens));
  const EncoderRows& rows = Encode(tokens).stream();
  const auto append = [&](Embedding& into, std::size_t row) {
    into.values.insert(into.values.end(), rows[row], rows[row] + rows.width());
  };
  Embedding embedding{.values = {}, .row_count = 1, .width = rows.width()};
  switch (config.encoder.pooling) {
    case Pooling::kNone:
      embedding.row_count = tokens.size();
      for (std::size_t row = 0; row < tokens.size(); ++row) append(embedding, row);
      break;
    case Pooling::kMean: Mean(rows, tokens.size(), &embedding.values); break;
    case Pooling::kLast: append(embedding, tokens.size() - 1); break;
    case Pooling::kCls:
    case Pooling::kRank: append(embedding, 0); break;
  }
  if (!pass_.compute().kernels->all_finite(embedding.values.data(), embedding.values.size()))
    return Fail(Code::kNumerical, "an embedding is not finite");
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
