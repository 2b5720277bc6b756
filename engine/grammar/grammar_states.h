// GrammarStates: the states of a grammar's automaton, made when they are first reached.
//
// A state is the set of all stacks with which the text so far can continue (stack_sets.h), in which
// each first frame is at a step that reads a byte or a token, or is the bottom: then the text so
// far is a sentence. State 0 has no stack. The transitions of a state by classes of bytes are
// remembered. Reading a byte advances the first frames that accept it; then the closure enters
// called rules and leaves ended ones until every first frame is at a reading step again.
//
// Owner: Grammar. Not thread-safe. The program must outlive the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar_program.h"
#include "engine/grammar/stack_sets.h"
#include "engine/grammar/token_mask.h"

namespace kvd {

class GrammarStates {
 public:
  static constexpr std::uint32_t kDead = 0;  // the state without a stack

  GrammarStates(const GrammarProgram& program, const GrammarLimits& limits);

  // Why the last transitions lack stacks that the grammar has.
  struct Losses {
    bool depth = false;    // some would be deeper than GrammarLimits::depth
    bool entries = false;  // GrammarLimits::state_entries ended a closure: it has no stack
  };

  // The state before the first byte.
  std::uint32_t Start();
  // The state after a byte; kDead if no stack reads it.
  std::uint32_t Next(std::uint32_t state, std::uint8_t byte) {
    const std::uint32_t next =
        transitions_[state * std::size_t{stride_} + program_.byte_class[byte]];
    return next != kUnknown ? next : MakeTransition(state, byte);
  }
  // The state after a token that token terminals match; kDead if none does. `is_named`: a negated
  // terminal may match the token.
  std::uint32_t NextByTerminal(std::uint32_t state, TokenId token, bool is_named);
  // The state after the token of one frame of a state. REQUIRES: the frame is at a step kToken.
  std::uint32_t AfterTerminal(const StackFrame& frame);
  // The state of the stacks of both.
  std::uint32_t Union(std::uint32_t a, std::uint32_t b);

  bool MayEnd(std::uint32_t state) const { return states_[state].may_end; }
  // Whether a stack waits for a token that a terminal names.
  bool HasTerminals(std::uint32_t state) const { return states_[state].has_terminals; }
  std::uint32_t SetOf(std::uint32_t state) const { return states_[state].set; }
  const StackSets& sets() const { return sets_; }
  const GrammarProgram& program() const { return program_; }
  std::uint32_t state_count() const { return static_cast<std::uint32_t>(states_.size()); }

  // The state to which most characters lead, and the groups of bytes (VocabularyTrie::ByteGroups)
  // all of whose bytes or characters lead there; no groups if there is no such state. Kept for
  // BuildMask, which finds them.
  struct Run {
    std::uint32_t next = kDead;
    std::uint64_t groups = 0;
    bool is_known = false;
  };
  Run& run(std::uint32_t state) { return states_[state].run; }

  const std::shared_ptr<const TokenMask>& mask(std::uint32_t state) const {
    return states_[state].mask;
  }
  void SetMask(std::uint32_t state, std::shared_ptr<const TokenMask> mask);

  // Adds a state of another object of the same program and returns its number here. `copied`: as
  // StackSets::Copy.
  std::uint32_t Copy(const GrammarStates& others, std::uint32_t state,
                     std::unordered_map<std::uint32_t, std::uint32_t>& copied);

  // What was lost since the last ClearLosses. A remembered transition that lost only a part of its
  // stacks loses nothing again.
  const Losses& losses() const { return losses_; }
  void ClearLosses() { losses_ = {}; }
  // Frames looked at since the object was made, without those of unions.
  std::size_t work() const { return work_; }
  std::size_t held_bytes() const;

 private:
  static constexpr std::uint32_t kUnknown = 0xffffffff;
  // Frames that the unions of one closure may compare. Unions are not part of state_entries,
  // because remembered unions cost nothing: whether a text is accepted must not depend on earlier
  // texts. Only grammars made for the purpose need this much.
  static constexpr std::size_t kUnionWorkMax = 1u << 21;

  struct State {
    std::uint32_t set = 0;
    bool may_end = false;
    bool has_terminals = false;
    Run run{};
    std::shared_ptr<const TokenMask> mask{};
  };
  // The frames below a rule that the closure enters.
  struct Entered {
    std::uint32_t rule = 0;
    std::uint32_t inherited = 0;  // a set: the tails of calls at the end of their rule
    std::vector<StackFrame> frames;
  };

  std::uint32_t MakeTransition(std::uint32_t state, std::uint8_t byte);
  // Appends where `frame` is after `byte` to items_.
  void Advance(const StackFrame& frame, std::uint8_t byte);
  std::uint32_t Close();
  void BeginClosure() {
    work_limit_ = work_ + limits_.state_entries;
    union_work_ = 0;
  }
  void Walk(StackFrame frame, bool is_entered);
  void Enter(std::uint32_t rule, const StackFrame& below);
  std::uint32_t InternFrames(std::vector<StackFrame>& frames);
  std::uint32_t StateOf(std::uint32_t set);
  bool IsOverBudget() const { return work_ > work_limit_ || union_work_ > kUnionWorkMax; }

  const GrammarProgram& program_;
  const GrammarLimits limits_;
  const std::uint32_t stride_;
  StackSets sets_;
  std::vector<State> states_;
  std::vector<std::uint32_t> state_of_set_;  // by set; kUnknown: no state
  std::vector<std::uint32_t> transitions_;   // [states][stride_]
  std::size_t mask_bytes_ = 0;
  Losses losses_;
  std::size_t work_ = 0;
  std::size_t work_limit_ = 0;
  std::size_t union_work_ = 0;  // of the present closure

  // The working memory of one closure.
  std::vector<StackFrame> items_;    // after reading; still to be walked
  std::vector<StackFrame> reading_;  // the first frames of the new state
  std::vector<Entered> entered_;
  std::size_t entered_count_ = 0;
  std::vector<std::uint32_t> ranks_;          // of entered rules; a heap, smallest first
  std::vector<std::uint32_t> place_of_rule_;  // by rule: index in entered_ plus 1; 0: not entered
  // The frames of the last transition after reading, and its result: many bytes of a state lead to
  // the same frames.
  std::vector<StackFrame> last_items_;
  std::uint32_t last_next_ = kUnknown;
  std::vector<std::uint32_t> left_;  // sets that the closure has resumed
};

}  // namespace kvd
