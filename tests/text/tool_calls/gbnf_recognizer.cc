#include "tests/text/tool_calls/gbnf_recognizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace kvd::test {

// Symbols are code points; a token n is -1 - n.
class GbnfRecognizer::Reader {
 public:
  Reader(GbnfRecognizer& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  void ReadRules() {
    for (Skip(true); at_ < text_.size(); Skip(true)) {
      const std::string name = Name();
      Skip(false);
      Expect("::=");
      Skip(true);
      Alternatives(grammar_.RuleOf(name));
    }
  }

 private:
  bool Has(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  void Expect(std::string_view text) {
    if (!Has(text)) {
      ADD_FAILURE() << "expected " << text << " at " << text_.substr(at_, 80);
      at_ = text_.size();
      return;
    }
    at_ += text.size();
  }
  void Skip(bool lines) {
    while (at_ < text_.size() && (text_[at_] == ' ' || (lines && text_[at_] == '\n'))) ++at_;
  }
  static bool IsNameByte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  }
  std::string Name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
    if (begin == at_) Expect("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  int Number() {
    int number = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      number = number * 10 + (text_[at_++] - '0');
    }
    return number;
  }
  int Character() {
    if (text_[at_] != '\\') {
      const std::size_t bytes = WellFormedBytes(text_.substr(at_));
      const int code = static_cast<int>(CodePointOf(text_.substr(at_, bytes)));
      at_ += bytes;
      return code;
    }
    const char kind = text_[at_ + 1];
    at_ += 2;
    switch (kind) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': at_ += 2; return std::stoi(std::string(text_.substr(at_ - 2, 2)), nullptr, 16);
      default: return kind;
    }
  }

  void Alternatives(std::size_t rule) {
    grammar_.AddAlternative(rule, Sequenced());
    while (Has("|")) {
      ++at_;
      Skip(true);
      grammar_.AddAlternative(rule, Sequenced());
    }
  }

  Sequence Sequenced() {
    Sequence sequence;
    while (at_ < text_.size() && !Has("|") && !Has(")") && !Has("\n")) {
      Sequence item = Item();
      Repeat(item);
      sequence.insert(sequence.end(), item.begin(), item.end());
      Skip(false);
    }
    return sequence;
  }

  Sequence Item() {
    Sequence item;
    if (Has("\"")) {
      for (++at_; at_ < text_.size() && !Has("\"");) {
        const int code = Character();
        item.push_back({.kind = Kind::kClass, .ranges = {{code, code}}});
      }
      Expect("\"");
    } else if (Has("[")) {
      ++at_;
      Element set{.kind = Kind::kClass};
      if (Has("^")) {
        set.is_negated = true;
        ++at_;
      }
      while (at_ < text_.size() && !Has("]")) {
        const int first = Character();
        int last = first;
        if (Has("-") && !Has("-]")) {
          ++at_;
          last = Character();
        }
        set.ranges.emplace_back(first, last);
      }
      Expect("]");
      item.push_back(set);
    } else if (Has("(")) {
      ++at_;
      Skip(true);
      const std::size_t rule = grammar_.NewRule();
      Alternatives(rule);
      Expect(")");
      item.push_back({.kind = Kind::kRule, .rule = rule});
    } else if (Has("!<[") || Has("<[")) {
      const Kind kind = Has("!") ? Kind::kNotToken : Kind::kToken;
      at_ += kind == Kind::kNotToken ? 3 : 2;
      item.push_back({.kind = kind, .token = Number()});
      Expect("]>");
    } else {
      item.push_back({.kind = Kind::kRule, .rule = grammar_.RuleOf(Name())});
    }
    return item;
  }

  // Replaces the item by its repetition.
  void Repeat(Sequence& item) {
    int least = 1;
    int most = 1;
    if (Has("*") || Has("+") || Has("?")) {
      least = Has("+") ? 1 : 0;
      most = Has("?") ? 1 : -1;
      ++at_;
    } else if (Has("{")) {
      ++at_;
      least = most = Number();
      if (Has(",")) {
        ++at_;
        most = Has("}") ? -1 : Number();
      }
      Expect("}");
    } else {
      return;
    }
    Element one{.kind = Kind::kRule, .rule = grammar_.NewRule()};
    grammar_.AddAlternative(one.rule, item);
    item.clear();
    for (int i = 0; i < least; ++i) item.push_back(one);
    const std::size_t first = grammar_.NewRule();
    item.push_back({.kind = Kind::kRule, .rule = first});
    std::size_t rule = first;
    for (int i = least; most < 0 || i < most; ++i) {
      const std::size_t rest = most < 0 ? first : grammar_.NewRule();
      grammar_.AddAlternative(rule, {one, {.kind = Kind::kRule, .rule = rest}});
      grammar_.AddAlternative(rule, {});
      rule = rest;
      if (most < 0) return;
    }
    grammar_.AddAlternative(rule, {});
  }

  GbnfRecognizer& grammar_;
  std::string_view text_;
  std::size_t at_ = 0;
};

