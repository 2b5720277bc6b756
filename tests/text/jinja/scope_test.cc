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
