#include "tests/engine/grammar/earley.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace kvd::test {
namespace {

constexpr char32_t kAlphabet[] = {U'a', U'b', U'\u00e8', U'\u00e9', U'\u4f60', U'\U0001F600'};

bool IsSurrogate(std::uint32_t code) { return code >= 0xd800 && code <= 0xdfff; }

void AppendQuoted(std::u32string_view text, std::string& gbnf) {
  for (const char32_t c : text) AppendUtf8(c, gbnf);
}

std::string GbnfOf(const EarleyNode& node) {
  using Kind = EarleyNode::Kind;
  std::string gbnf;
  switch (node.kind) {
    case Kind::kText:
      gbnf = "\"";
      AppendQuoted(node.text, gbnf);
      return gbnf + "\"";
    case Kind::kClass:
      gbnf = node.characters.is_negated ? "[^" : "[";
      for (const std::uint32_t code : node.characters.codes) AppendUtf8(code, gbnf);
      return gbnf + "]";
    case Kind::kRule: return node.rule == 0 ? "root" : "r" + std::to_string(node.rule);
    case Kind::kSequence:
      for (const EarleyNode& part : node.parts) gbnf += (gbnf.empty() ? "" : " ") + GbnfOf(part);
      return "(" + gbnf + ")";
    case Kind::kChoice:
      for (const EarleyNode& part : node.parts) gbnf += (gbnf.empty() ? "" : " | ") + GbnfOf(part);
      return "( " + gbnf + ")";
    case Kind::kRepeat: break;
  }
  gbnf = GbnfOf(node.parts[0]);
  if (node.max == EarleyNode::kNoMax) {
    if (node.min == 0) return gbnf + "*";
    if (node.min == 1) return gbnf + "+";
    return gbnf + "{" + std::to_string(node.min) + ",}";
  }
  if (node.min == 0 && node.max == 1) return gbnf + "?";
  return gbnf + "{" + std::to_string(node.min) + "," + std::to_string(node.max) + "}";
}

struct Maker {
  std::mt19937_64& random;
  std::size_t rule_count;

  int Below(int count) { return static_cast<int>(random() % static_cast<std::uint64_t>(count)); }
  char32_t Letter() { return kAlphabet[Below(3) > 0 ? Below(2) : Below(6)]; }

  EarleyNode Leaf() {
    EarleyNode node;
    const int kind = Below(10);
    if (kind < 4) {
      node.kind = EarleyNode::Kind::kText;
      for (int i = Below(8) == 0 ? 0 : 1 + Below(3); i > 0; --i) node.text += Letter();
    } else if (kind < 7) {
      node.kind = EarleyNode::Kind::kClass;
      for (int i = 1 + Below(3); i > 0; --i) node.characters.codes.push_back(Letter());
      node.characters.is_negated = Below(3) == 0;
    } else {
      node.kind = EarleyNode::Kind::kRule;
      node.rule = static_cast<std::size_t>(Below(static_cast<int>(rule_count)));
    }
    return node;
  }

  EarleyNode Node(int depth) {
    if (depth == 0 || Below(4) == 0) return Leaf();
    EarleyNode node;
    const int kind = Below(3);
    node.kind = kind == 0   ? EarleyNode::Kind::kSequence
                : kind == 1 ? EarleyNode::Kind::kChoice
                            : EarleyNode::Kind::kRepeat;
    if (kind == 2) {
      node.parts.push_back(Node(depth - 1));
      node.min = Below(3);
      node.max = Below(2) == 0 ? EarleyNode::kNoMax : std::max(1, node.min + Below(3));
      return node;
    }
    for (int i = 1 + Below(3); i > 0; --i) node.parts.push_back(Node(depth - 1));
    return node;
  }
};

}  // namespace

bool EarleyClass::Contains(std::uint32_t code) const {
  return (std::ranges::find(codes, code) != codes.end()) != is_negated;
}

bool EarleyClass::Overlaps(std::uint32_t first, std::uint32_t last) const {
  if (!is_negated)
    return std::ranges::any_of(codes, [=](auto code) { return code >= first && code <= last; });
  for (std::uint32_t code = first; code <= last; ++code)
    if (!IsSurrogate(code) && Contains(code)) return true;
  return false;
}

std::string EarleyGrammar::ToGbnf() const {
  std::string gbnf;
  for (std::size_t i = 0; i < rules.size(); ++i)
    gbnf += (i == 0 ? "root" : "r" + std::to_string(i)) + " ::= " + GbnfOf(rules[i]) + "\n";
  return gbnf;
}

