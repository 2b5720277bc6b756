#include "text/schema/automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/utf8.h"

namespace kvd::schema {

// ---- position automaton
// Thompson's construction and the subset construction (Aho, Lam, Sethi, Ullman: Compilers, 3.7),
// the latter on demand.
void Alphabet::Split(const RegexNode& node) {
  for (const CodePointRange& range : node.set.ranges()) {
    first_.push_back(range.first);
    first_.push_back(range.last + 1);
  }
  for (const RegexNode& child : node.children) Split(child);
}

void Alphabet::Finish() {
  const CodePointSet all = CodePointSet::All();
  first_.push_back(0);
  for (const CodePointRange& range : all.ranges()) {
    first_.push_back(range.first);
    first_.push_back(range.last + 1);
  }
  std::ranges::sort(first_);
  first_.erase(std::ranges::unique(first_).begin(), first_.end());
  std::erase_if(first_, [](std::uint32_t first) { return first > CodePointSet::kLast; });
}

CodePointRange Alphabet::RangeOf(std::size_t number) const {
  return {first_[number],
          number + 1 < first_.size() ? first_[number + 1] - 1 : CodePointSet::kLast};
}

std::size_t Alphabet::ClassOf(std::uint32_t code_point) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(first_, code_point) - first_.begin()) -
         1;
}

std::vector<std::uint32_t> Alphabet::ClassesOf(const CodePointSet& set) const {
  std::vector<std::uint32_t> classes;
  for (const CodePointRange& range : set.ranges()) {
    for (std::size_t number = ClassOf(range.first); number <= ClassOf(range.last); ++number)
      classes.push_back(static_cast<std::uint32_t>(number));
  }
  return classes;
}

Result<PositionAutomaton> PositionAutomaton::Create(const RegexNode& node, const Alphabet& alphabet,
                                                    std::size_t positions_max) {
  PositionAutomaton automaton;
  automaton.alphabet_ = &alphabet;
  automaton.positions_max_ = positions_max;
  KVD_TRY(const std::uint32_t start, automaton.AddPosition());
  KVD_TRY(automaton.end_, automaton.Append(node, start));
  automaton.Intern({});       // kDead
  automaton.Intern({start});  // kStart
  return automaton;
}

Result<std::uint32_t> PositionAutomaton::AddPosition() {
  if (positions_.size() >= positions_max_)
    return Fail(Code::kUnsupported, "an expression of more than ", positions_max_, " positions");
  positions_.emplace_back();
  return static_cast<std::uint32_t>(positions_.size() - 1);
}

Result<std::uint32_t> PositionAutomaton::Append(const RegexNode& node, std::uint32_t from) {
  if (node.kind == RegexNode::Kind::kSequence) {
    for (const RegexNode& child : node.children) {
      KVD_TRY(from, Append(child, from));
    }
    return from;
  }
  if (node.kind == RegexNode::Kind::kRepeat) return AppendRepeat(node, from);
  if (node.kind == RegexNode::Kind::kSet) {
    KVD_TRY(const std::uint32_t start, AddPosition());
    KVD_TRY(const std::uint32_t end, AddPosition());
    positions_[from].epsilon.push_back(start);
    positions_[start].classes = alphabet_->ClassesOf(node.set);
    positions_[start].target = end;
    return end;
  }
  KVD_TRY(const std::uint32_t end, AddPosition());
  for (const RegexNode& child : node.children) {
    KVD_TRY(const std::uint32_t start, AddPosition());
    positions_[from].epsilon.push_back(start);
    KVD_TRY(const std::uint32_t last, Append(child, start));
    positions_[last].epsilon.push_back(end);
  }
  return end;
}

Result<std::uint32_t> PositionAutomaton::AppendRepeat(const RegexNode& node, std::uint32_t from) {
  const RegexNode& child = node.children[0];
  for (std::uint32_t i = 0; i < node.min; ++i) {
    KVD_TRY(const std::uint32_t start, AddPosition());
    positions_[from].epsilon.push_back(start);
    KVD_TRY(from, Append(child, start));
  }
  KVD_TRY(const std::uint32_t end, AddPosition());
  if (!node.max) {
    KVD_TRY(const std::uint32_t loop, AddPosition());
    positions_[from].epsilon.push_back(loop);
    positions_[loop].epsilon.push_back(end);
    KVD_TRY(const std::uint32_t start, AddPosition());
    positions_[loop].epsilon.push_back(start);
    KVD_TRY(const std::uint32_t last, Append(child, start));
    positions_[last].epsilon.push_back(loop);
    return end;
  }
  for (std::uint32_t i = node.min; i < *node.max; ++i) {
    positions_[from].epsilon.push_back(end);
    KVD_TRY(const std::uint32_t start, AddPosition());
    positions_[from].epsilon.push_back(start);
    KVD_TRY(from, Append(child, start));
  }
  positions_[from].epsilon.push_back(end);
  return end;
}

