#include "engine/grammar/grammar_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvd {

// ---- grammar program
std::size_t GrammarProgram::held_bytes() const {
  std::size_t bytes = sizeof(*this) + steps.capacity() * sizeof(GrammarStep) +
                      alternatives.capacity() * sizeof(std::uint32_t) +
                      rules.capacity() * sizeof(GrammarRule) +
                      rule_of_rank.capacity() * sizeof(std::uint32_t) + texts.capacity();
  for (const std::string& name : names) bytes += sizeof(std::string) + name.capacity();
  for (const CharacterAutomaton& automaton : automatons)
    bytes += sizeof(CharacterAutomaton) + automaton.held_bytes();
  return bytes;
}

// ---- analyse program
// Empty rules: each alternative counts its steps that need text. When a rule is found to be empty,
// the counts of the alternatives that call it decrease; an alternative whose count is 0 makes its
// rule empty. Every call is looked at once.
//
// Ranks: a rule R begins inside a rule Q if Q has an alternative in which only empty steps precede
// a call of R. A depth-first search orders the rules such that Q precedes R; a cycle is a left
// recursion, also one that is hidden behind empty steps.
//
// Classes of bytes: the partition of the 256 bytes is refined by each distinct set of bytes that a
// step accepts.

namespace {

bool IsCall(const GrammarStep& step) {
  return step.kind == StepKind::kCall || step.kind == StepKind::kRepeat;
}

Status FindEmptyRules(GrammarProgram& program, WorkMeter& meter) {
  struct Alternative {
    std::uint32_t rule;
    std::uint32_t needed = 0;  // steps that need text
  };
  std::vector<Alternative> alternatives;
  std::vector<std::vector<std::uint32_t>> callers(program.rules.size());  // by called rule
  std::vector<std::uint32_t> found;
  const auto mark = [&](std::uint32_t rule) {
    if (program.rules[rule].may_be_empty) return;
    program.rules[rule].may_be_empty = true;
    found.push_back(rule);
  };
  for (std::uint32_t rule = 0; rule < program.rules.size(); ++rule) {
    for (std::uint32_t position : program.AlternativesOf(rule)) {
      Alternative alternative{.rule = rule};
      for (; program.steps[position].kind != StepKind::kEnd; ++position) {
        KVD_CHECK_OK(meter.Spend(8));
        const GrammarStep& step = program.steps[position];
        const bool may_be_skipped =
            step.min == 0 && (step.kind == StepKind::kCharacters || step.kind == StepKind::kRepeat);
        if (may_be_skipped) continue;
        ++alternative.needed;
        if (IsCall(step))
          callers[step.target].push_back(static_cast<std::uint32_t>(alternatives.size()));
      }
      if (alternative.needed == 0) mark(rule);
      alternatives.push_back(alternative);
    }
  }
  while (!found.empty()) {
    const std::uint32_t rule = found.back();
    found.pop_back();
    KVD_CHECK_OK(meter.Spend(1 + callers[rule].size()));
    for (const std::uint32_t caller : callers[rule])
      if (--alternatives[caller].needed == 0) mark(alternatives[caller].rule);
  }
  for (GrammarStep& step : program.steps)
    if (step.kind == StepKind::kRepeat && program.rules[step.target].may_be_empty) step.min = 0;
  return {};
}

bool MayBeEmpty(const GrammarProgram& program, const GrammarStep& step) {
  switch (step.kind) {
    case StepKind::kCall: return program.rules[step.target].may_be_empty;
    case StepKind::kRepeat:
    case StepKind::kCharacters: return step.min == 0;
    case StepKind::kText:
    case StepKind::kToken:
    case StepKind::kEnd: break;
  }
  return false;
}

// A depth-first search without recursion, because a chain of rules may be long.
class RankFinder {
 public:
  RankFinder(GrammarProgram& program, WorkMeter& meter)
      : program_(program), meter_(meter), states_(program.rules.size(), State::kNew) {}

