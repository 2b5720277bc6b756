#include "text/jinja/lexer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvd::jinja {
namespace {

std::string ErrorOf(std::string_view source) {
  const auto tokens = Tokenize(source);
  return tokens ? "no error" : tokens.error().message;
}

// The data tokens of a source, in brackets.
std::string Data(std::string_view source) {
  const auto tokens = Tokenize(source);
  if (!tokens) return tokens.error().message;
  std::string text;
  for (const Token& token : *tokens) {
    if (token.kind == TokenKind::kData) text += "[" + token.text + "]";
  }
  return text;
}

TEST(LexerTest, TokensHaveLinesAndColumns) {
  const auto tokens = Tokenize("a\n {{ b.c }}");
  ASSERT_TRUE(tokens.has_value());
  ASSERT_EQ(tokens->size(), 7u);
  EXPECT_EQ((*tokens)[1].kind, TokenKind::kPrintBegin);
  EXPECT_EQ((*tokens)[1].place.line, 2u);
  EXPECT_EQ((*tokens)[1].place.column, 2u);
  EXPECT_EQ((*tokens)[2].text, "b");
  EXPECT_EQ((*tokens)[2].place.column, 5u);
  EXPECT_EQ((*tokens)[4].text, "c");
  EXPECT_EQ((*tokens)[6].kind, TokenKind::kEnd);
}

TEST(LexerTest, WhiteSpaceFollowsTheSignsOfTags) {
  EXPECT_EQ(Data("a\n  {% x %}\nb"), "[a\n][b]");
  EXPECT_EQ(Data("a\n  {%+ x +%}\nb"), "[a\n  ][\nb]");
  EXPECT_EQ(Data("a\n  {%- x -%}\n b"), "[a][b]");
  EXPECT_EQ(Data("a  {{ x }}\nb"), "[a  ][\nb]");
  EXPECT_EQ(Data("a {{- x -}} b"), "[a][b]");
  EXPECT_EQ(Data("a\n  {# x #}\nb"), "[a\n][b]");
  EXPECT_EQ(Data("a\r\nb\rc\n"), "[a\nb\nc]");
}

TEST(LexerTest, RawTextHasNoTags) {
  EXPECT_EQ(Data("{% raw %}{{ a }}{% b %}{% endraw %}"), "[{{ a }}{% b %}]");
  EXPECT_EQ(Data("x {%- raw -%} y {%- endraw -%} z"), "[x][y][z]");
}

TEST(LexerTest, EachErrorHasALineAndColumn) {
  EXPECT_EQ(ErrorOf("a\n{# b"), "template line 2, column 1: a comment has no end \"#}\"");
  EXPECT_EQ(ErrorOf("{% raw %}x"), "template line 1, column 1: {% raw %} has no {% endraw %}");
  EXPECT_EQ(ErrorOf("{{ 'a }}"), "template line 1, column 4: a string has no end");
  EXPECT_EQ(ErrorOf("{{ a ? b }}"), "template line 1, column 6: unexpected character '?'");
  EXPECT_EQ(ErrorOf("{{ ) }}"), "template line 1, column 4: unexpected ')'");
  EXPECT_EQ(ErrorOf("{{ (] }}"), "template line 1, column 5: unexpected ']', expected ')'");
  EXPECT_EQ(ErrorOf("{{ gr\u00fc }}"), "template line 1, column 6: unexpected character '\u00fc'");
  EXPECT_EQ(ErrorOf("{{ 9223372036854775808 }}"),
            "template line 1, column 4: the integer 9223372036854775808 exceeds 64 bits");
}

TEST(LexerTest, EscapesOfStringsAreThoseOfPython) {
  const auto text_of = [](std::string_view source) {
    const auto tokens = Tokenize(source);
    return tokens ? (*tokens)[1].text : tokens.error().message;
  };
  EXPECT_EQ(text_of(R"({{ '\x41\u00e9\U0001f642\101\n\'\"\\\q' }})"),
            "A\u00e9\U0001f642A\n'\"\\\\q");
  EXPECT_EQ(text_of("{{ 'a\\\nb' }}"), "ab");
  EXPECT_EQ(text_of("{{ '\\\u00e9' }}"), "\\xe9");
  EXPECT_EQ(text_of(R"({{ '\x4' }})"), "template line 1, column 4: truncated \\x escape");
  EXPECT_EQ(text_of(R"({{ '\U00110000' }})"),
            "template line 1, column 4: illegal Unicode character");
  EXPECT_EQ(text_of(R"({{ '\ud800' }})"),
            "template line 1, column 4: a surrogate in a string is not supported");
  EXPECT_EQ(text_of(R"({{ '\N{DASH}' }})"),
            "template line 1, column 4: the escape \\N is not supported");
}

TEST(LexerTest, NumbersMayHaveBasesUnderscoresAndExponents) {
  const auto tokens = Tokenize("{{ 1_000 0x1f 0b11 0o17 1_0.5 1e3 }}");
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ((*tokens)[1].integer, 1000);
  EXPECT_EQ((*tokens)[2].integer, 31);
  EXPECT_EQ((*tokens)[3].integer, 3);
  EXPECT_EQ((*tokens)[4].integer, 15);
  EXPECT_EQ((*tokens)[5].real, 10.5);
  EXPECT_EQ((*tokens)[6].real, 1000.0);
}

}  // namespace
}  // namespace kvd::jinja
