// A recursive descent over the expression; WholeText in regex.cc resolves the anchors.
#include <algorithm>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "text/schema/regex.h"

namespace kvd::schema {
namespace {

using Kind = RegexNode::Kind;

RegexNode SetNode(CodePointSet set) {
  RegexNode node;
  node.kind = Kind::kSet;
  node.set = std::move(set);
  return node;
}

// The sets of ECMA-262 without the flag i.
CodePointSet Digits() { return CodePointSet::Of({{'0', '9'}}); }
CodePointSet WordCharacters() {
  return CodePointSet::Of({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
}
CodePointSet Spaces() {
  return CodePointSet::Of({{0x9, 0xD},
                           {' ', ' '},
                           {0xA0, 0xA0},
                           {0x1680, 0x1680},
                           {0x2000, 0x200A},
                           {0x2028, 0x2029},
                           {0x202F, 0x202F},
                           {0x205F, 0x205F},
                           {0x3000, 0x3000},
                           {0xFEFF, 0xFEFF}});
}
CodePointSet LineTerminators() {
  return CodePointSet::Of({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
}

std::optional<std::uint32_t> HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<std::uint32_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<std::uint32_t>(digit - 'a' + 10);
  if (digit >= 'A' && digit <= 'F') return static_cast<std::uint32_t>(digit - 'A' + 10);
  return std::nullopt;
}

bool IsLetterOrDigit(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9');
}

class Parser {
 public:
  Parser(std::string_view text, const RegexLimits& limits) : text_(text), limits_(limits) {}

  Result<RegexNode> Parse() {
    KVD_TRY(RegexNode node, ParseAlternation(0));
    if (!AtEnd()) return Invalid("\")\" without \"(\"");
    return node;
  }

 private:
  bool AtEnd() const { return offset_ >= text_.size(); }
  char Peek() const { return text_[offset_]; }
  bool Take(std::string_view token) {
    if (!text_.substr(offset_).starts_with(token)) return false;
    offset_ += token.size();
    return true;
  }
  std::unexpected<Error> Invalid(std::string_view what) const {
    return Fail(Code::kInvalidArgument, what, " at offset ", offset_);
  }
  std::unexpected<Error> Unsupported(std::string_view what) const {
    return Fail(Code::kUnsupported, what, " is not supported (at offset ", offset_, ")");
  }

  Result<RegexNode> ParseAlternation(std::uint32_t depth) {
    RegexNode alternation;
    alternation.kind = Kind::kAlternation;
    do {
      KVD_TRY(RegexNode sequence, ParseSequence(depth));
      alternation.children.push_back(std::move(sequence));
    } while (Take("|"));
    if (alternation.children.size() == 1) {
      RegexNode only = std::move(alternation.children[0]);
      return only;
    }
    return alternation;
  }

  Result<RegexNode> ParseSequence(std::uint32_t depth) {
    RegexNode sequence;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      KVD_TRY(RegexNode term, ParseTerm(depth));
      sequence.children.push_back(std::move(term));
    }
    if (sequence.children.size() == 1) {
      RegexNode only = std::move(sequence.children[0]);
      return only;
    }
    return sequence;
  }

  Result<RegexNode> ParseTerm(std::uint32_t depth) {
    KVD_TRY(RegexNode atom, ParseAtom(depth));
    const bool is_anchor = atom.kind == Kind::kStart || atom.kind == Kind::kEnd;
    const std::size_t start = offset_;
    KVD_TRY(const auto repeat, ParseQuantifier());
    if (!repeat) return atom;
    if (is_anchor) {
      offset_ = start;
      return Invalid("a quantifier after an anchor");
    }
    RegexNode node;
    node.kind = Kind::kRepeat;
    node.min = repeat->first;
    node.max = repeat->second;
    node.children.push_back(std::move(atom));
    KVD_TRY(const auto again, ParseQuantifier());
    if (again) return Invalid("a quantifier after a quantifier");
    return node;
  }

  using Repeat = std::pair<std::uint32_t, std::optional<std::uint32_t>>;

  // Reads a quantifier, if there is one, with the "?" of a lazy one.
  Result<std::optional<Repeat>> ParseQuantifier() {
    std::optional<Repeat> repeat;
    if (Take("*")) {
      repeat = Repeat{0, std::nullopt};
    } else if (Take("+")) {
      repeat = Repeat{1, std::nullopt};
    } else if (Take("?")) {
      repeat = Repeat{0, 1};
    } else if (!AtEnd() && Peek() == '{') {
      KVD_TRY(repeat, ParseBraces());
    }
    if (repeat) Take("?");
    return repeat;
  }

  // "{2}", "{2,}" or "{2,5}". Other text after "{" is no quantifier: "{" is a character then.
  Result<std::optional<Repeat>> ParseBraces() {
    const std::size_t start = offset_;
    ++offset_;
    KVD_TRY(const auto min, ParseCount());
    std::optional<std::uint32_t> max = min;
    if (min && Take(",")) {
      KVD_TRY(max, ParseCount());
    }
    if (!min || !Take("}")) {
      offset_ = start;
      return std::optional<Repeat>();
    }
    if (max && *max < *min) return Invalid("a quantifier whose greatest number is the lesser one");
    return std::optional<Repeat>(Repeat{*min, max});
  }

  Result<std::optional<std::uint32_t>> ParseCount() {
    if (AtEnd() || Peek() < '0' || Peek() > '9') return std::optional<std::uint32_t>();
    std::uint64_t count = 0;
    while (!AtEnd() && Peek() >= '0' && Peek() <= '9') {
      count = count * 10 + static_cast<std::uint64_t>(Peek() - '0');
      if (count > limits_.repeat_max)
        return Fail(Code::kUnsupported, "a quantifier of more than ", limits_.repeat_max,
                    " (at offset ", offset_, ")");
      ++offset_;
    }
    return std::optional<std::uint32_t>(static_cast<std::uint32_t>(count));
  }

  Result<RegexNode> ParseAtom(std::uint32_t depth) {
    if (Take("^")) return Anchor(Kind::kStart);
    if (Take("$")) return Anchor(Kind::kEnd);
    if (Take(".")) return SetNode(LineTerminators().Complement());
    if (Peek() == '(') return ParseGroup(depth);
    if (Take("[")) return ParseClass();
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') return Invalid("nothing to repeat");
    if (Peek() == '{') {
      KVD_TRY(const auto braces, ParseBraces());
      if (braces) return Invalid("nothing to repeat");
    }
    if (Take("\\")) {
      KVD_TRY(CodePointSet set, ParseEscape(false));
      return SetNode(std::move(set));
    }
    return SetNode(CodePointSet::Of(TakeCharacter()));
  }

  static RegexNode Anchor(Kind kind) {
    RegexNode node;
    node.kind = kind;
    return node;
  }

  Result<RegexNode> ParseGroup(std::uint32_t depth) {
    if (depth >= limits_.depth_max)
      return Fail(Code::kUnsupported, "more than ", limits_.depth_max, " groups inside each other");
    ++offset_;
    if (Take("?")) {
      if (Take("=") || Take("!")) return Unsupported("a lookahead");
      if (Take("<=") || Take("<!")) return Unsupported("a lookbehind");
      if (Take("<")) {
        const std::size_t end = text_.find('>', offset_);
        if (end == std::string_view::npos || end == offset_) return Invalid("a group without name");
        offset_ = end + 1;
      } else if (!Take(":")) {
        return Invalid("an unknown kind of group");
      }
    }
    KVD_TRY(RegexNode node, ParseAlternation(depth + 1));
    if (!Take(")")) return Invalid("\"(\" without \")\"");
    return node;
  }

  std::uint32_t TakeCharacter() {
    const std::size_t bytes = WellFormedBytes(text_.substr(offset_));
    const std::uint32_t code_point = CodePointOf(text_.substr(offset_, bytes));
    offset_ += bytes;
    return code_point;
  }

  Result<RegexNode> ParseClass() {
    const bool is_negated = Take("^");
    CodePointSet set;
    while (!Take("]")) {
      if (AtEnd()) return Invalid("\"[\" without \"]\"");
      KVD_TRY(const CodePointSet first, ParseClassMember());
      const bool is_range =
          offset_ + 1 < text_.size() && Peek() == '-' && text_[offset_ + 1] != ']';
      if (!is_range) {
        set.Add(first);
        continue;
      }
      ++offset_;
      KVD_TRY(const CodePointSet last, ParseClassMember());
      if (!IsOne(first) || !IsOne(last)) return Invalid("a range between classes");
      const std::uint32_t low = first.ranges()[0].first;
      const std::uint32_t high = last.ranges()[0].first;
      if (low > high) return Invalid("a range in the wrong order");
      set.Add(low, high);
    }
    return SetNode(is_negated ? set.Complement() : std::move(set));
  }

  static bool IsOne(const CodePointSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  Result<CodePointSet> ParseClassMember() {
    if (Take("\\")) return ParseEscape(true);
    return CodePointSet::Of(TakeCharacter());
  }

  // Reads what follows a backslash.
  Result<CodePointSet> ParseEscape(bool in_class) {
    if (AtEnd()) return Invalid("a backslash at the end");
    const char letter = Peek();
    switch (letter) {
      case 'd': return Class(Digits(), false);
      case 'D': return Class(Digits(), true);
      case 'w': return Class(WordCharacters(), false);
      case 'W': return Class(WordCharacters(), true);
      case 's': return Class(Spaces(), false);
      case 'S': return Class(Spaces(), true);
      case 't': return Escaped('\t');
      case 'n': return Escaped('\n');
      case 'r': return Escaped('\r');
      case 'f': return Escaped('\f');
      case 'v': return Escaped('\v');
      case 'c': return ParseControl();
      case 'x': return ParseHex(2);
      case 'u': return ParseUnicode();
      case 'b':
        if (in_class) return Escaped('\b');
        return Unsupported("a word boundary");
      case 'B': return Unsupported("a word boundary");
      case 'p':
      case 'P': return Unsupported("a property of characters");
      case 'k': return Unsupported("a back reference");
      default: break;
    }
    if (letter == '0' && (offset_ + 1 >= text_.size() || !HexDigit(text_[offset_ + 1])))
      return Escaped('\0');
    if (letter >= '0' && letter <= '9') return Unsupported("a back reference");
    if (IsLetterOrDigit(letter)) return Invalid("an unknown escape");
    return CodePointSet::Of(TakeCharacter());
  }

  CodePointSet Class(const CodePointSet& set, bool is_negated) {
    ++offset_;
    return is_negated ? set.Complement() : set;
  }
  CodePointSet Escaped(char character) {
    ++offset_;
    return CodePointSet::Of(static_cast<unsigned char>(character));
  }

  Result<CodePointSet> ParseControl() {
    ++offset_;
    const char letter = AtEnd() ? '\0' : Peek();
    if ((letter < 'a' || letter > 'z') && (letter < 'A' || letter > 'Z'))
      return Invalid("\\c without a letter");
    ++offset_;
    return CodePointSet::Of(static_cast<std::uint32_t>(letter) % 32);
  }

  Result<CodePointSet> ParseHex(int digit_count) {
    ++offset_;
    KVD_TRY(const std::uint32_t code_point, HexNumber(digit_count));
    return CodePointSet::Of(code_point);
  }

  Result<std::uint32_t> HexNumber(int digit_count) {
    std::uint32_t number = 0;
    for (int i = 0; i < digit_count; ++i) {
      const auto digit = AtEnd() ? std::nullopt : HexDigit(Peek());
      if (!digit) return Invalid("an escape with too few hexadecimal digits");
      number = number * 16 + *digit;
      ++offset_;
    }
    return number;
  }

  // "\uHHHH", a pair of such escapes for one character, or "\u{H...}".
  Result<CodePointSet> ParseUnicode() {
    ++offset_;
    if (Take("{")) {
      std::uint32_t number = 0;
      while (!AtEnd() && HexDigit(Peek())) {
        number = number * 16 + *HexDigit(Peek());
        if (number > CodePointSet::kLast) return Invalid("an escape above U+10FFFF");
        ++offset_;
      }
      if (!Take("}")) return Invalid("\\u{ without }");
      return OneCharacter(number);
    }
    KVD_TRY(const std::uint32_t unit, HexNumber(4));
    if (unit < 0xD800 || unit > 0xDBFF || !Take("\\u")) return OneCharacter(unit);
    KVD_TRY(const std::uint32_t low, HexNumber(4));
    if (low < 0xDC00 || low > 0xDFFF) return Unsupported("half of a surrogate pair");
    return OneCharacter(0x10000 + (unit - 0xD800) * 0x400 + (low - 0xDC00));
  }

  Result<CodePointSet> OneCharacter(std::uint32_t code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF)
      return Unsupported("half of a surrogate pair");
    return CodePointSet::Of(code_point);
  }

  std::string_view text_;
  const RegexLimits& limits_;
  std::size_t offset_ = 0;
};

}  // namespace

Result<RegexNode> ParsePattern(std::string_view pattern, const RegexLimits& limits) {
  if (pattern.size() > limits.pattern_bytes)
    return Fail(Code::kUnsupported, pattern.size(), " bytes, at most ", limits.pattern_bytes);
  if (!IsValidUtf8(pattern)) return Fail(Code::kInvalidArgument, "the expression is not UTF-8");
  KVD_TRY(RegexNode node, Parser(pattern, limits).Parse());
  return WholeText(std::move(node));
}

RegexNode ExactText(std::string_view text) {
  RegexNode sequence;
  while (!text.empty()) {
    const std::size_t bytes = WellFormedBytes(text);
    sequence.children.push_back(SetNode(CodePointSet::Of(CodePointOf(text.substr(0, bytes)))));
    text.remove_prefix(bytes);
  }
  return sequence;
}

}  // namespace kvd::schema