  Status Run() {
    std::vector<std::uint32_t> finished;
    for (std::uint32_t rule = 0; rule < program_.rules.size(); ++rule)
      KVD_CHECK_OK(Visit(rule, finished));
    std::ranges::reverse(finished);
    for (std::uint32_t rank = 0; rank < finished.size(); ++rank)
      program_.rules[finished[rank]].rank = rank;
    program_.rule_of_rank = std::move(finished);
    return {};
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  struct Frame {
    std::uint32_t rule;
    std::uint32_t alternative = 0;  // the next alternative to begin
    std::uint32_t position = 0;     // the next step, if is_inside
    bool is_inside = false;
  };

  Status Visit(std::uint32_t first, std::vector<std::uint32_t>& finished) {
    if (states_[first] != State::kNew) return {};
    std::vector<Frame> open{{.rule = first}};
    states_[first] = State::kOpen;
    while (!open.empty()) {
      KVD_CHECK_OK(meter_.Spend(8));
      Frame& frame = open.back();
      if (!frame.is_inside) {
        const auto alternatives = program_.AlternativesOf(frame.rule);
        if (frame.alternative == alternatives.size()) {
          states_[frame.rule] = State::kDone;
          finished.push_back(frame.rule);
          open.pop_back();
          continue;
        }
        frame.position = alternatives[frame.alternative++];
      }
      const GrammarStep& step = program_.steps[frame.position++];
      frame.is_inside = MayBeEmpty(program_, step);
      if (!IsCall(step)) continue;
      if (states_[step.target] == State::kOpen)
        return Fail(Code::kInvalidArgument, "grammar: the rule \"",
                    program_.names[program_.rules[step.target].name],
                    "\" is left recursive: it can begin with itself");
      if (states_[step.target] == State::kDone) continue;
      states_[step.target] = State::kOpen;
      open.push_back({.rule = step.target});
    }
    return {};
  }

  GrammarProgram& program_;
  WorkMeter& meter_;
  std::vector<State> states_;
};

using ByteSet = std::array<std::uint64_t, 4>;

Status FindByteClasses(GrammarProgram& program, WorkMeter& meter) {
  std::set<ByteSet> sets;
  std::array<bool, 256> is_literal{};
  for (const char c : program.texts) is_literal[static_cast<unsigned char>(c)] = true;
  for (const CharacterAutomaton& automaton : program.automatons) {
    for (std::uint32_t node = 0; node < automaton.node_count(); ++node) {
      std::map<std::uint16_t, ByteSet> by_target;
      for (const CharacterAutomaton::Arc& arc : automaton.arcs(node))
        for (unsigned byte = arc.first; byte <= arc.last; ++byte)
          by_target[arc.target][byte / 64] |= std::uint64_t{1} << (byte % 64);
      KVD_CHECK_OK(meter.Spend(256));
      for (const auto& [target, set] : by_target) sets.insert(set);
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!is_literal[byte]) continue;
    ByteSet set{};
    set[byte / 64] = std::uint64_t{1} << (byte % 64);
    sets.insert(set);
  }
  program.byte_class.fill(0);
  std::uint32_t count = 1;
  for (const ByteSet& set : sets) {
    if (count == 256) break;
    KVD_CHECK_OK(meter.Spend(256));
    std::array<std::int16_t, 512> numbers;  // of the new classes, [old class, is in set]; -1: none
    numbers.fill(-1);
    std::int16_t next = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned is_in = set[byte / 64] >> (byte % 64) & 1;
      std::int16_t& number = numbers[2 * program.byte_class[byte] + is_in];
      if (number < 0) number = next++;
      program.byte_class[byte] = static_cast<std::uint8_t>(number);
    }
    count = static_cast<std::uint32_t>(next);
  }
  program.class_count = count;
  return {};
}

}  // namespace

Status AnalyseProgram(GrammarProgram& program, WorkControl& work) {
  WorkMeter meter(work);
  KVD_CHECK_OK(FindEmptyRules(program, meter));
  KVD_CHECK_OK(RankFinder(program, meter).Run());
  return FindByteClasses(program, meter);
}

}  // namespace kvd