PositionAutomaton::StateId PositionAutomaton::Intern(Subset seeds) {
  std::vector<bool> seen(positions_.size());
  Subset subset;
  while (!seeds.empty()) {
    const std::uint32_t position = seeds.back();
    seeds.pop_back();
    if (seen[position]) continue;
    seen[position] = true;
    // Positions without characters matter only as ends.
    if (!positions_[position].classes.empty() || position == end_) subset.push_back(position);
    for (const std::uint32_t next : positions_[position].epsilon) seeds.push_back(next);
  }
  std::ranges::sort(subset);
  const auto [place, is_new] = ids_.try_emplace(subset, static_cast<StateId>(subsets_.size()));
  if (!is_new) return place->second;
  accepting_.push_back(std::ranges::binary_search(subset, end_));
  subsets_.push_back(std::move(subset));
  next_.emplace_back();
  return place->second;
}

PositionAutomaton::StateId PositionAutomaton::Next(StateId state, std::uint32_t class_number) {
  if (state == kDead) return kDead;
  if (next_[state].empty()) next_[state].assign(alphabet_->class_count(), -1);
  if (next_[state][class_number] >= 0) return static_cast<StateId>(next_[state][class_number]);
  Subset seeds;
  for (const std::uint32_t position : subsets_[state]) {
    if (std::ranges::binary_search(positions_[position].classes, class_number))
      seeds.push_back(positions_[position].target);
  }
  const StateId next = Intern(std::move(seeds));
  next_[state][class_number] = next;
  return next;
}

// ---- automaton
// The product of the expressions' automata and a counter of characters, from the start state on.
// The counter stops at the greatest number that still matters. Finally, states from which no
// accepting state is reached are removed.

namespace {

// One state of the product.
struct Tuple {
  std::vector<PositionAutomaton::StateId> states;  // of `required`, then of `excluded`
  std::uint64_t length = 0;

  auto operator<=>(const Tuple&) const = default;
};

class Product {
 public:
  Product(const TextConstraint& constraint, const AutomatonLimits& limits)
      : constraint_(constraint), limits_(limits) {}

  Result<Automaton> Build() {
    for (const RegexNode* node : constraint_.required) alphabet_.Split(*node);
    for (const RegexNode* node : constraint_.excluded) alphabet_.Split(*node);
    alphabet_.Finish();
    const CodePointSet all = CodePointSet::All();
    classes_ = alphabet_.ClassesOf(all);
    KVD_CHECK_OK(Add(constraint_.required));
    KVD_CHECK_OK(Add(constraint_.excluded));
    Tuple start;
    start.states.assign(parts_.size(), PositionAutomaton::kStart);
    Intern(std::move(start));
    for (std::size_t i = 0; i < tuples_.size(); ++i) {
      if (tuples_.size() > limits_.states_max)
        return Fail(Code::kUnsupported, "a set of texts of more than ", limits_.states_max,
                    " states");
      KVD_CHECK_OK(Spend(classes_.size()));
      Follow(i);
    }
    return Trim();
  }

 private:
  Status Add(const std::vector<const RegexNode*>& nodes) {
    for (const RegexNode* node : nodes) {
      KVD_TRY(PositionAutomaton part,
              PositionAutomaton::Create(*node, alphabet_, limits_.positions_max));
      parts_.push_back(std::move(part));
    }
    return {};
  }

  Status Spend(std::size_t step_count) {
    steps_ += step_count;
    const bool is_spent = limits_.steps_left != nullptr && *limits_.steps_left < step_count;
    if (steps_ > limits_.steps_max || is_spent)
      return Fail(Code::kUnsupported, "sets of texts that take more than ", limits_.steps_max,
                  " steps");
    if (limits_.steps_left != nullptr) *limits_.steps_left -= step_count;
    return {};
  }

