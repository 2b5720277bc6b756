// A set of texts as a deterministic automaton over characters: the intersection of expressions,
// of complements of expressions, and of a range of lengths. The functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/schema/regex.h"

namespace kvd::schema {

// The nondeterministic automaton of one expression, and its subsets as states.
//
// Characters are grouped into classes that no expression tells apart (Alphabet). A state is a
// sorted set of positions of the expression; states are numbered when they are first reached.

// Classes of characters. The classes are intervals, numbered in order.
class Alphabet {
 public:
  // Splits the classes so that `node`'s sets consist of whole classes.
  void Split(const RegexNode& node);
  // Call once, after all splits and before the accessors below.
  void Finish();

  std::size_t class_count() const { return first_.size(); }
  CodePointRange RangeOf(std::size_t number) const;
  std::size_t ClassOf(std::uint32_t code_point) const;
  std::vector<std::uint32_t> ClassesOf(const CodePointSet& set) const;

 private:
  std::vector<std::uint32_t> first_;
};

class PositionAutomaton {
 public:
  using StateId = std::uint32_t;
  static constexpr StateId kDead = 0;  // no text continues from here
  static constexpr StateId kStart = 1;

  // Errors: kUnsupported: more than `positions_max` positions.
  static Result<PositionAutomaton> Create(const RegexNode& node, const Alphabet& alphabet,
                                          std::size_t positions_max);

  StateId Next(StateId state, std::uint32_t class_number);
  bool IsAccepting(StateId state) const { return accepting_[state]; }

 private:
  struct Position {
    std::vector<std::uint32_t> epsilon;  // positions that are reached without a character
    std::vector<std::uint32_t> classes;  // sorted; the characters that lead to `target`
    std::uint32_t target = 0;
  };
  using Subset = std::vector<std::uint32_t>;

  // Adds positions for `node` after `from`, and returns the position after it.
  Result<std::uint32_t> Append(const RegexNode& node, std::uint32_t from);
  Result<std::uint32_t> AppendRepeat(const RegexNode& node, std::uint32_t from);
  Result<std::uint32_t> AddPosition();
  StateId Intern(Subset seeds);

  const Alphabet* alphabet_ = nullptr;
  std::size_t positions_max_ = 0;
  std::vector<Position> positions_;
  std::uint32_t end_ = 0;
  std::map<Subset, StateId> ids_;
  std::vector<Subset> subsets_;
  std::vector<bool> accepting_;
  std::vector<std::vector<std::int64_t>> next_;  // [state][class]; -1: not computed
};

struct TextConstraint {
  std::vector<const RegexNode*> required;  // the text is in each of these sets
  std::vector<const RegexNode*> excluded;  // and in none of these
  std::uint64_t length_min = 0;            // in characters
  std::optional<std::uint64_t> length_max;
};

struct AutomatonLimits {
  std::size_t positions_max = 1 << 15;  // of one expression, repetitions counted
  std::size_t states_max = 4096;
  std::size_t steps_max = 1 << 21;    // pairs of a state and a class of characters
  std::size_t* steps_left = nullptr;  // of all automata together; null: no limit
};

// State 0 is the start; with no states, the set is empty. Each state reaches an accepting one.
struct Automaton {
  struct Edge {
    CodePointSet set;  // the sets of one state's edges are disjoint
    std::uint32_t target = 0;
  };
  struct State {
    bool is_accepting = false;
    std::vector<Edge> edges;  // in the order of their targets; one per target
  };

  std::vector<State> states;
};

// Errors: kUnsupported: a limit is exceeded; the message names it.
Result<Automaton> BuildAutomaton(const TextConstraint& constraint,
                                 const AutomatonLimits& limits = {});

// Returns whether `text` (valid UTF-8) is in the set of `node`. Errors: kUnsupported: a limit.
Result<bool> Matches(const RegexNode& node, std::string_view text,
                     const AutomatonLimits& limits = {});

}  // namespace kvd::schema