GbnfRecognizer::GbnfRecognizer(std::string_view gbnf) {
  Reader(*this, gbnf).ReadRules();
  for (const auto& [name, rule] : names_) {
    EXPECT_FALSE(rules_[rule].empty()) << "the rule " << name << " is missing";
  }
  EXPECT_TRUE(names_.contains("root"));
}

std::size_t GbnfRecognizer::RuleOf(const std::string& name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  const std::size_t rule = NewRule();
  names_[name] = rule;
  return rule;
}

void GbnfRecognizer::AddAlternative(std::size_t rule, const Sequence& sequence) {
  rules_[rule].push_back(elements_.size());
  elements_.insert(elements_.end(), sequence.begin(), sequence.end());
  elements_.emplace_back();
}

void GbnfRecognizer::Close(Stack stack, std::set<Stack>& stacks) const {
  while (!stack.empty() && elements_[stack.back()].kind == Kind::kEnd) stack.pop_back();
  if (stack.empty() || elements_[stack.back()].kind != Kind::kRule) {
    stacks.insert(std::move(stack));
    return;
  }
  const std::size_t rule = elements_[stack.back()].rule;
  ++stack.back();
  // Without this, the stack would grow with each round of a repetition.
  while (!stack.empty() && elements_[stack.back()].kind == Kind::kEnd) stack.pop_back();
  for (const std::size_t position : rules_[rule]) {
    Stack next = stack;
    next.push_back(position);
    Close(std::move(next), stacks);
  }
}

std::set<GbnfRecognizer::Stack> GbnfRecognizer::Start() const {
  std::set<Stack> stacks;
  for (const std::size_t position : rules_[names_.at("root")]) Close({position}, stacks);
  return stacks;
}

std::set<GbnfRecognizer::Stack> GbnfRecognizer::Step(const std::set<Stack>& stacks,
                                                     int symbol) const {
  std::set<Stack> next;
  for (const Stack& stack : stacks) {
    if (stack.empty()) continue;
    const Element& element = elements_[stack.back()];
    bool fits = false;
    if (element.kind == Kind::kClass && symbol >= 0) {
      for (const auto& [first, last] : element.ranges) fits |= symbol >= first && symbol <= last;
      fits = fits != element.is_negated;
    } else if (element.kind == Kind::kToken) {
      fits = symbol == -1 - element.token;
    } else if (element.kind == Kind::kNotToken) {
      fits = symbol != -1 - element.token;
    }
    if (!fits) continue;
    Stack after = stack;
    ++after.back();
    Close(std::move(after), next);
  }
  return next;
}

std::pair<std::size_t, bool> GbnfRecognizer::Read(std::string_view text,
                                                  const std::map<std::string, int>& tokens) const {
  std::set<Stack> stacks = Start();
  std::size_t count = 0;
  while (!text.empty()) {
    int symbol = 0;
    std::size_t bytes = 0;
    for (const auto& [token_text, token] : tokens) {
      if (!text.starts_with(token_text)) continue;
      symbol = -1 - token;
      bytes = token_text.size();
    }
    if (bytes == 0) {
      bytes = std::max<std::size_t>(WellFormedBytes(text), 1);
      symbol = static_cast<int>(CodePointOf(text.substr(0, bytes)));
    }
    stacks = Step(stacks, symbol);
    if (stacks.empty()) return {count, false};
    text.remove_prefix(bytes);
    ++count;
  }
  return {count, stacks.contains(Stack{})};
}

bool GbnfRecognizer::Accepts(std::string_view text,
                             const std::map<std::string, int>& tokens) const {
  return Read(text, tokens).second;
}

std::size_t GbnfRecognizer::AcceptedSymbols(std::string_view text,
                                            const std::map<std::string, int>& tokens) const {
  return Read(text, tokens).first;
}

}  // namespace kvd::test
