// ResumedDraws: the tokens that an earlier attempt of a generation has drawn, which the retried
// generation reads again one after the other.
//
// Invariant: at most as many tokens were received as were drawn. All tokens are committed, except
// the last one if is_last_open() is true; the client has then received all of them, and at most one
// committed token is removed.
//
// Owner: the generation. Only the engine thread uses a ResumedDraws.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace kvd {

// The point from which a retried generation resumes: the tokens that the earlier attempt has
// committed, and the number of these tokens that the client has received.
struct GenerationResumption {
  std::size_t prompt_done = 0;
  // The tokens that the earlier attempt has drawn, in order. All tokens of `drawn` are committed,
  // except the last one if is_last_drawn is true.
  std::vector<TokenId> drawn;
  bool is_last_drawn = false;
  std::size_t streamed = 0;  // number of tokens of `drawn` that the client has received
  // The number of last cells that are computed again, because the logits after their tokens were
  // lost. With is_last_drawn: at most 1, and the sampler adapts to the last token of `drawn`.
  std::size_t take_back = 0;
};

class ResumedDraws {
 public:
  explicit ResumedDraws(GenerationResumption from) : from_(std::move(from)) {
    KVD_ASSERT(from_.streamed <= from_.drawn.size());
    KVD_ASSERT(
        !from_.is_last_drawn ||
        (!from_.drawn.empty() && from_.streamed == from_.drawn.size() && from_.take_back <= 1));
  }

  struct Draw {
    TokenId token = 0;
    bool is_open = false;      // the token is not committed
    bool is_received = false;  // the client has received the token
  };
  bool has_next() const { return read_ < from_.drawn.size(); }
  // Returns the next token. REQUIRES: has_next().
  Draw Next() {
    KVD_ASSERT(has_next());
    const TokenId token = from_.drawn[read_++];
    return {.token = token,
            .is_open = from_.is_last_drawn && !has_next(),
            .is_received = read_ <= from_.streamed};
  }
  // Returns whether the last token was drawn and received, but not committed.
  bool is_last_open() const { return from_.is_last_drawn; }
  // Returns the last drawn token. REQUIRES: is_last_open().
  TokenId last() const { return from_.drawn.back(); }
  // Returns the last drawn token that is committed; nullopt: there is none.
  std::optional<TokenId> last_committed() const {
    const std::size_t committed = from_.drawn.size() - (from_.is_last_drawn ? 1 : 0);
    if (committed == 0) return std::nullopt;
    return from_.drawn[committed - 1];
  }
  // Returns the number of last cells that are removed and computed again.
  std::size_t take_back() const { return from_.take_back; }

 private:
  const GenerationResumption from_;
  std::size_t read_ = 0;  // number of tokens that Next has returned
};

}  // namespace kvd
