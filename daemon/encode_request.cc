#include "daemon/encode_request.h"

#include <utility>

namespace kvd {

EncodeRequest::EncodeRequest(RequestOrigin origin, SequenceHandle sequence,
                             std::vector<TokenId> tokens, TokenId start_token)
    : ComputingRequest(std::move(origin), sequence),
      tokens_(std::move(tokens)),
      start_token_(start_token) {}

void EncodeRequest::RunAlone(Engine& engine) {
  if (const Status status = engine.Encode(sequence(), tokens_, applied()); !status) {
    return EndWith(status.error());
  }
  wire::Completion completion = MakeCompletion();
  completion.value0 = static_cast<std::int64_t>(tokens_.size());
  completion.value1 = start_token_;
  SetFinal({.completion = completion, .output = {}});
}

}  // namespace kvd
