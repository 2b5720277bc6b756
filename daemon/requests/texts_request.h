// Requests that run the encoder over texts: kEmbed, kRank and kEncode.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/schedule/computing_request.h"
#include "shm/payload_codec.h"

namespace kvd {

// TextsRequest: a request that reads texts one after the other, in slices between steps: kEmbed and
// kRank. No text takes cells, and an error of one text ends the request without an answer for the
// other texts. The error names the text.
class TextsRequest : public ComputingRequest, public SlicedWork {
 public:
  SlicedWork* sliced_work() final { return this; }
  bool excludes_others() const final { return false; }
  std::size_t work_left() const final;
  WorkKind work_kind() const final { return WorkKind::kEncode; }
  void DoWork(Engine& engine, std::size_t tokens) final;
  void OnCancel() final;

 protected:
  // `expected_tokens`: the number of tokens of all texts, or an estimate.
  TextsRequest(RequestOrigin origin, std::size_t text_count, std::size_t expected_tokens,
               std::optional<Pooling> pooling)
      : ComputingRequest(std::move(origin), SequenceHandle::kNone),
        text_count_(text_count),
        expected_tokens_(expected_tokens),
        pooling_(pooling) {}

  // Returns the tokens of a text, which is read once.
  virtual Result<std::vector<TokenId>> TokensOf(const Engine& engine, std::size_t text) = 0;
  // The name of a text in errors: "text 3".
  virtual std::string NameOf(std::size_t text) const = 0;
  // Receives the embedding of the next text, which has token_count tokens. Called once for each
  // text of the request, in their order.
  virtual void Take(Embedding embedding, std::size_t token_count) = 0;
  // Sets the answer; called once, after the last text.
  virtual void Answer() = 0;

 private:
  // Starts the next text. Errors: those of TokensOf, of Engine::StartEmbed and of the share.
  Status Start(Engine& engine);

  const std::size_t text_count_;
  std::size_t expected_tokens_;  // of the texts that have not begun
  const std::optional<Pooling> pooling_;
  std::size_t text_ = 0;             // the text that is read, or is read next
  std::size_t token_count_ = 0;      // of that text
  Share buffers_;                    // the share that counts the memory of work_
  Share answer_;                     // the share that counts the results so far
  std::unique_ptr<EmbedWork> work_;  // null: the text has not begun, or the request has ended
};

// EmbedRequest: kEmbed: the embeddings of texts.
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

// RankRequest: kRank: the score of each document for a query. The text of a pair is tokenized when
// its turn comes, on the engine thread; kRankTextBytesMax bounds the time that this takes.
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

// EncodeRequest: kEncode: runs the text that a sequence's decoder attends to through the encoder,
// in slices between steps, with one commit at the end.
class EncodeRequest final : public ComputingRequest, public SlicedWork {
 public:
  // `start_token`: the token with which decoding starts, for the answer; -1: none. REQUIRES:
  // CheckEncode accepts the tokens.
  EncodeRequest(RequestOrigin origin, SequenceHandle sequence, std::vector<TokenId> tokens,
                TokenId start_token);

  SlicedWork* sliced_work() override { return this; }
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kEncode; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  const std::vector<TokenId> tokens_;
  const TokenId start_token_;
  Share buffers_;  // the share that counts the memory of work_
  // The work of the request; null: the work has not begun, or has ended.
  std::unique_ptr<EngineWork> work_;
};

}  // namespace kvd
