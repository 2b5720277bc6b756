// Match returns every offset at which a text of the node can end. Rules are remembered by start
// offset; no rule begins with itself, so the recursion ends.
#include "tests/text/schema/gbnf_checker.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "tests/text/schema/gbnf_checker_reader.h"

namespace kvd::test {
namespace {

constexpr std::uint64_t kInfinite = std::numeric_limits<std::uint32_t>::max();

std::uint64_t Capped(std::uint64_t cost) { return std::min(cost, kInfinite); }

}  // namespace

Result<GbnfChecker> GbnfChecker::Create(std::string_view grammar) {
  GbnfChecker checker;
  KVD_CHECK_OK(GbnfCheckerReader(grammar, checker).Read());
  KVD_CHECK_OK(checker.CheckLeftRecursion());
  checker.ComputeCosts();
  return checker;
}

bool GbnfChecker::MayBeEmpty(const Node& node, const std::vector<bool>& empty_rules) const {
  const auto may_be = [&](const Node& child) { return MayBeEmpty(child, empty_rules); };
  switch (node.kind) {
    case Node::Kind::kClass: return false;
    case Node::Kind::kRule: return empty_rules[node.rule];
    case Node::Kind::kSequence: return std::ranges::all_of(node.children, may_be);
    case Node::Kind::kChoice: return std::ranges::any_of(node.children, may_be);
    case Node::Kind::kRepeat: return node.min == 0 || may_be(node.children[0]);
  }
  return false;
}

void GbnfChecker::CollectFirst(const Node& node, const std::vector<bool>& empty_rules,
                               std::set<std::size_t>& rules) const {
  if (node.kind == Node::Kind::kRule) rules.insert(node.rule);
  for (const Node& child : node.children) {
    CollectFirst(child, empty_rules, rules);
    if (node.kind == Node::Kind::kSequence && !MayBeEmpty(child, empty_rules)) return;
  }
}

Status GbnfChecker::CheckLeftRecursion() const {
  std::vector<bool> empty_rules(bodies_.size());
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      if (empty_rules[i] || !MayBeEmpty(bodies_[i], empty_rules)) continue;
      empty_rules[i] = true;
      has_changed = true;
    }
  }
  std::vector<std::set<std::size_t>> first(bodies_.size());
  for (std::size_t i = 0; i < bodies_.size(); ++i) CollectFirst(bodies_[i], empty_rules, first[i]);
  // 0: not visited, 1: open, 2: done; an edge to an open rule is a cycle.
  std::vector<int> states(bodies_.size());
  for (std::size_t root = 0; root < bodies_.size(); ++root) {
    std::vector<std::pair<std::size_t, bool>> open = {{root, false}};
    while (!open.empty()) {
      const auto [rule, is_left] = open.back();
      open.pop_back();
      if (is_left) {
        states[rule] = 2;
        continue;
      }
      if (states[rule] == 1) return Fail(Code::kInvalidArgument, "left recursion");
      if (states[rule] == 2) continue;
      states[rule] = 1;
      open.emplace_back(rule, true);
      for (const std::size_t next : first[rule]) open.emplace_back(next, false);
    }
  }
  return {};
}

std::uint64_t GbnfChecker::CostOf(Node& node) {
  std::uint64_t cost = node.kind == Node::Kind::kChoice ? kInfinite : 0;
  for (Node& child : node.children) {
    const std::uint64_t one = CostOf(child);
    cost = node.kind == Node::Kind::kChoice ? std::min(cost, one) : Capped(cost + one);
  }
  if (node.kind == Node::Kind::kClass) cost = 1;
  // A rule costs one more than its text, so that the cheapest way through rules ends.
  if (node.kind == Node::Kind::kRule) cost = Capped(costs_[node.rule] + 1);
  if (node.kind == Node::Kind::kRepeat) cost = node.min == 0 ? 0 : Capped(cost * node.min);
  node.cost = cost;
  return cost;
}

void GbnfChecker::ComputeCosts() {
  costs_.assign(bodies_.size(), kInfinite);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const std::uint64_t cost = CostOf(bodies_[i]);
      has_changed = has_changed || cost != costs_[i];
      costs_[i] = cost;
    }
  }
}

bool GbnfChecker::Contains(const Node& node, std::uint32_t character) {
  const bool is_in = std::ranges::any_of(node.ranges, [&](const auto& range) {
    return range.first <= character && character <= range.second;
  });
  return is_in != node.is_negated;
}

