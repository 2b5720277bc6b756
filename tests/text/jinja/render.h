// Renders a template for a test, and the time that tests use.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "text/jinja/template.h"
#include "text/json.h"

namespace kvd::test {

// Returns the text, or the message of the error.
inline std::string Render(std::string_view source, std::string_view variables = "{}",
                          const jinja::RenderOptions& options = {}) {
  const auto parsed = jinja::Template::Parse(source);
  if (!parsed) return parsed.error().message;
  const auto values = ParseJson(variables);
  if (!values) return values.error().message;
  const auto text = parsed->Render(*values, options);
  return text ? *text : text.error().message;
}

// Sunday, 2026-11-22 12:34:56.
inline std::tm TestTime() {
  std::tm time = {};
  time.tm_year = 126;
  time.tm_mon = 10;
  time.tm_mday = 22;
  time.tm_hour = 12;
  time.tm_min = 34;
  time.tm_sec = 56;
  time.tm_yday = 325;
  return time;
}

}  // namespace kvd::test