EarleyGrammar RandomGrammar(std::mt19937_64& random) {
  Maker maker{random, 1 + random() % 4};
  EarleyGrammar grammar;
  for (std::size_t i = 0; i < maker.rule_count; ++i) grammar.rules.push_back(maker.Node(3));
  return grammar;
}

EarleyRecognizer::EarleyRecognizer(const EarleyGrammar& grammar)
    : named_rule_count_(grammar.rules.size()), rule_count_(grammar.rules.size()) {
  for (std::size_t rule = 0; rule < grammar.rules.size(); ++rule)
    productions_.push_back({rule, SymbolsOf(grammar.rules[rule])});
  Set first;
  for (std::size_t p = 0; p < productions_.size(); ++p)
    if (productions_[p].rule == 0) first.push_back({.production = p});
  sets_.push_back(std::move(first));
  Complete(sets_[0], 0);
}

// A node that is not one symbol becomes a rule of its own.
EarleyRecognizer::Symbol EarleyRecognizer::SymbolOf(const EarleyNode& node) {
  const std::vector<Symbol> symbols = SymbolsOf(node);
  if (symbols.size() == 1) return symbols[0];
  const std::size_t rule = NewRule();
  productions_.push_back({rule, symbols});
  return {true, rule};
}

std::vector<EarleyRecognizer::Symbol> EarleyRecognizer::SymbolsOf(const EarleyNode& node) {
  using Kind = EarleyNode::Kind;
  std::vector<Symbol> symbols;
  switch (node.kind) {
    case Kind::kText:
      for (const char32_t c : node.text) {
        classes_.push_back({{c}});
        symbols.push_back({false, classes_.size() - 1});
      }
      break;
    case Kind::kClass:
      classes_.push_back(node.characters);
      symbols.push_back({false, classes_.size() - 1});
      break;
    case Kind::kRule: symbols.push_back({true, node.rule}); break;
    case Kind::kSequence:
      for (const EarleyNode& part : node.parts) symbols.push_back(SymbolOf(part));
      break;
    case Kind::kChoice: {
      const std::size_t rule = NewRule();
      for (const EarleyNode& part : node.parts) productions_.push_back({rule, SymbolsOf(part)});
      symbols.push_back({true, rule});
      break;
    }
    case Kind::kRepeat: {
      const Symbol part = SymbolOf(node.parts[0]);
      symbols.assign(static_cast<std::size_t>(node.min), part);
      const std::size_t rule = NewRule();
      if (node.max == EarleyNode::kNoMax) {
        productions_.push_back({rule, {}});
        productions_.push_back({rule, {part, {true, rule}}});
      } else {
        for (int more = 0; more <= node.max - node.min; ++more)
          productions_.push_back({rule, std::vector(static_cast<std::size_t>(more), part)});
      }
      symbols.push_back({true, rule});
      break;
    }
  }
  return symbols;
}

std::vector<bool> EarleyRecognizer::EmptyRules() const {
  std::vector<bool> empty(rule_count_);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Production& production : productions_) {
      const bool is_empty = std::ranges::all_of(
          production.symbols, [&](const Symbol& s) { return s.is_rule && empty[s.index]; });
      if (!is_empty || empty[production.rule]) continue;
      empty[production.rule] = true;
      changed = true;
    }
  }
  return empty;
}

// A repetition of an item that may be empty is a rule of the form R ::= X R; its own call is no
// recursion of the grammar, so the recursion of a rule through X counts only.
bool EarleyRecognizer::IsLeftRecursive() const {
  const std::vector<bool> empty = EmptyRules();
  std::vector<std::vector<bool>> begins(rule_count_, std::vector<bool>(rule_count_));
  for (const Production& production : productions_)
    for (std::size_t i = 0; i < production.symbols.size(); ++i) {
      const Symbol& symbol = production.symbols[i];
      const bool is_loop =
          production.rule >= named_rule_count_ && symbol.is_rule && symbol.index == production.rule;
      if (symbol.is_rule && !is_loop) begins[production.rule][symbol.index] = true;
      if (!symbol.is_rule || !empty[symbol.index]) break;
    }
  for (std::size_t k = 0; k < rule_count_; ++k)
    for (std::size_t i = 0; i < rule_count_; ++i)
      for (std::size_t j = 0; j < rule_count_; ++j)
        if (begins[i][k] && begins[k][j]) begins[i][j] = true;
  for (std::size_t i = 0; i < rule_count_; ++i)
    if (begins[i][i]) return true;
  return false;
}

