// Cuts a text at the special tokens that stand in it by their text.
//
// Longer tokens win over shorter ones, equally long ones by the lower id, and one token's places
// from left to right. User-defined tokens are always found; control and unknown tokens only on
// demand, since text of a user could imitate them. Made after `ResolveSpecialTokens`; immutable, any
// thread; refers to the `TokenTable`, which outlives it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/vocabulary/special_matcher.h"
#include "engine/vocabulary/token_table.h"
#include "shm/work_control.h"

namespace kvd {

// A special token, or (token == kNoToken) text between them, never empty.
struct TextFragment {
  TokenId token = kNoToken;
  std::string_view text;

  friend bool operator==(const TextFragment&, const TextFragment&) = default;
};

class SpecialPartition {
 public:
  // kCorrupt: SpecialMatcher::Create.
  static Result<std::unique_ptr<SpecialPartition>> Create(const TokenTable& tokens);

  // The fragments in order; views into `text`. `parse_special`: control and unknown tokens are
  // found, too. Steps are linear in the text's bytes, whatever the text and however many special
  // tokens there are. Errors: kCancelled. REQUIRES: text.size() < 2^32.
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
