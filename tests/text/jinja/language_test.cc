// Renders every template of tests/data/jinja/cases.json, which holds what Jinja2 makes of them
// (tools/text/jinja_cases.py).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/text/jinja/render.h"
#include "text/jinja/template.h"
#include "text/json.h"

namespace kvd {
namespace {

Value ReadCases() {
  std::ifstream file("tests/data/jinja/cases.json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto cases = ParseJson(text);
  EXPECT_TRUE(cases.has_value()) << cases.error().message;
  return cases.value_or(Value());
}

TEST(JinjaLanguageTest, EveryTemplateRendersAsInJinja2) {
  const Value data = ReadCases();
  ASSERT_TRUE(data.is_dict());
  const Value& variables = data.dict().Find("variables");
  const auto& cases = data.dict().Find("cases").items();
  ASSERT_GT(cases.size(), 850u);
  jinja::RenderOptions options;
  options.now = test::TestTime();
  for (const Value& item : cases) {
    const std::string source(item.items()[0].view());
    const Value& expected = item.items()[1];
    const auto parsed = jinja::Template::Parse(source);
    const Result<std::string> text =
        parsed ? parsed->Render(variables, options) : std::unexpected(parsed.error());
    if (expected.is_string()) {
      EXPECT_EQ(text ? *text : text.error().message, expected.view()) << source;
    } else {
      EXPECT_FALSE(text.has_value()) << source << "\n" << item.items()[2].view();
    }
  }
}

}  // namespace
}  // namespace kvd
