// AnswerGrammar: a grammar as it holds one answer: the matcher's state, and the triggers of a lazy
// grammar that has not begun yet.
//
// A lazy grammar begins at the first trigger of the answer; before it, every token may be drawn. A
// text trigger is found in the texts of the tokens, those of control tokens included, and the
// grammar reads the answer from the trigger's first byte on. A token trigger is read as a token. If
// the answer's next token completes a trigger and continues with bytes that the grammar refuses,
// Accept refuses the token; the caller then draws another one.
//
// One thread at a time uses an AnswerGrammar; a copy of its matcher may be used by another one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/grammar/grammar.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

struct GrammarTrigger {
  TokenId token = kNoToken;  // kNoToken: the trigger is the text
  std::string text{};
};

class AnswerGrammar {
 public:
  // Largest number of tokens that ForcedTokens returns.
  static constexpr std::size_t kForcedTokensMax = 32;

  // Without triggers, the grammar begins at once. `vocabulary` outlives the AnswerGrammar.
  AnswerGrammar(std::shared_ptr<Grammar> grammar, std::vector<GrammarTrigger> triggers,
                const Vocabulary& vocabulary);

  // False: a lazy grammar waits for its trigger, and every token may be drawn.
  bool has_begun() const { return has_begun_; }
  const GrammarMatcher& matcher() const { return matcher_; }
  GrammarMatcher& matcher() { return matcher_; }

  // Reads the answer's next token. Errors: kInvalidArgument (the answer would leave the language);
  // nothing has then changed.
  Status Accept(TokenId token);

  // Returns tokens that spell the bytes which must follow, if the grammar allows no others. Each of
  // them is the longest token that these bytes begin with, whatever bytes follow them, so that the
  // tokens after any of them are those that ForcedTokens returns after Accept of it. At most
  // `tokens_max` and kForcedTokensMax tokens; none before the grammar has begun.
  std::vector<TokenId> ForcedTokens(std::size_t tokens_max) const;

 private:
  Status AcceptWaiting(TokenId token);

  const Vocabulary* vocabulary_;
  GrammarMatcher matcher_;
  std::vector<GrammarTrigger> triggers_;
  std::size_t trigger_bytes_max_ = 0;
  std::string tail_;  // the answer's last bytes, in which a trigger may begin
  bool has_begun_;
};

}  // namespace kvd
