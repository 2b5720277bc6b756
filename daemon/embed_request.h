// EmbedRequest: kEmbed: the embeddings of texts.
#pragma once

#include <vector>

#include "daemon/texts_request.h"
#include "shm/payload_codec.h"

namespace kvd {

class EmbedRequest final : public TextsRequest {
 public:
  // `normalizes`: rows are scaled to length 1; without effect on scores. REQUIRES: CheckEmbed
  // accepts each text; the rows fit into one piece of the client's arena.
  EmbedRequest(RequestOrigin origin, wire::TokenLists texts, Pooling pooling, bool normalizes);

 private:
  Result<std::vector<TokenId>> TokensOf(const Engine& engine, std::size_t text) override;
  std::string NameOf(std::size_t text) const override;
  void Take(Embedding embedding, std::size_t token_count) override;
  void Answer() override;

  wire::TokenLists texts_;
  const bool normalizes_;
  wire::EmbedReply reply_;
};

}  // namespace kvd
