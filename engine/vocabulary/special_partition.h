// SpecialPartition cuts a text at the special tokens whose text occurs in it.
//
// Overlaps are resolved in this order: a longer token wins over a shorter one, the lower id wins
// between tokens of equal length, and the leftmost occurrence of one token wins. User-defined
// tokens are always found. Control and unknown tokens are found only on demand, because a user's
// text could imitate them. A SpecialPartition is created after `ResolveSpecialTokens`, is
// immutable, and may be used from any thread. A SpecialPartition refers to the `TokenTable`, which
// must outlive it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/work_control.h"
#include "engine/vocabulary/special_matcher.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

// A special token, or, if token == kNoToken, the non-empty text between special tokens.
struct TextFragment {
  TokenId token = kNoToken;
  std::string_view text;

  friend bool operator==(const TextFragment&, const TextFragment&) = default;
};

class SpecialPartition {
 public:
  // Errors: kCorrupt, as SpecialMatcher::Create.
  static Result<std::unique_ptr<SpecialPartition>> Create(const TokenTable& tokens);

  // Returns the fragments in order, as views into `text`. `parse_special`: also find control and
  // unknown tokens. The number of steps is linear in the bytes of `text`, for any text and any
  // number of special tokens. Errors: kCancelled. REQUIRES: text.size() < 2^32.
  Result<std::vector<TextFragment>> Cut(std::string_view text, bool parse_special,
                                        WorkControl& work) const;

 private:
  SpecialPartition(const TokenTable& tokens, SpecialMatcher all, SpecialMatcher user_defined)
      : tokens_(tokens), all_(std::move(all)), user_defined_(std::move(user_defined)) {}

  const TokenTable& tokens_;
  const SpecialMatcher all_;
  const SpecialMatcher user_defined_;
};

}  // namespace kvd
