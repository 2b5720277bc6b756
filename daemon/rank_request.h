// RankRequest: kRank: the score of each document for a query. The text of a pair is tokenized when
// its turn comes, on the engine thread; kRankTextBytesMax bounds the time that this takes.
#pragma once

#include <vector>

#include "daemon/texts_request.h"

namespace kvd {

class RankRequest final : public TextsRequest {
 public:
  // `payload`: the bytes that `texts` refers to, as SplitTexts has made it. REQUIRES: the model has
  // a classifier and a tokenizer.
  RankRequest(RequestOrigin origin, std::vector<std::byte> payload,
              std::vector<std::string_view> texts);

 private:
  Result<std::vector<TokenId>> TokensOf(const Engine& engine, std::size_t text) override;
  std::string NameOf(std::size_t text) const override;
  void Take(Embedding embedding, std::size_t token_count) override;
  void Answer() override;

  const std::vector<std::byte> payload_;
  const std::vector<std::string_view> texts_;  // the query, then the documents
  wire::RankReply reply_;
};

}  // namespace kvd
