// The nondeterministic automaton of one expression, and its subsets as states.
//
// Characters are grouped into classes that no expression tells apart (Alphabet). A state is a
// sorted set of positions of the expression; states are numbered when they are first reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/error.h"
#include "text/schema/regex.h"

namespace kvd::schema {

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

}  // namespace kvd::schema
