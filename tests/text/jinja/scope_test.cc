// Where the variables of a template can be seen.
#include <gtest/gtest.h>

#include <string>

#include "tests/text/jinja/render.h"

namespace kvd {
namespace {

using test::Render;

TEST(JinjaScopeTest, ALoopForgetsItsVariables) {
  EXPECT_EQ(Render("{% for i in [1, 2] %}{% set x = i %}{% endfor %}[{{ x }}]"), "[]");
  EXPECT_EQ(Render("{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}"
                   "{{ x }}"),
            "01020");
}

TEST(JinjaScopeTest, ANamespaceCarriesValuesOutOfALoop) {
  EXPECT_EQ(Render("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}"
                   "{% endfor %}{{ ns.n }}"),
            "3");
}

// Jinja2 decides for the whole template that x is its own variable.
TEST(JinjaScopeTest, ANameThatIsAssignedLaterIsUndefinedInALoopBefore) {
  EXPECT_EQ(Render("{% for i in [1] %}[{{ x }}]{% endfor %}{% set x = 1 %}{{ x }}", R"({"x": 5})"),
            "[]1");
}

TEST(JinjaScopeTest, AConditionAssignsInTheScopeAround) {
  EXPECT_EQ(Render("{% if c %}{% set x = 1 %}{% endif %}{{ x }}", R"({"c": true, "x": 5})"), "1");
  EXPECT_EQ(Render("{% if c %}{% set x = 1 %}{% endif %}{{ x }}", R"({"c": false, "x": 5})"), "5");
  EXPECT_EQ(Render("{% if c %}{% set x = 1 %}{% elif not c %}{% set x = 2 %}{% else %}{% endif %}"
                   "{{ x }}"),
            "2");
}

// In Jinja2 the body of a macro, call, block or generation is a function of Python, in which a loop
// around the function cannot be ended.
TEST(JinjaScopeTest, BreakAndContinueNeedALoopInTheSameMacroCallBlockOrGeneration) {
  constexpr std::string_view kReason =
      " outside a loop: a loop around a macro, call, block or generation is not its own";
  const auto expect_refused = [&](const std::string& before, std::string_view tag,
                                  const std::string& after) {
    const std::string begin = "{% for i in [1, 2] %}\n" + before;
    EXPECT_EQ(Render(begin + "{% " + std::string(tag) + " %}" + after + "{% endfor %}"),
              "template line 2, column " + std::to_string(before.size() + 4) + ": " +
                  std::string(tag) + std::string(kReason));
  };
  for (const std::string_view tag : {"break", "continue"}) {
    expect_refused("{% generation %}", tag, "{% endgeneration %}");
    expect_refused("{% generation %}{% if i == 1 %}", tag, "{% endif %}{% endgeneration %}");
    expect_refused("{% if false %}{% generation %}", tag, "{% endgeneration %}{% endif %}");
    expect_refused("{% macro m() %}", tag, "{% endmacro %}");
    expect_refused("{% call range(1) %}", tag, "{% endcall %}");
    expect_refused("{% block b %}", tag, "{% endblock %}");
    expect_refused("{% generation %}{% filter upper %}", tag, "{% endfilter %}{% endgeneration %}");
  }
  EXPECT_EQ(Render("{% generation %}{% break %}{% endgeneration %}"),
            "template line 1, column 20: break outside a loop");
}

TEST(JinjaScopeTest, ALoopInsideAGenerationHasItsOwnScope) {
  EXPECT_EQ(
      Render("{% for i in [1, 2] %}{% generation %}{% for j in [1, 2, 3] %}"
             "{% if j == 1 %}{% continue %}{% elif j == 3 %}{% break %}{% endif %}{{ i }}{{ j }} "
             "{% endfor %}{% endgeneration %}{% endfor %}"),
      "12 22 ");
}

TEST(JinjaScopeTest, FilterSetAndWithBlocksArePartOfTheLoopAround) {
  EXPECT_EQ(Render("{% for i in [1, 2] %}{{ i }}{% filter upper %}a{% continue %}b{% endfilter %}"
                   "{% endfor %}"),
            "12");
  EXPECT_EQ(Render("{% for i in [1, 2] %}{{ i }}{% set a %}{% break %}{% endset %}{% endfor %}"),
            "1");
  EXPECT_EQ(Render("{% for i in [1, 2] %}{% with j = i %}{{ j }}{% continue %}{% endwith %}b"
                   "{% endfor %}"),
            "12");
}

TEST(JinjaScopeTest, AGenerationSeesTheVariablesAroundItAndKeepsItsOwn) {
  EXPECT_EQ(Render("{% set x = 1 %}{% for i in [5] %}{% generation %}{{ x }}{{ i }}{{ loop.index }}"
                   "{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}{% endfor %}"),
            "15121");
}

TEST(JinjaScopeTest, AGenerationHasNoCallerAndNoArguments) {
  EXPECT_EQ(Render("{% macro m() %}{% generation %}{{ caller is defined }}{{ varargs }}{{ kwargs }}"
                   "{% endgeneration %}{% endmacro %}{% call m(1) %}x{% endcall %}"),
            "False(){}");
  EXPECT_EQ(Render("{% macro m() %}{% generation %}{{ caller() }}{% endgeneration %}{% endmacro %}"
                   "{% call m() %}x{% endcall %}"),
            "template line 1, column 41: No caller defined");
  EXPECT_EQ(Render("{% generation %}{{ caller is defined }}{{ varargs }}{{ kwargs }}"
                   "{% endgeneration %}",
                   R"({"caller": 7})"),
            "False(){}");
}

TEST(JinjaScopeTest, AMacroSeesTheVariablesAroundIt) {
  EXPECT_EQ(Render("{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}"
                   "{% set x = 2 %}{{ m() }}"),
            "12");
  EXPECT_EQ(Render("{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}"
                   "{{ m() }}{{ x }}"),
            "21");
  EXPECT_EQ(Render("{% macro outer(a) %}{% macro inner(b) %}{{ a }}{{ b }}{% endmacro %}"
                   "{{ inner(2) }}{% endmacro %}{{ outer(1) }}{{ outer(3) }}"),
            "1232");
}

TEST(JinjaScopeTest, ABlockSeesAssignmentsOfTheTemplateButNotOfALoop) {
  EXPECT_EQ(Render("{% set x = 1 %}{% for i in [7] %}{% block b %}{{ x }}{{ i }}{% endblock %}"
                   "{% endfor %}"),
            "1");
  EXPECT_EQ(Render("{% for i in [7] %}{% block b scoped %}{{ i }}{% endblock %}{% endfor %}"), "7");
}

TEST(JinjaScopeTest, TheConditionOfALoopIsCheckedForEachItemInTurn) {
  EXPECT_EQ(Render("{% set ns = namespace(seen=[]) %}"
                   "{% for x in [1, 1, 2, 1] if x not in ns.seen %}"
                   "{% set ns.seen = ns.seen + [x] %}{{ x }}{% endfor %}"),
            "12");
}

TEST(JinjaScopeTest, WithAndSetBlocksHaveScopesOfTheirOwn) {
  EXPECT_EQ(Render("{% with a = 1 %}{% set b = a %}{{ b }}{% endwith %}[{{ a }}{{ b }}]"), "1[]");
  EXPECT_EQ(Render("{% set t %}{% set x = 1 %}{{ x }}{% endset %}{{ t }}[{{ x }}]"), "1[]");
  EXPECT_EQ(Render("{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}[{{ x }}]"), "1[]");
}

}  // namespace
}  // namespace kvd
