// Cuts a text at the special tokens that stand in it by their text.
//
// Longer tokens are searched first, each over what the ones before left, from left to right.
// User-defined tokens are always found; control and unknown tokens only on demand, since text of a
// user could imitate them. Made after `ResolveSpecialTokens`; immutable, any thread; refers to the
// `TokenTable`, which outlives it.
#pragma once

#include <string_view>
#include <vector>

#include "engine/vocabulary/token_table.h"

namespace kvd {

// A special token, or (token == kNoToken) text between them, never empty.
struct TextFragment {
  TokenId token = kNoToken;
  std::string_view text;
};

class SpecialPartition {
 public:
  explicit SpecialPartition(const TokenTable& tokens);

  // The fragments in order; views into `text`. `parse_special`: control and unknown tokens are
  // found, too.
  std::vector<TextFragment> Cut(std::string_view text, bool parse_special) const;

 private:
  void CutAt(TokenId token, std::vector<TextFragment>& fragments,
             std::vector<TextFragment>& scratch) const;

  const TokenTable& tokens_;
  std::vector<TokenId> searched_;  // longest text first
};

}  // namespace kvd
