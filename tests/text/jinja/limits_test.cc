// Every limit ends a render, or a parse, with an error that names it.
#include <gtest/gtest.h>

#include <string>

#include "tests/text/jinja/render.h"

namespace kvd {
namespace {

using jinja::RenderOptions;
using jinja::Template;
using test::Render;

void ExpectNoSpace(const std::string& source, const RenderOptions& options,
                   const std::string& part) {
  const auto parsed = Template::Parse(source);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const auto text = parsed->Render(Value::Of(Dict()), options);
  ASSERT_FALSE(text.has_value()) << source;
  EXPECT_EQ(text.error().code, Code::kTooLarge) << text.error().message;
  EXPECT_NE(text.error().message.find(part), std::string::npos) << text.error().message;
  EXPECT_EQ(text.error().message.substr(0, 14), "template line ") << text.error().message;
}

TEST(JinjaLimitsTest, StepsAreBounded) {
  ExpectNoSpace("a\n{% for i in range(1000) %}{{ i + 1 }}{% endfor %}", {.steps_max = 100},
                "the template takes more than 100 steps");
}

TEST(JinjaLimitsTest, OutputIsBounded) {
  ExpectNoSpace("{% for i in range(1000) %}0123456789{% endfor %}", {.output_bytes_max = 500},
                "the template writes more than 500 bytes");
  ExpectNoSpace("{% set x %}{% for i in range(1000) %}0123456789{% endfor %}{% endset %}",
                {.output_bytes_max = 500}, "the template writes more than 500 bytes");
}

// Each of these would make a value of gigabytes.
TEST(JinjaLimitsTest, BytesOfValuesAreBounded) {
  for (const char* source :
       {"{{ 'a' * 10000000000 }}", "{{ [0] * 10000000000 }}", "{{ 'a' | indent(10000000000) }}",
        ("{% set ns = namespace(s='a' * 1000) %}"
         "{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
        ("{% set ns = namespace(s='a' * 1000) %}"
         "{% for i in range(60) %}{% set ns.s = ns.s.replace('', ns.s) %}{% endfor %}")}) {
    ExpectNoSpace(source, {}, "values of more than");
  }
}

TEST(JinjaLimitsTest, DepthOfCallsIsBounded) {
  ExpectNoSpace("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {},
                "evaluated deeper than 1000 levels");
  ExpectNoSpace("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}", {},
                "evaluated deeper than 1000 levels");
  ExpectNoSpace("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", {},
                "evaluated deeper than 1000 levels");
}

TEST(JinjaLimitsTest, NestingOfValuesIsBounded) {
  ExpectNoSpace(
      "{% set ns = namespace(a=1) %}{% for i in range(500) %}{% set ns.a = [ns.a] %}{% endfor %}",
      {}, "a value is nested deeper than 200 levels");
}

// A value of 60 levels that refers to the level below twice has 2^60 parts.
TEST(JinjaLimitsTest, WalkingOverSharedValuesIsCounted) {
  const std::string made =
      "{% set ns = namespace(a=1) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% endfor %}";
  ExpectNoSpace(made + "{{ ns.a }}", {.steps_max = 100'000}, "steps");
  ExpectNoSpace(made + "{{ ns.a | tojson }}", {.steps_max = 100'000}, "steps");
  ExpectNoSpace(made + "{% set b = ns.a %}{{ [b] == [[b[0], b[1]]] }}", {.steps_max = 100'000},
                "steps");
}

TEST(JinjaLimitsTest, NestingOfTheSourceIsBounded) {
  const auto nested = [](int count, const std::string& begin, const std::string& end) {
    std::string source;
    for (int i = 0; i < count; ++i) source += begin;
    source += "1";
    for (int i = 0; i < count; ++i) source += end;
    return source;
  };
  const auto expect_too_deep = [](const std::string& source) {
    const auto parsed = Template::Parse(source);
    ASSERT_FALSE(parsed.has_value()) << source.substr(0, 80);
    EXPECT_EQ(parsed.error().code, Code::kTooLarge) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("nested deeper than 200 levels"), std::string::npos);
  };
  expect_too_deep("{{ " + nested(10'000, "(", ")") + " }}");
  expect_too_deep("{{ " + nested(10'000, "[", "]") + " }}");
  expect_too_deep("{{ " + nested(10'000, "not ", "") + " }}");
  expect_too_deep("{{ " + nested(10'000, "-", "") + " }}");
  expect_too_deep("{{ " + nested(10'000, "1 + ", "") + " }}");
  expect_too_deep("{{ " + nested(10'000, "", ".a") + " }}");
  expect_too_deep("{{ " + nested(10'000, "", "|int") + " }}");
  expect_too_deep("{{ " + nested(10'000, "", " if 1 else 1") + " }}");
  expect_too_deep(nested(1000, "{% if 1 %}", "{% endif %}"));
  EXPECT_EQ(Render("{{ " + nested(60, "(", ")") + " }}"), "1");
  EXPECT_EQ(Render(nested(60, "{% if 1 %}", "{% endif %}")), "1");
}

TEST(JinjaLimitsTest, TheSourceAndTheVariablesAreBounded) {
  const auto parsed = Template::Parse(std::string(Template::kSourceBytesMax + 1, 'x'));
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().message, "template: 1048577 bytes, at most 1048576");
  Value deep = Value::Int(1);
  for (int i = 0; i < 300; ++i) deep = Value::List({deep});
  Dict variables;
  variables.Set("x", deep);
  const auto text = Template::Parse("{{ x }}")->Render(Value::Of(variables));
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().message, "the variables are nested deeper than 200 levels");
}

// The steps of a loop grow with its items, not with the text written before.
TEST(JinjaLimitsTest, StepsGrowLinearlyWithTheItems) {
  const auto passes = [](int items, std::uint64_t steps) {
    const std::string source =
        "{% for i in range(" + std::to_string(items) + ") %}{{ i ~ 'x' }}{% endfor %}";
    return Template::Parse(source)->Render(Value::Of(Dict()), {.steps_max = steps}).has_value();
  };
  EXPECT_TRUE(passes(100, 1000));
  EXPECT_TRUE(passes(1000, 10'000));
  EXPECT_TRUE(passes(10'000, 100'000));
}

}  // namespace
}  // namespace kvd
