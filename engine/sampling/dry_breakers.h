// DryBreakers: the token sequences at which DRY stops looking for repetitions, such as the tokens
// of a line break.
//
// A breaker is a text. A token that contains the whole text is a breaker by itself. A token that
// ends with the beginning of the text is the head of a breaker; its tail is the tokens of the rest
// of the text. daemon/requests/breaker_search.h finds both kinds in a vocabulary.
//
// A DryBreakers is immutable and may be used from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace kvd {

class DryBreakers {
 public:
  struct Head {
    TokenId token = 0;
    std::uint32_t tail = 0;  // index of the tail
    friend auto operator<=>(const Head&, const Head&) = default;
  };

  DryBreakers() = default;  // no breakers
  // `whole`: by token, whether the token contains a breaker; `heads`: their tails are indices of
  // `tails`.
  DryBreakers(std::vector<bool> whole, std::vector<Head> heads,
              std::vector<std::vector<TokenId>> tails);

  bool empty() const { return whole_.empty() && heads_.empty(); }
  bool IsBreaker(TokenId token) const {
    return static_cast<std::size_t>(token) < whole_.size() &&
           whole_[static_cast<std::size_t>(token)];
  }
  // Returns the number of latest tokens that precede no breaker: the number of tokens after the
  // last breaker in `recent` (latest token first), or recent.size() without a breaker.
  std::size_t TokensSince(std::span<const TokenId> recent) const;

 private:
  // Returns the number of tokens after the head of the longest breaker that begins with the token
  // at `place`; -1: no breaker begins there.
  std::ptrdiff_t TailAt(std::span<const TokenId> recent, std::size_t place) const;

  std::vector<bool> whole_;
  std::vector<Head> heads_;  // sorted
  std::vector<std::vector<TokenId>> tails_;
};

}  // namespace kvd
