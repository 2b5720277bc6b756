#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/grammar/character_automaton.h"
#include "tests/engine/grammar/grammar_texts.h"

namespace kvd {
namespace {

using test::Compile;
using test::CompileError;
using test::IsPrefix;
using test::Matches;
using ::testing::HasSubstr;

TEST(GbnfParserTest, LiteralsHaveEscapes) {
  const auto grammar = Compile(R"(root ::= "a\x41\u00e9\U0001F600\n\r\t\\\"\[\]")");
  EXPECT_TRUE(Matches(grammar, "aA\u00e9\U0001F600\n\r\t\\\"[]"));
  EXPECT_FALSE(Matches(grammar, "aA\u00e9\U0001F600\n\r\t\\\"["));
}

TEST(GbnfParserTest, AMinusAtAnEndOfAClassIsLiteral) {
  const auto grammar = Compile(R"(root ::= [a-]  "?" | [-b] "." | [c-e-g] "," | [.^] ";")");
  for (const char* text : {"a?", "-?", "b.", "-.", "c,", "d,", "e,", "-,", "g,", ".;", "^;"})
    EXPECT_TRUE(Matches(grammar, text)) << text;
  for (const char* text : {"b?", "a.", "f,", "a;"}) EXPECT_FALSE(Matches(grammar, text)) << text;
}

TEST(GbnfParserTest, ANegatedClassMatchesWholeCharacters) {
  const auto grammar = Compile(R"(root ::= [^a\u00e9])");
  for (const char* text : {"b", "\n", "\u00e8", "\u4f60", "\U0001F600", "\U0010FFFF"})
    EXPECT_TRUE(Matches(grammar, text)) << text;
  EXPECT_TRUE(Matches(grammar, std::string(1, '\0')));
  for (const char* text : {"a", "\u00e9", "bb"}) EXPECT_FALSE(Matches(grammar, text)) << text;
}

TEST(GbnfParserTest, ADotMatchesAnyWellFormedCharacterOnly) {
  const auto grammar = Compile("root ::= .");
  for (const char* text : {"a", "\n", "\u00e9", "\uffff", "\U0010FFFF"})
    EXPECT_TRUE(Matches(grammar, text)) << text;
  // A continuation byte, an overlong form, a surrogate, a character above U+10FFFF, a byte that
  // occurs in no character.
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1", "\xe0\x80", "\xed\xa0", "\xf0\x80", "\xf4\x90", "\xf5", "\xff"})
    EXPECT_FALSE(IsPrefix(grammar, text)) << text;
}

TEST(GbnfParserTest, RepetitionsHaveTheirBounds) {
  const auto count = [](const std::string& item, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += item;
    return text;
  };
  struct Case {
    const char* repetition;
    int min, max;
  };
  for (const std::string item :
       {R"("a")", R"("ab")", R"([a-b])", R"(("a" | "ab"))", R"("\u00e9")", R"((("a")))", "x"}) {
    for (const Case& c : {Case{"*", 0, 9},
                          {"+", 1, 9},
                          {"?", 0, 1},
                          {"{3}", 3, 3},
                          {"{ 2 , }", 2, 9},
                          {"{2,4}", 2, 4},
                          {"{0,3}", 0, 3},
                          {"{0}", 0, 0},
                          {"{0,0}", 0, 0}}) {
      const auto grammar = Compile("root ::= \"<\" " + item + c.repetition + " \">\"\nx ::= \"a\"");
      const std::string once = item == R"("ab")" ? "ab" : item == R"("\u00e9")" ? "\u00e9" : "a";
      for (int times = 0; times < 9; ++times)
        EXPECT_EQ(Matches(grammar, "<" + count(once, times) + ">"),
                  times >= c.min && times <= c.max)
            << item << c.repetition << " " << times;
    }
  }
}

TEST(GbnfParserTest, RepetitionsCanBeNested) {
  const auto grammar = Compile(R"(root ::= "a"{2}{3} ("b"*)* (("c"?){2,3}){2})");
  EXPECT_TRUE(Matches(grammar, "aaaaaabbb"));
  EXPECT_TRUE(Matches(grammar, "aaaaaacccccc"));
  EXPECT_FALSE(Matches(grammar, "aaaaaaccccccc"));
  EXPECT_FALSE(Matches(grammar, "aaaaab"));
  EXPECT_TRUE(Matches(Compile(R"(root ::= ""* ("")+ "x")"), "x"));
}

TEST(GbnfParserTest, CommentsAndLineEndsAreReadAsLlamaReadsThem) {
  const auto grammar = Compile(
      "# first\r\n\n root ::= # here\n  a | # more\n  ( b # in a group\n | \"z\" )\r\n"
      "a ::= \"a\"\n\n\n# between\nb ::= \"b\" \"c\"");
  for (const char* text : {"a", "bc", "z"}) EXPECT_TRUE(Matches(grammar, text)) << text;
  EXPECT_THAT(CompileError("root ::= \"a\"\n| \"b\""), HasSubstr("line 2, column 1"));
  EXPECT_THAT(CompileError("root ::= \"a\" ::="),
              HasSubstr("line 1, column 14: expected an item, '|' or a line end, found ':'"));
}

TEST(GbnfParserTest, TheLastDefinitionOfARuleCounts) {
  const auto grammar = Compile("root ::= a\na ::= \"x\"\na ::= \"y\"");
  EXPECT_TRUE(Matches(grammar, "y"));
  EXPECT_FALSE(IsPrefix(grammar, "x"));
}

TEST(GbnfParserTest, ErrorsNameLineColumnAndWhatWasExpected) {
  const auto expect = [](const char* gbnf, const char* message) {
    EXPECT_THAT(CompileError(gbnf), HasSubstr(message)) << gbnf;
  };
  expect("", "the rule \"root\" is missing");
  expect("a ::= \"x\"", "the rule \"root\" is missing");
  expect("root ::= a\nb ::= \"x\"", "line 1, column 10: the rule \"a\" is not defined");
  expect("root = \"a\"", "line 1, column 6: expected '::=', found '='");
  expect("\n  _ ::= \"a\"", "line 2, column 3: expected a rule's name, found '_'");
  expect("root ::= \"a", "line 1, column 12: '\"' is missing");
  expect("root ::= [a", "line 1, column 12: ']' is missing");
  expect("root ::= [a-", "expected a character, found the end");
  expect("root ::= []", "the class is empty");
  expect("root ::= [^]", "the class is empty");
  expect("root ::= [z-a]", "line 1, column 11: the range ends before it begins");
  expect("root ::= (\"a\"", "expected ')', found the end");
  expect("root ::= * \"a\"", "expected an item before the repetition, found '*'");
  expect("root ::= \"a\"{0}*", "expected an item before the repetition, found '*'");
  expect("root ::= \"a\"{,2}", "expected a number of repetitions, found ','");
  expect("root ::= \"a\"{2", "expected ',' or '}', found the end");
  expect("root ::= \"a\"{2,3", "expected '}', found the end");
  expect("root ::= \"a\"{3,2}", "the repetition's minimum 3 is above its maximum 2");
  expect("root ::= \"a\"{2000000}", "a number of repetitions: the limit is 1048576");
  expect("root ::= \"\\q\"", "unknown escape");
  expect("root ::= [\\-]", "line 1, column 11: unknown escape");
  expect("root ::= \"\\x4\"", "expected 2 hexadecimal digits, found '\"'");
  expect("root ::= \"\\ud83d\"", "the escape is not a character");
  expect("root ::= \"\\U00110000\"", "the escape is not a character");
  expect("root ::= \"\xff\"", "the text is not valid UTF-8");
  expect("root ::= \"\u00e9\u00e9\" ]", "line 1, column 15: expected an item");
}

TEST(GbnfParserTest, TokenTerminalsNameTokensOfTheVocabulary) {
  const auto expect = [](const char* gbnf, const char* message) {
    EXPECT_THAT(CompileError(gbnf), HasSubstr(message)) << gbnf;
  };
  expect("root ::= <[259]>", "line 1, column 12: token 259: the vocabulary has 259");
  expect("root ::= <[99999999999]>", "a token's number: the limit is");
  expect("root ::= <[a]>", "expected a token's number, found 'a'");
  expect("root ::= <[1>", "expected ']', found '>'");
  expect("root ::= <[1]", "expected '>', found the end");
  expect("root ::= <nothing>", "no token of the vocabulary has the text <nothing>");
  expect("root ::= <think", "'>' is missing");
  expect("root ::= !a", "expected '<', found 'a'");
}

TEST(GbnfParserTest, LeftRecursionIsRefusedByName) {
  EXPECT_THAT(CompileError("root ::= x\nx ::= x \"a\" | \"a\""),
              HasSubstr("the rule \"x\" is left recursive"));
  EXPECT_THAT(CompileError("root ::= \"b\" | x\nx ::= y \"a\"\ny ::= z\nz ::= x"),
              HasSubstr("left recursive"));
  // Hidden behind items that may be empty.
  EXPECT_THAT(CompileError("root ::= e root \"a\" | \"b\"\ne ::= \"\" | \"c\""),
              HasSubstr("the rule \"root\" is left recursive"));
  EXPECT_THAT(CompileError("root ::= ([a-z]* root)? \"a\""),
              HasSubstr("the rule \"root\" is left recursive"));
  EXPECT_THAT(CompileError("root ::= \"a\"\nx ::= x"), HasSubstr("the rule \"x\""));
  Compile("root ::= [a-z]+ root? | \"(\" root \")\"");
}

TEST(GbnfParserTest, LimitsAreRefusedByName) {
  EXPECT_THAT(CompileError("root ::= \"aaaa\"", Code::kTooLarge, {.text_bytes = 10}),
              HasSubstr("grammar: 15 bytes, the limit is 10"));
  EXPECT_THAT(CompileError("root ::= a\na ::= b\nb ::= \"x\"", Code::kTooLarge, {.rules = 2}),
              HasSubstr("rules, groups and repeated items: the limit is 2"));
  EXPECT_THAT(CompileError("root ::= \"aaaaaaaaaa\"", Code::kTooLarge, {.elements = 8}),
              HasSubstr("elements: the limit is 8"));
  EXPECT_THAT(CompileError("root ::= [a-bc-de-f]", Code::kTooLarge, {.elements = 2}),
              HasSubstr("elements: the limit is 2"));
  std::string deep = "root ::= ";
  for (int i = 0; i < 300; ++i) deep += "(\"a\" | ";
  EXPECT_THAT(CompileError(deep), HasSubstr("groups in groups: the limit is 256"));
  std::string many = "root ::= [";
  for (int i = 0; i < 9000; ++i) many += "a";
  EXPECT_THAT(CompileError(many + "]"), HasSubstr("the class has 9000 ranges, the limit is 8192"));
}

TEST(CharacterAutomatonTest, RangesAreMergedComplementedAndFreeOfSurrogates) {
  using Ranges = std::vector<CodeRange>;
  EXPECT_EQ(NormalizeRanges({{5, 7}, {1, 2}, {3, 3}, {6, 9}}, false), (Ranges{{1, 3}, {5, 9}}));
  EXPECT_EQ(NormalizeRanges({{0, 0x10ffff}}, true), Ranges{});
  EXPECT_EQ(NormalizeRanges({}, true), (Ranges{{0, 0xd7ff}, {0xe000, 0x10ffff}}));
  EXPECT_EQ(NormalizeRanges({{0xd000, 0xffffffff}}, false),
            (Ranges{{0xd000, 0xd7ff}, {0xe000, 0x10ffff}}));
  EXPECT_EQ(NormalizeRanges({{0x41, 0xffffffff}}, true), (Ranges{{0, 0x40}}));
}

}  // namespace
}  // namespace kvd
