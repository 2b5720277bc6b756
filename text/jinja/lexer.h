// Divides the source of a template into tokens.
//
// White space is treated as with trim_blocks and lstrip_blocks: the line end after a tag {% %} or a
// comment is dropped, and so is the white space between the beginning of a line and such a tag.
// "-" inside a delimiter drops all white space on its side, "+" keeps it. {% raw %} is resolved
// here. One line end at the end of the template is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvd::jinja {

// A token of a template: a piece of text, a delimiter of a tag, or a part of an expression.

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

// The last token is kEnd. Errors: kInvalidArgument with the place; kUnsupported: an integer of more
// than 64 bits, an escape \N{...} or a surrogate.
Result<std::vector<Token>> Tokenize(std::string_view source);

// "template line 2, column 7: PROBLEM".
std::string AtPlace(const Place& place, std::string_view problem);

}  // namespace kvd::jinja
