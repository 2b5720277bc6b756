#include "tests/http/api/support/event_list.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "text/json.h"

namespace kvd::http::test {

std::vector<Value> EventsOf(std::string_view body) {
  constexpr std::string_view kData = "data: ";
  std::vector<Value> events;
  while (!body.empty()) {
    const std::size_t end = std::min(body.find('\n'), body.size());
    const std::string_view line = body.substr(0, end);
    body.remove_prefix(std::min(end + 1, body.size()));
    if (!line.starts_with(kData) || line == "data: [DONE]") continue;
    const auto value = ParseJson(line.substr(kData.size()));
    EXPECT_TRUE(value.has_value()) << line;
    if (value) events.push_back(*value);
  }
  return events;
}

}  // namespace kvd::http::test
