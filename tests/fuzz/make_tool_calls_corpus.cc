// Writes seeds for tool_calls_fuzz: the cases of the unit tests.
#include <span>
#include <string>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/text/tool_calls/answer_cases.h"

namespace kvd::tool_calls_corpus {
int Make(const std::string& folder) {
  unsigned number = 0;
  for (const kvd::test::AnswerCase& answer : kvd::test::AnswerCases()) {
    std::string input;
    input += static_cast<char>(answer.format);
    input += static_cast<char>(answer.starts_in_reasoning ? 1 : 0);
    input += static_cast<char>(7 * number);  // the cuts
    input += answer.text;
    kvd::test::WriteSeed(folder, "case" + std::to_string(number++),
                         std::as_bytes(std::span(input)));
  }
  return 0;
}

}  // namespace kvd::tool_calls_corpus
