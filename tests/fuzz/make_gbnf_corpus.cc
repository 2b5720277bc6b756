// make_gbnf_corpus DIRECTORY: writes seeds for gbnf_fuzz: small grammars of every construct.
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/make_wire_corpus.h"

namespace {

constexpr std::string_view kGrammars[] = {
    "root ::= \"hello\" [a-z]* (\"x\" | \"y\"){2,4} .? # end\n",
    "root ::= object\nobject ::= \"{\" (pair (\",\" pair)*)? \"}\"\n"
    "pair ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\" \":\" value\n"
    "value ::= object | [0-9]+ | \"true\" | \"[\" value? \"]\"\n",
    "root ::= <[3]> !<[5]>* <s> \"\\u00e9\\U0001F600\" [\u4e00-\u9fff]+\n",
    "root ::= (e e){1,3} \"a\"\ne ::= \"\" | \"b\"{0,100} | (\n \"c\" |\n \"d\"+ )\n",
    "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"\n",
    "root ::= (([^x]*){0,9}){0,9} \"he\"{3}\n",
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  unsigned number = 0;
  for (const std::string_view grammar : kGrammars) {
    const std::string input = std::string(grammar) + '\0' + "walk over the tokens 0123";
    kvd::test::WriteSeed(arguments[1], "grammar" + std::to_string(number++),
                         std::as_bytes(std::span(input)));
  }
}
