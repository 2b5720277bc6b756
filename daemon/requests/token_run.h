// TokenRun: the tokens that a generation computes next: a drawn token, and the tokens that a
// grammar forces after it.
//
// The client sees a drawn token before it is computed, and forced tokens after they are committed.
// A run may also consist of forced tokens only. Invariant: the run's first done_ tokens are
// committed; a token is drawn only if it is the first one.
//
// Owner: the generation. Only the engine thread uses a TokenRun.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace kvd {

class TokenRun {
 public:
  // Replaces the run by one that consists of a drawn token.
  void Begin(TokenId drawn) {
    tokens_.assign(1, drawn);
    done_ = 0;
    drawn_ = 1;
  }
  // Adds a forced token. If the whole run is committed, the token begins a new one.
  void AddForced(TokenId token) {
    if (left() == 0) Clear();
    tokens_.push_back(token);
  }
  // Removes the tokens that are not committed, except a drawn one.
  void DropForced() { tokens_.resize(std::max(done_, drawn_)); }

  // Returns the number of tokens that are not committed.
  std::size_t left() const { return tokens_.size() - done_; }
  // Returns whether the drawn token is not committed.
  bool has_drawn_left() const { return done_ < drawn_; }
  // Returns the number of forced tokens that are not committed.
  std::size_t forced_left() const { return tokens_.size() - std::max(done_, drawn_); }
  // Returns at most tokens_max of the tokens that are computed next.
  std::span<const TokenId> Next(std::size_t tokens_max) const {
    return std::span(tokens_).subspan(done_, std::min(tokens_max, left()));
  }
  // Returns how many of the next `count` tokens are forced. REQUIRES: 0 < count <= left().
  std::size_t ForcedIn(std::size_t count) const { return count - (has_drawn_left() ? 1 : 0); }
  // Notes that the next `count` tokens are committed, and returns the forced ones of them, which
  // are valid until the run changes. REQUIRES: count <= left().
  std::span<const TokenId> Commit(std::size_t count) {
    KVD_ASSERT(count <= left());
    const std::size_t begin = std::max(done_, drawn_);
    done_ += count;
    return std::span<const TokenId>(tokens_).subspan(begin, done_ - std::min(begin, done_));
  }

 private:
  void Clear() {
    tokens_.clear();
    done_ = drawn_ = 0;
  }

  std::vector<TokenId> tokens_;
  std::size_t done_ = 0;   // number of committed tokens
  std::size_t drawn_ = 0;  // 1: the first token is drawn; 0: all are forced
};

}  // namespace kvd
