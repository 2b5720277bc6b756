// Grammar: a compiled grammar over the tokens of one vocabulary, which decides which tokens may
// follow a text.
//
// A Grammar is shared by the GrammarMatchers of all texts that it constrains. Its states and masks
// are made when they are first needed, and held for all matchers until they exceed
// GrammarLimits::cache_bytes; then they are dropped, except the matchers' own states. Any function
// may be called from any thread; one mutex protects states, masks and the matchers' places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/work_control.h"
#include "engine/grammar/grammar_program.h"
#include "engine/grammar/grammar_states.h"
#include "engine/grammar/grammar_vocabulary.h"
#include "engine/grammar/token_mask.h"

namespace kvd {

class Grammar {
 public:
  // Compiles GBNF; the text must match the rule "root". Errors: kInvalidArgument: the text is not
  // GBNF, with line and column, or a rule is left recursive; kTooLarge: a limit, by its name;
  // kCancelled.
  static Result<std::shared_ptr<Grammar>> Compile(
      std::string_view gbnf, std::shared_ptr<const GrammarVocabulary> vocabulary,
      const GrammarLimits& limits = {}, WorkControl& work = Uncontrolled());

  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  // A hash of the text, the same in every process.
  std::uint64_t hash() const { return hash_; }
  // The memory of the program, the states and the masks.
  std::size_t held_bytes() const;
  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  // How often the states and masks were dropped.
  std::uint64_t drop_count() const;

 private:
  friend class GrammarMatcher;
  // The index of a matcher's state in slots_.
  using Slot = std::uint32_t;

  Grammar(GrammarProgram program, std::shared_ptr<const GrammarVocabulary> vocabulary,
          const GrammarLimits& limits, std::uint64_t hash);

  Slot AddSlot();
  Slot CopySlot(Slot slot);
  void FreeSlot(Slot slot);
  // The functions of GrammarMatcher. `offset`: the bytes that the matcher has read.
  Status Accept(Slot slot, TokenId token, std::uint64_t offset);
  Status AcceptBytes(Slot slot, std::string_view text, std::uint64_t offset);
  bool MayEnd(Slot slot);
  std::shared_ptr<const TokenMask> Mask(Slot slot);
  bool HasMask(Slot slot);
  std::string ForcedText(Slot slot, std::size_t bytes_max);

  Slot NewSlot(std::uint32_t state) KVD_REQUIRES(mutex_);
  // Drops states and masks if they exceed their limit.
  void LimitStates() KVD_REQUIRES(mutex_);
  std::unexpected<Error> Refusal(std::string_view subject, std::uint64_t offset)
      KVD_REQUIRES(mutex_);
  // The byte that must follow `state`; -1 if none must.
  int ForcedByte(std::uint32_t state) KVD_REQUIRES(mutex_);

  const GrammarProgram program_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  const GrammarLimits limits_;
  const std::uint64_t hash_;

  mutable Mutex mutex_;
  std::unique_ptr<GrammarStates> states_ KVD_GUARDED_BY(mutex_);
  std::uint32_t start_ KVD_GUARDED_BY(mutex_) = 0;
  std::size_t states_bytes_max_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t drop_count_ KVD_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> slots_ KVD_GUARDED_BY(mutex_);  // states; kFree: no matcher
  std::vector<Slot> free_slots_ KVD_GUARDED_BY(mutex_);
};

// GrammarMatcher: the state of a grammar after one text.
//
// A copy is cheap and then independent. One thread at a time uses a matcher; copies may be used on
// other threads at the same time. A matcher keeps its Grammar alive.
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
