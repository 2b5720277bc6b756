// The same calls in every format, as the templates render them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/tool_format.h"

namespace kvd::test {

struct CallTexts {
  ToolFormat format;
  std::string_view one;                // weather(city Ulm, days 2)
  std::string_view two;                // stop(), then add(a 1, b 2.5); empty: one call only
  std::vector<std::string> refused{};  // texts that a grammar for CaseTools() refuses
};

// One row for each format.
std::span<const CallTexts> AllCallTexts();

}  // namespace kvd::test
