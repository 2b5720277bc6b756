// Writes seeds for gbnf_fuzz: small grammars of every construct.
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::gbnf_corpus {
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

int Make(const std::string& folder) {
  unsigned number = 0;
  for (const std::string_view grammar : kGrammars) {
    const std::string input = std::string(grammar) + '\0' + "walk over the tokens 0123";
    kvd::test::WriteSeed(folder, "grammar" + std::to_string(number++),
                         std::as_bytes(std::span(input)));
  }
  return 0;
}

}  // namespace kvd::gbnf_corpus
