// Thompson's construction and the subset construction (Aho, Lam, Sethi, Ullman: Compilers, 3.7),
// the latter on demand.
#include "text/schema/position_automaton.h"

#include <algorithm>
#include <utility>

namespace kvd::schema {

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

}  // namespace kvd::schema
