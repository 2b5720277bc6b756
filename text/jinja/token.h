// A token of a template: a piece of text, a delimiter of a tag, or a part of an expression.
#pragma once

#include <cstdint>
#include <string>

namespace kvd::jinja {

// Where something begins in the template: lines and columns count from 1, columns in bytes.
struct Place {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

enum class TokenKind : std::uint8_t {
  kData,        // text outside tags
  kPrintBegin,  // {{
  kPrintEnd,    // }}
  kTagBegin,    // {%
  kTagEnd,      // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kTilde,
  kLeftBracket,
  kRightBracket,
  kLeftParenthesis,
  kRightParenthesis,
  kLeftBrace,
  kRightBrace,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kAssign,
  kDot,
  kColon,
  kPipe,
  kComma,
  kSemicolon,
  kEnd,  // of the template
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  Place place;
  std::string text;          // of kData, kName and kString
  std::int64_t integer = 0;  // of kInteger
  double real = 0;           // of kFloat

  bool IsName(const char* name) const { return kind == TokenKind::kName && text == name; }
};

}  // namespace kvd::jinja
