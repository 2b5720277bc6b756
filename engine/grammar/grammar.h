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
#include "base/thread_annotations.h"
#include "base/work_control.h"
#include "engine/grammar/grammar_limits.h"
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

}  // namespace kvd