  std::size_t Intern(Tuple tuple) {
    const auto [place, is_new] = ids_.try_emplace(tuple, tuples_.size());
    if (is_new) {
      automaton_.states.emplace_back().is_accepting = IsAccepting(tuple);
      tuples_.push_back(std::move(tuple));
    }
    return place->second;
  }

  bool IsAccepting(const Tuple& tuple) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const bool is_required = i < constraint_.required.size();
      if (parts_[i].IsAccepting(tuple.states[i]) != is_required) return false;
    }
    return tuple.length >= constraint_.length_min;
  }

  bool IsDead(const Tuple& tuple) const {
    for (std::size_t i = 0; i < constraint_.required.size(); ++i)
      if (tuple.states[i] == PositionAutomaton::kDead) return true;
    return constraint_.length_max && tuple.length > *constraint_.length_max;
  }

  void Follow(std::size_t number) {
    std::map<std::size_t, std::vector<CodePointRange>> edges;
    for (const std::uint32_t class_number : classes_) {
      Tuple next = tuples_[number];
      for (std::size_t i = 0; i < parts_.size(); ++i)
        next.states[i] = parts_[i].Next(next.states[i], class_number);
      if (constraint_.length_max || next.length < constraint_.length_min) ++next.length;
      if (IsDead(next)) continue;
      edges[Intern(std::move(next))].push_back(alphabet_.RangeOf(class_number));
    }
    for (auto& [target, ranges] : edges) {
      automaton_.states[number].edges.push_back(
          {CodePointSet::Of(std::move(ranges)), static_cast<std::uint32_t>(target)});
    }
  }

  Automaton Trim() {
    std::vector<std::vector<std::uint32_t>> sources(automaton_.states.size());
    std::vector<std::uint32_t> open;
    std::vector<bool> is_live(automaton_.states.size());
    for (std::uint32_t i = 0; i < automaton_.states.size(); ++i) {
      for (const Automaton::Edge& edge : automaton_.states[i].edges)
        sources[edge.target].push_back(i);
      if (!automaton_.states[i].is_accepting) continue;
      is_live[i] = true;
      open.push_back(i);
    }
    while (!open.empty()) {
      const std::uint32_t state = open.back();
      open.pop_back();
      for (const std::uint32_t source : sources[state]) {
        if (is_live[source]) continue;
        is_live[source] = true;
        open.push_back(source);
      }
    }
    Automaton trimmed;
    if (!is_live[0]) return trimmed;
    std::vector<std::uint32_t> numbers(automaton_.states.size());
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (is_live[i]) numbers[i] = count++;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!is_live[i]) continue;
      Automaton::State& state = automaton_.states[i];
      std::erase_if(state.edges, [&](const auto& edge) { return !is_live[edge.target]; });
      for (Automaton::Edge& edge : state.edges) edge.target = numbers[edge.target];
      trimmed.states.push_back(std::move(state));
    }
    return trimmed;
  }

  const TextConstraint& constraint_;
  const AutomatonLimits& limits_;
  Alphabet alphabet_;
  std::vector<std::uint32_t> classes_;  // those with characters
  std::vector<PositionAutomaton> parts_;
  std::map<Tuple, std::size_t> ids_;
  std::vector<Tuple> tuples_;
  Automaton automaton_;
  std::size_t steps_ = 0;
};

}  // namespace

Result<Automaton> BuildAutomaton(const TextConstraint& constraint, const AutomatonLimits& limits) {
  return Product(constraint, limits).Build();
}

Result<bool> Matches(const RegexNode& node, std::string_view text, const AutomatonLimits& limits) {
  Alphabet alphabet;
  alphabet.Split(node);
  alphabet.Finish();
  KVD_TRY(PositionAutomaton automaton,
          PositionAutomaton::Create(node, alphabet, limits.positions_max));
  PositionAutomaton::StateId state = PositionAutomaton::kStart;
  while (!text.empty()) {
    const std::size_t bytes = WellFormedBytes(text);
    const std::uint32_t code_point = CodePointOf(text.substr(0, bytes));
    state = automaton.Next(state, static_cast<std::uint32_t>(alphabet.ClassOf(code_point)));
    text.remove_prefix(bytes);
  }
  return automaton.IsAccepting(state);
}

}  // namespace kvd::schema
