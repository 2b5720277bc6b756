// TextsRequest: a request that reads texts one after the other, in slices between steps: kEmbed and
// kRank. No text takes cells, and an error of one text ends the request without an answer for the
// other texts. The error names the text.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

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

}  // namespace kvd
