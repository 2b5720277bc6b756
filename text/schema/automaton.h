// A set of texts as a deterministic automaton over characters: the intersection of expressions,
// of complements of expressions, and of a range of lengths. The functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/schema/regex.h"

namespace kvd::schema {

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
