// Only the makers create expressions, so no expression has a sequence inside a sequence or an
// empty alternative: "a or nothing" is a repetition of 0 to 1.
#include "text/schema/expression.h"

#include <algorithm>
#include <unordered_set>

#include "base/utf8.h"

namespace kvd::schema {
namespace {

using ExpressionKind = Expression::Kind;

void AppendHex(std::uint32_t number, int digit_count, std::string& text) {
  for (int shift = 4 * (digit_count - 1); shift >= 0; shift -= 4)
    text += "0123456789ABCDEF"[number >> shift & 15];
}

void AppendClassCharacter(std::uint32_t code_point, std::string& text) {
  switch (code_point) {
    case '\n': text += "\\n"; return;
    case '\r': text += "\\r"; return;
    case '\t': text += "\\t"; return;
    case '\\':
    case '[':
    case ']': (text += '\\') += static_cast<char>(code_point); return;
    default: break;
  }
  const bool is_plain = code_point > ' ' && code_point < 0x7F && code_point != '-' &&
                        code_point != '^' && code_point != '"';
  if (is_plain || code_point == ' ') {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x80) {
    text += "\\x";
    AppendHex(code_point, 2, text);
  } else if (code_point < 0x10000) {
    text += "\\u";
    AppendHex(code_point, 4, text);
  } else {
    text += "\\U";
    AppendHex(code_point, 8, text);
  }
}

}  // namespace

Expression Literal(std::string bytes) {
  if (bytes.empty()) return {};
  Expression expression;
  expression.kind = ExpressionKind::kLiteral;
  expression.text = std::move(bytes);
  return expression;
}

Expression ClassOf(const CodePointSet& set) {
  const auto& ranges = set.ranges();
  if (ranges.size() == 1 && ranges[0].first == ranges[0].last) {
    std::string character;
    AppendUtf8(ranges[0].first, character);
    return Literal(std::move(character));
  }
  Expression expression;
  expression.kind = ExpressionKind::kClass;
  expression.text = "[";
  for (const auto& [first, last] : ranges) {
    AppendClassCharacter(first, expression.text);
    if (last > first + 1) expression.text += '-';
    if (last > first) AppendClassCharacter(last, expression.text);
  }
  expression.text += "]";
  return expression;
}

Expression Reference(RuleId rule) {
  Expression expression;
  expression.kind = ExpressionKind::kRule;
  expression.rule = rule;
  return expression;
}

Expression Nothing() {
  Expression expression;
  expression.kind = ExpressionKind::kChoice;
  return expression;
}

Expression Sequence(std::vector<Expression> parts) {
  Expression sequence;
  const auto append = [&](Expression part) {
    const bool joins = part.kind == ExpressionKind::kLiteral && !sequence.parts.empty() &&
                       sequence.parts.back().kind == ExpressionKind::kLiteral;
    if (joins) {
      sequence.parts.back().text += part.text;
    } else {
      sequence.parts.push_back(std::move(part));
    }
  };
  for (Expression& part : parts) {
    if (part.is_nothing()) return Nothing();
    if (part.kind != ExpressionKind::kSequence) {
      append(std::move(part));
      continue;
    }
    for (Expression& inner : part.parts) append(std::move(inner));
  }
  if (sequence.parts.size() != 1) return sequence;
  Expression only = std::move(sequence.parts[0]);
  return only;
}

Expression Choice(std::vector<Expression> parts) {
  Expression choice = Nothing();
  bool has_empty = false;
  std::unordered_set<std::string> literals;
  const auto append = [&](Expression part) {
    if (part.is_empty()) {
      has_empty = true;
    } else if (part.kind == ExpressionKind::kLiteral) {
      if (literals.insert(part.text).second) choice.parts.push_back(std::move(part));
    } else if (part.kind != ExpressionKind::kRule ||
               std::ranges::find(choice.parts, part) == choice.parts.end()) {
      choice.parts.push_back(std::move(part));
    }
  };
  for (Expression& part : parts) {
    if (part.kind != ExpressionKind::kChoice) {
      append(std::move(part));
      continue;
    }
    for (Expression& inner : part.parts) append(std::move(inner));
  }
  if (choice.parts.size() == 1) choice = Expression(std::move(choice.parts[0]));
  if (!has_empty) return choice;
  return choice.is_nothing() ? Expression() : Optional(std::move(choice));
}

Expression Repeat(Expression part, std::uint64_t min, std::optional<std::uint64_t> max) {
  if (max && *max < min) return Nothing();
  if (max == 0 || part.is_empty()) return {};
  if (part.is_nothing()) return min == 0 ? Expression() : Nothing();
  if (min == 1 && max == 1) return part;
  Expression repeat;
  repeat.kind = ExpressionKind::kRepeat;
  repeat.min = min;
  repeat.max = max;
  repeat.parts.push_back(std::move(part));
  return repeat;
}

Expression Optional(Expression part) {
  if (part.kind == ExpressionKind::kRepeat && part.min == 0) return part;
  return Repeat(std::move(part), 0, 1);
}

void AppendLiteral(std::string_view bytes, std::string& text) {
  text += '"';
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      (text += '\\') += byte;
    } else if (byte == '\n') {
      text += "\\n";
    } else if (byte == '\r') {
      text += "\\r";
    } else if (byte == '\t') {
      text += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      text += "\\x";
      AppendHex(code, 2, text);
    } else {
      text += byte;
    }
  }
  text += '"';
}

}  // namespace kvd::schema