const EarleyRecognizer::Symbol* EarleyRecognizer::NextOf(const Item& item) const {
  const Production& production = productions_[item.production];
  return item.dot == production.symbols.size() ? nullptr : &production.symbols[item.dot];
}

// Predicts and completes until nothing changes; empty rules need several rounds.
void EarleyRecognizer::Complete(Set& set, std::size_t number) const {
  const auto add = [&set](const Item& item) {
    if (std::ranges::find(set, item) == set.end()) set.push_back(item);
  };
  for (std::size_t size = 0; size != set.size();) {
    size = set.size();
    for (std::size_t i = 0; i < set.size(); ++i) {
      const Item item = set[i];
      const Symbol* const next = NextOf(item);
      if (next != nullptr) {
        if (!next->is_rule) continue;
        for (std::size_t p = 0; p < productions_.size(); ++p)
          if (productions_[p].rule == next->index) add({p, 0, number});
        continue;
      }
      const std::size_t rule = productions_[item.production].rule;
      const Set waiting = item.origin == number ? set : sets_[item.origin];
      for (const Item& caller : waiting) {
        const Symbol* const symbol = NextOf(caller);
        if (symbol != nullptr && symbol->is_rule && symbol->index == rule)
          add({caller.production, caller.dot + 1, caller.origin});
      }
    }
  }
}

bool EarleyRecognizer::CanRead(std::uint32_t first, std::uint32_t last) const {
  return std::ranges::any_of(sets_.back(), [&](const Item& item) {
    const Symbol* const next = NextOf(item);
    return next != nullptr && !next->is_rule && classes_[next->index].Overlaps(first, last);
  });
}

void EarleyRecognizer::Push(std::uint32_t code) {
  Set set;
  for (const Item& item : sets_.back()) {
    const Symbol* const next = NextOf(item);
    if (next != nullptr && !next->is_rule && classes_[next->index].Contains(code))
      set.push_back({item.production, item.dot + 1, item.origin});
  }
  Complete(set, sets_.size());
  sets_.push_back(std::move(set));
}

bool EarleyRecognizer::Read(std::string_view bytes, bool reads_last, std::string& tail,
                            std::size_t& pushed) {
  const std::string all = tail_ + std::string(bytes);
  std::string_view rest = all;
  while (!rest.empty()) {
    const std::size_t length = WellFormedBytes(rest);
    if (length == 0) break;
    const std::uint32_t code = CodePointOf(rest.substr(0, length));
    if (!CanRead(code, code)) return false;
    rest.remove_prefix(length);
    if (rest.empty() && !reads_last) return true;
    Push(code);
    ++pushed;
  }
  tail = rest;
  if (rest.empty()) return true;
  if (IncompleteTailBytes(rest) != rest.size()) return false;
  // The characters that begin with these bytes are those between the bytes followed by the lowest
  // and by the highest well-formed continuation.
  std::string lowest(rest);
  std::string highest(rest);
  const auto extend = [](std::string& text, bool up) {
    while (WellFormedBytes(text) == 0) {
      for (unsigned i = 0; i < 64; ++i) {
        const char byte = static_cast<char>(0x80 + (up ? 63 - i : i));
        const std::string longer = text + byte;
        if (WellFormedBytes(longer) != 0 || IncompleteTailBytes(longer) == longer.size()) {
          text = longer;
          break;
        }
      }
    }
  };
  extend(lowest, false);
  extend(highest, true);
  return CanRead(CodePointOf(lowest), CodePointOf(highest));
}

bool EarleyRecognizer::IsViable(std::string_view bytes) {
  std::string tail;
  std::size_t pushed = 0;
  const bool is_viable = Read(bytes, false, tail, pushed);
  sets_.resize(sets_.size() - pushed);
  return is_viable;
}

void EarleyRecognizer::Append(std::string_view bytes) {
  std::string tail;
  std::size_t pushed = 0;
  Read(bytes, true, tail, pushed);
  tail_ = std::move(tail);
}

bool EarleyRecognizer::IsSentence() const {
  return tail_.empty() && std::ranges::any_of(sets_.back(), [&](const Item& item) {
           return productions_[item.production].rule == 0 && item.origin == 0 &&
                  NextOf(item) == nullptr;
         });
}

}  // namespace kvd::test
