// GrammarProgram: a grammar as an array of steps.
//
// A rule is a list of alternatives. An alternative is a run of adjacent steps that ends with a step
// kEnd; the position of a step is its index. A place inside a step is a number, the `count` of a
// frame (stack_sets.h): for kText the bytes read so far; for kCharacters the characters read so far
// times the nodes of the automaton, plus the node inside the present character; for kRepeat the
// repetitions begun so far. Where a repetition has no maximum, the count stops at the minimum.
// Groups, and items that are repeated and are no characters, are rules without a name of their own.
// Made by ParseGbnf and AnalyseProgram, then immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"
#include "engine/grammar/character_automaton.h"

namespace kvd {

// GrammarLimits: what one grammar may need at most. A grammar that needs more is refused by name
// when it is compiled; what depends on the generated text is bounded when it is needed.
struct GrammarLimits {
  std::size_t text_bytes = 4u << 20;  // of the grammar's text
  std::size_t rules = 1u << 16;       // named rules, groups and repeated items
  // Characters of literals, ranges of classes, references, and ends of alternatives.
  std::size_t elements = 1u << 21;
  // Open rules of one stack. A transition to a deeper stack does not exist.
  std::uint32_t depth = 1024;
  // Frames that one transition may make or compare. A transition that needs more does not exist.
  std::size_t state_entries = 1u << 14;
  // Frames that all transitions of one mask may make or compare. A mask that needs more lacks the
  // tokens that were not examined.
  std::size_t mask_entries = 1u << 22;
  // States and masks that are held so that they need not be made again.
  std::size_t cache_bytes = 64u << 20;
};

enum class StepKind : std::uint8_t {
  kEnd,         // the end of an alternative
  kText,        // the bytes [target, target + size) of `texts`
  kCharacters,  // `min` to `max` characters of the automaton `target`
  kToken,       // the token `target`, or if is_negated any other token
  kCall,        // the rule `target`
  kRepeat,      // the rule `target`, `min` to `max` times
};

struct GrammarStep {
  static constexpr std::uint32_t kUnbounded = 0xffffffff;

  StepKind kind = StepKind::kEnd;
  bool is_negated = false;
  std::uint32_t target = 0;
  std::uint32_t size = 0;
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

struct GrammarRule {
  std::uint32_t name = 0;   // index in `names`; a group has the name of the rule that contains it
  std::uint32_t begin = 0;  // its alternatives are [begin, begin + count) of `alternatives`
  std::uint32_t count = 0;
  bool may_be_empty = false;
  // Rules that begin inside others have larger ranks than these (AnalyseProgram).
  std::uint32_t rank = 0;
};

struct GrammarProgram {
  std::vector<GrammarStep> steps;
  std::vector<std::uint32_t> alternatives;  // positions of their first steps
  std::vector<GrammarRule> rules;
  std::vector<std::uint32_t> rule_of_rank;
  std::vector<std::string> names;
  std::vector<CharacterAutomaton> automatons;
  std::string texts;
  std::uint32_t root = 0;  // a rule
  // Bytes that no step distinguishes have the same class. Classes are 0 to class_count - 1.
  std::array<std::uint8_t, 256> byte_class{};
  std::uint32_t class_count = 0;

  std::span<const std::uint32_t> AlternativesOf(std::uint32_t rule) const {
    return std::span(alternatives).subspan(rules[rule].begin, rules[rule].count);
  }
  std::size_t held_bytes() const;
};

// AnalyseProgram: completes a parsed program: rules that may be empty, ranks, classes of bytes.

// Sets may_be_empty and rank of every rule, rule_of_rank, byte_class and class_count, and lowers
// the minimum of a repetition whose body may be empty to 0. Errors: kInvalidArgument: a rule is
// left recursive (by its name); kCancelled.
Status AnalyseProgram(GrammarProgram& program, WorkControl& work);

}  // namespace kvd
