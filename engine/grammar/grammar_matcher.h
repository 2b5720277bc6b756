// GrammarMatcher: the state of a grammar after one text.
//
// A copy is cheap and then independent. One thread at a time uses a matcher; copies may be used on
// other threads at the same time. A matcher keeps its Grammar alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/token_mask.h"

namespace kvd {

class GrammarMatcher {
 public:
  // The state before the first token. REQUIRES: grammar is not null.
  explicit GrammarMatcher(std::shared_ptr<Grammar> grammar);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher& operator=(const GrammarMatcher& other);
  // A matcher that was moved from may only be assigned to or destroyed.
  GrammarMatcher(GrammarMatcher&& other) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&& other) noexcept;
  ~GrammarMatcher();

  // Appends a token to the text. An end-of-generation token is accepted where may_end(), and
  // changes nothing, or where a token terminal names it. After an error the matcher is unchanged.
  // Errors: kInvalidArgument: the token is not in the vocabulary, or leads out of the language
  // (with the token and the offset of the byte in the text); kTooLarge: a state needs more than
  // GrammarLimits::depth or ::state_entries.
  Status Accept(TokenId token);
  // Appends bytes, which may begin or end inside a token or a character. Errors and after an error:
  // as Accept.
  Status AcceptText(std::string_view text);

  // Whether the text so far is a sentence.
  bool may_end() const { return grammar_->MayEnd(slot_); }
  // Whether neither a token nor the end is possible. Makes the mask.
  bool is_dead() const { return Mask()->empty() && !may_end(); }
  // Returns the tokens that may follow, with the end-of-generation tokens if may_end(). The mask of
  // a state is made once, which takes up to a millisecond, and held.
  std::shared_ptr<const TokenMask> Mask() const { return grammar_->Mask(slot_); }
  bool has_cached_mask() const { return grammar_->HasMask(slot_); }
  // Returns the bytes that must follow, at most `bytes_max`: before each of them, the text may not
  // end, and only this byte can follow.
  std::string ForcedText(std::size_t bytes_max) const {
    return grammar_->ForcedText(slot_, bytes_max);
  }

  const std::shared_ptr<Grammar>& grammar() const { return grammar_; }
  // The bytes of the accepted tokens and texts.
  std::uint64_t byte_count() const { return byte_count_; }

 private:
  std::shared_ptr<Grammar> grammar_;  // null after a move
  Grammar::Slot slot_ = 0;
  std::uint64_t byte_count_ = 0;
};

}  // namespace kvd
