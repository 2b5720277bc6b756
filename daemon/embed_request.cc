#include "daemon/embed_request.h"

#include <utility>

#include "engine/encoder.h"

namespace kvd {

EmbedRequest::EmbedRequest(RequestOrigin origin, std::vector<TokenId> tokens, bool normalizes)
    : ComputingRequest(std::move(origin), SequenceHandle::kNone),
      tokens_(std::move(tokens)),
      normalizes_(normalizes) {}

void EmbedRequest::RunAlone(Engine& engine) {
  Result<Embedding> embedding = engine.Embed(tokens_);
  if (!embedding) return EndWith(embedding.error());
  const std::span<float> values = embedding->values;
  for (std::size_t row = 0; normalizes_ && row < embedding->row_count; ++row)
    NormalizeRow(values.subspan(row * embedding->width, embedding->width));
  wire::Completion completion = MakeCompletion();
  completion.value0 = static_cast<std::int64_t>(embedding->row_count);
  completion.value1 = static_cast<std::int64_t>(embedding->width);
  const auto bytes = std::as_bytes(values);
  SetFinal({.completion = completion, .output = {bytes.begin(), bytes.end()}});
}

}  // namespace kvd
