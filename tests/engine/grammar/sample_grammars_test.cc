// Grammars of the kinds that people write for language models, with texts inside and outside.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "tests/engine/grammar/grammar_texts.h"

namespace kvd::test {
namespace {

void Check(std::string_view gbnf, const std::vector<std::string_view>& sentences,
           const std::vector<std::string_view>& others) {
  const auto grammar = Compile(gbnf);
  for (const std::string_view text : sentences) EXPECT_TRUE(Matches(grammar, text)) << text;
  for (const std::string_view text : others) EXPECT_FALSE(Matches(grammar, text)) << text;
}

TEST(SampleGrammarsTest, SumsWithBracketsAreRead) {
  Check(R"gbnf(root ::= (sum "=" ws term "\n")+
sum ::= term ([-+*/] ws term)*
term ::= name | number | "(" ws sum ")" ws
name ::= [a-z] [a-z0-9_]* ws
number ::= [0-9]+ ws
ws ::= [ \t\n]*)gbnf",
        {"1+2=3\n", "(a_1 * 2) / (3 - b) = c\nx=1\n"}, {"1+2=3", "1+=3\n", "(1=2\n", "A=1\n", ""});
}

TEST(SampleGrammarsTest, MovesOfChessAreRead) {
  Check(R"gbnf(
# at least two numbered pairs of moves
root ::= (
    "1. " move " " move "\n"

    # one or two digits
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | piece | castle) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)gbnf",
        {"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 d5\n2. exd5 Qxd5+\n10. O-O-O R1a3#\n",
         "1. a8=Q b1\n2. Nbd2 O-O\n"},
        {"1. e4 e5\n", "2. e4 e5\n3. d4 d5\n", "1. e9 e5\n2. Nf3 Nc6\n", "1. e4 e5\n100. d4 d5\n"});
}

TEST(SampleGrammarsTest, LinesOfAListAreRead) {
  Check(R"(root ::= item+
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n")",
        {"- a\n", "- \u4f60\u597d \U0001F600\n- b\n"},
        {"- \n", "- a", "* a\n", "- a\u2028b\n", "- a\u0085\n"});
}

TEST(SampleGrammarsTest, ASubsetOfCIsRead) {
  Check(R"gbnf(root ::= (function)*
function ::= type blank name "(" (type blank name ("," blank type blank name)*)? ")" ws "{" ws (statement ws)* "}" ws
statement ::= type blank name ws ("=" ws sum)? ";" | name ws "=" ws sum ";" | "return" blank sum ";" |
  "while" ws "(" sum ws ("<" | "<=" | "==") ws sum ")" ws block | "if" ws "(" sum ")" ws block (ws "else" ws block)? |
  "//" [^\n]* "\n"
block ::= "{" ws (statement ws)* "}"
sum ::= product (ws [-+] ws product)*
product ::= factor (ws [*/] ws factor)*
factor ::= name | number | "-" factor | name "(" (sum ("," ws sum)*)? ")" | "(" sum ")" | "\"" [^"\n]* "\""
type ::= "int" | "float" | "char"
name ::= [a-zA-Z_] [a-zA-Z_0-9]*
number ::= [0-9]+ ("." [0-9]+)?
blank ::= " "+
ws ::= [ \t\n]*
)gbnf",
        {"", "int main() { return 0; }",
         "float f(int a, char b) {\n  // x\n  while (a <= 3) { a = a + g(1, \"s\") * -(2.5); }\n"
         "  if (a) { } else { int c; }\n}\nint g() {}\n"},
        {"int main() { return 0 }", "int main() { return 0; ", "int 1x() {}", "if (a) {}"});
}

TEST(SampleGrammarsTest, HiraganaIsRead) {
  Check("root ::= [\u3041-\u309f]+ ([ \\t\\n] [\u30a1-\u30ff\u4e00-\u9fff]{1,3})* \"\u3002\"",
        {"\u3072\u3089\u3002", "\u3072 \u30ab\u6f22\u5b57\u3002"},
        {"\u3072", "\u3072 \u30ab\u6f22\u5b57\u30ab\u3002", "a\u3002"});
}

TEST(SampleGrammarsTest, ATemplateOfAToolCallIsRead) {
  Check(R"gbnf(root ::= "<tool_call>\n" call ("," "\n" call){0,1} "\n</tool_call>"
call ::= "{\"name\": \"" ("add\", \"arguments\": {\"a\": " integer ", \"b\": " integer | "say\", \"arguments\": {\"text\": " string) "}}"
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
string ::= "\"" char{0,5} "\""
char ::= [^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})
)gbnf",
        {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 0, \"b\": -123}}\n</tool_call>",
         "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"text\": \"a\\u00e9\\n\u4f60b\"}},\n"
         "{\"name\": \"say\", \"arguments\": {\"text\": \"\"}}\n</tool_call>"},
        {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 01, \"b\": 2}}\n</tool_call>",
         "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"text\": \"abcdef\"}}\n</tool_call>",
         "<tool_call>\n{\"name\": \"sub\", \"arguments\": {\"text\": \"\"}}\n</tool_call>"});
}

}  // namespace
}  // namespace kvd::test