GbnfChecker::Ends GbnfChecker::Match(const Node& node, std::size_t start) {
  Ends ends;
  switch (node.kind) {
    case Node::Kind::kClass:
      if (start == text_.size()) needs_more_ = true;
      if (start < text_.size() && Contains(node, text_[start])) ends.insert(start + 1);
      return ends;
    case Node::Kind::kRule: {
      const auto known = known_.find({node.rule, start});
      if (known != known_.end()) return known->second;
      ends = Match(bodies_[node.rule], start);
      known_.emplace(std::pair(node.rule, start), ends);
      return ends;
    }
    case Node::Kind::kChoice:
      for (const Node& child : node.children) ends.merge(Match(child, start));
      return ends;
    case Node::Kind::kSequence:
      ends.insert(start);
      for (const Node& child : node.children) {
        Ends next;
        for (const std::size_t end : ends) next.merge(Match(child, end));
        ends = std::move(next);
      }
      return ends;
    case Node::Kind::kRepeat: break;
  }
  // After the minimum, an end that was known before leads to nothing new.
  Ends reached = {start};
  if (node.min == 0) ends = reached;
  for (std::uint64_t count = 1; count <= node.max && !reached.empty(); ++count) {
    Ends next;
    for (const std::size_t end : reached) next.merge(Match(node.children[0], end));
    if (count < node.min && next == reached) count = node.min - 1;
    reached.clear();
    for (const std::size_t end : next)
      if (count < node.min || ends.insert(end).second) reached.insert(end);
  }
  return ends;
}

// Every rule has a text, so the beginning of a text can be continued exactly if matching it looks
// for a character behind its end.
bool GbnfChecker::AcceptsPrefix(std::string_view rule, std::string_view text) {
  needs_more_ = false;
  return Accepts(rule, text) || needs_more_;
}

bool GbnfChecker::Accepts(std::string_view rule, std::string_view text) {
  text_.clear();
  known_.clear();
  while (!text.empty()) {
    const std::size_t bytes = WellFormedBytes(text);
    if (bytes == 0) return false;
    text_.push_back(CodePointOf(text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  return Match(bodies_[numbers_.at(std::string(rule))], 0).contains(text_.size());
}

std::optional<std::string> GbnfChecker::RandomText(std::string_view rule, std::mt19937_64& random,
                                                   std::size_t length) {
  const std::size_t number = numbers_.at(std::string(rule));
  if (costs_[number] >= kInfinite) return std::nullopt;
  std::string text;
  Write(bodies_[number], random, length, text);
  return text;
}

void GbnfChecker::WriteCharacter(const Node& node, std::mt19937_64& random, std::string& text) {
  const auto& [first, last] = node.ranges[random() % node.ranges.size()];
  // Mostly the ends of the range and characters near its start.
  std::uint32_t character = first;
  const std::uint32_t width = last - first;
  switch (random() % 4) {
    case 0: character = last; break;
    case 1: character = first + static_cast<std::uint32_t>(random() % (width + 1)); break;
    default: character = first + static_cast<std::uint32_t>(random() % (std::min(width, 25u) + 1));
  }
  AppendUtf8(character, text);
}

void GbnfChecker::Write(const Node& node, std::mt19937_64& random, std::size_t length,
                        std::string& text) const {
  const bool is_long = text.size() >= length;
  switch (node.kind) {
    case Node::Kind::kClass: WriteCharacter(node, random, text); return;
    case Node::Kind::kRule: Write(bodies_[node.rule], random, length, text); return;
    case Node::Kind::kSequence:
      for (const Node& child : node.children) Write(child, random, length, text);
      return;
    case Node::Kind::kChoice: {
      const Node* chosen = &*std::ranges::min_element(node.children, {}, &Node::cost);
      const Node& other = node.children[random() % node.children.size()];
      if (!is_long && other.cost < kInfinite) chosen = &other;
      Write(*chosen, random, length, text);
      return;
    }
    case Node::Kind::kRepeat: break;
  }
  std::uint64_t count = node.min;
  const bool has_text = node.children[0].cost < kInfinite;
  // Sometimes the maximum.
  const bool is_full = node.max < 40 && random() % 8 == 0;
  while (has_text && !is_long && count < node.max && (is_full || random() % 3 != 0)) ++count;
  for (std::uint64_t i = 0; i < count; ++i) Write(node.children[0], random, length, text);
}

}  // namespace kvd::test
