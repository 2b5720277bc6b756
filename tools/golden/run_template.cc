#include <cstdio>

#include "text/jinja/template.h"
#include "text/json.h"
#include "tools/golden/run_case.h"

namespace kvd::golden {
namespace {

// strftime_now() of the cases: Sunday, 2026-11-22 12:34:56.
std::tm TimeOfCases() {
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

// Describes where two texts begin to differ.
std::string FirstDifference(std::string_view got, std::string_view expected) {
  std::size_t at = 0;
  while (at < got.size() && at < expected.size() && got[at] == expected[at]) ++at;
  const auto part = [at](std::string_view text) {
    constexpr std::size_t kBefore = 20, kShown = 60;
    const std::size_t begin = at < kBefore ? 0 : at - kBefore;
    return WriteJson(Value::String(std::string(text.substr(begin, kShown)))).value_or("?");
  };
  return Concat("byte ", at, ": got ", part(got), ", expected ", part(expected));
}

// Returns what is wrong with the result of one case; empty if it is right.
std::string Problem(const Result<std::string>& got, const Dict& fields, std::string_view source) {
  if (const Value& text = fields.Find("text"); text.is_string()) {
    if (!got) return got.error().message;
    return *got == text.view() ? "" : FirstDifference(*got, text.view());
  }
  const Value& error = fields.Find("error");
  if (!error.is_string()) return "the case has neither text nor error";
  if (got) return Concat("no error, expected: ", error.view());
  // A message that is in the template is that of raise_exception().
  const bool is_own = source.find(error.view()) != std::string_view::npos;
  const bool is_located = got.error().message.starts_with("template line ");
  if (got.error().message == error.view() || (is_located && !is_own)) return "";
  return Concat("error '", got.error().message, "', expected '", error.view(), "'");
}

}  // namespace

void RunTemplate(const std::string& folder, Tally* tally) {
  int passed = 0, failed = 0;
  const auto run = [&]() -> Status {
    KVD_TRY(const std::string source, ReadFile(folder + "/template.jinja"));
    KVD_TRY(const std::string text, ReadFile(folder + "/cases.json"));
    KVD_TRY(const Value cases, ParseJson(text));
    const auto parsed = jinja::Template::Parse(source);
    if (!cases.is_list()) return Fail(Code::kCorrupt, "cases.json: not an array");
    for (const Value& item : cases.items()) {
      if (!item.is_dict()) return Fail(Code::kCorrupt, "cases.json: a case is not an object");
      const Dict& fields = item.dict();
      const Value& name = fields.Find("name");
      const Value& variables = fields.Find("variables");
      if (!name.is_string() || variables.is_missing()) {
        return Fail(Code::kCorrupt, "cases.json: a case lacks its name or variables");
      }
      Result<std::string> got = std::string();
      if (parsed) {
        jinja::RenderOptions options;
        options.now = TimeOfCases();
        got = parsed->Render(variables, options);
      } else {
        got = std::unexpected(parsed.error());
      }
      const std::string problem = Problem(got, fields, source);
      ++(problem.empty() ? passed : failed);
      if (!problem.empty()) {
        std::printf("%s %s: %s\n", folder.c_str(), std::string(name.view()).c_str(),
                    problem.c_str());
      }
    }
    return {};
  };
  if (const Status status = run(); !status) {
    std::printf("%s: %s\n", folder.c_str(), status.error().message.c_str());
    ++failed;
  }
  std::printf("%s: %d passed, %d failed\n", folder.c_str(), passed, failed);
  tally->passed += passed;
  tally->failed += failed;
}

}  // namespace kvd::golden
