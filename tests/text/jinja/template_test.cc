#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/text/jinja/render.h"

namespace kvd {
namespace {

using jinja::Template;
using test::Render;

TEST(TemplateTest, RendersAChat) {
  EXPECT_EQ(Render("{%- for m in messages -%}\n<|{{ m.role }}|>{{ m['content'] | trim }}\n"
                   "{%- endfor -%}{% if add %}<|assistant|>{% endif %}",
                   R"({"messages": [{"role": "user", "content": " Hi "}], "add": true})"),
            "<|user|>Hi<|assistant|>");
}

TEST(TemplateTest, AnErrorNamesLineAndColumn) {
  EXPECT_EQ(Render("a\n  {{ x.y.z }}"), "template line 2, column 7: 'x' is undefined");
  EXPECT_EQ(Render("{{ 1 +\n 'a' }}"),
            "template line 1, column 6: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_EQ(Render("{% if %}"), "template line 1, column 7: expected an expression, got %}");
  EXPECT_EQ(Render("{% for %}"), "template line 1, column 8: expected a name, got %}");
  EXPECT_EQ(Render("{% if 1 %}\nx"),
            "template line 2, column 2: unexpected end of the template, expected {% endif %}");
  EXPECT_EQ(Render("{% foo %}"), "template line 1, column 4: unknown tag 'foo'");
}

TEST(TemplateTest, AnUnknownFilterTestMethodOrFunctionIsNamedWithItsLine) {
  EXPECT_EQ(Render("a\n{{ 'x' | wordwrap(8) }}"),
            "template line 2, column 10: no filter named 'wordwrap'");
  EXPECT_EQ(Render("a\n{{ ['x'] | map('title') | list }}"),
            "template line 2, column 27: no filter named 'title'");
  EXPECT_EQ(Render("{{ 1\n is callable }}"), "template line 2, column 5: no test named 'callable'");
  EXPECT_EQ(Render("{{ ['x'] | select('upper') | list }}"),
            "template line 1, column 30: no test named 'upper'");
  EXPECT_EQ(Render("\n\n{{ 'x'.title() }}"),
            "template line 3, column 13: 'str object' has no attribute 'title'");
  EXPECT_EQ(Render("{{ [1].count(1) }}"),
            "template line 1, column 13: 'list object' has no attribute 'count'");
  EXPECT_EQ(Render("{{ joiner() }}"), "template line 1, column 10: 'joiner' is undefined");
  EXPECT_EQ(Render("{{ '%s' % 1 }}"),
            "template line 1, column 9: unsupported operand type(s) for %: 'str' and 'int'");
}

TEST(TemplateTest, RaiseExceptionKeepsItsOwnText) {
  EXPECT_EQ(Render("{% macro m() %}{{ raise_exception('Roles must alternate: ' ~ 1) }}"
                   "{% endmacro %}\n\n{{ [1] | map('int') | list }}{{ m() }}"),
            "Roles must alternate: 1");
}

TEST(TemplateTest, UndefinedIsEmptyAndFalseAndFailsWhenItIsUsed) {
  EXPECT_EQ(Render("[{{ x }}{{ 'a' if x else 'b' }}]"), "[b]");
  EXPECT_EQ(Render("{{ d.a.b }}", R"({"d": {}})"),
            "template line 1, column 7: 'dict object' has no attribute 'a'");
  EXPECT_EQ(Render("{{ l[3].b }}", R"({"l": []})"),
            "template line 1, column 8: list object has no element 3");
  EXPECT_EQ(Render("{{ l.append(1) }}", R"({"l": []})"),
            "template line 1, column 12: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(TemplateTest, VariablesMustBeAnObjectAndTheSourceUtf8) {
  EXPECT_EQ(Render("x", "[1]"), "the variables of a template must be an object");
  EXPECT_EQ(Render("\xff"), "template: not UTF-8");
}

TEST(TemplateTest, SeveralThreadsRenderOneTemplateAtOnce) {
  const auto parsed = Template::Parse(
      "{% set ns = namespace(n=0) %}{% for i in range(200) %}{% set ns.n = ns.n + i %}"
      "{% endfor %}{{ ns.n }} {{ messages | map(attribute='role') | join(',') }}");
  ASSERT_TRUE(parsed.has_value());
  const auto variables = ParseJson(R"({"messages": [{"role": "a"}, {"role": "b"}]})");
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) text = parsed->Render(*variables).value_or("error");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "19900 a,b");
}

TEST(TemplateTest, AnErrorLeavesTheTemplateUsable) {
  const auto parsed = Template::Parse("{% macro m(x) %}{{ x.y.z }}{% endmacro %}{{ m(a) }}");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(parsed->Render(*ParseJson("{}")).has_value());
  EXPECT_EQ(parsed->Render(*ParseJson(R"({"a": {"y": {"z": 1}}})")).value_or("error"), "1");
}

TEST(TemplateTest, StrftimeNowUsesTheGivenTime) {
  jinja::RenderOptions options;
  options.now = test::TestTime();
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y, %H:%M:%S.%f%z%% %-d') }}", "{}", options),
            "22 Nov 2026, 12:34:56.000000% 22");
  EXPECT_EQ(Render("{{ strftime_now(1) }}"),
            "template line 1, column 16: strftime_now: the format must be a string");
  EXPECT_EQ(Render("{{ strftime_now('%Y') | length }}"), "4");
}

}  // namespace
}  // namespace kvd
