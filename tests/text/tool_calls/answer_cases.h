// Answers of every format, and what they are parsed to.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "text/tool_calls/answer_parser.h"

namespace kvd::test {

struct CallCase {
  std::string_view name;
  std::string_view arguments;
  bool is_complete = true;
  std::string_view id = {};  // empty: any
};

struct AnswerCase {
  std::string_view name;
  ToolFormat format;
  std::string_view text;
  std::string_view content;
  std::string_view reasoning;
  std::vector<CallCase> calls;
  bool starts_in_reasoning = false;
};

// The functions "weather" (city: string, days: integer, unit: celsius or fahrenheit), "add" (a, b:
// number, options: object, list: array), "write" (path, text: string) and "stop" (no parameters).
const Value& CaseTools();

std::span<const AnswerCase> AnswerCases();
std::vector<AnswerCase> FurtherAnswerCases();  // a part of AnswerCases()

// The tools above, and the tags <think> and </think>, or those of Gemma.
AnswerOptions OptionsOf(const AnswerCase& answer);

}  // namespace kvd::test
