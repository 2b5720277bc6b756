// What Jinja2 or Python has and this interpreter lacks is refused by name.
#include <gtest/gtest.h>

#include <string>

#include "tests/text/jinja/render.h"

namespace kvd {
namespace {

using jinja::Template;

void ExpectUnsupported(const std::string& source, const std::string& part) {
  const auto parsed = Template::Parse(source);
  const Result<std::string> text =
      parsed ? parsed->Render(Value::Of(Dict())) : std::unexpected(parsed.error());
  ASSERT_FALSE(text.has_value()) << source;
  EXPECT_EQ(text.error().code, Code::kUnsupported) << text.error().message;
  EXPECT_NE(text.error().message.find(part), std::string::npos) << text.error().message;
}

TEST(JinjaUnsupportedTest, IncludingOtherTemplatesIsRefused) {
  for (const char* tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'"}) {
    ExpectUnsupported("{% " + std::string(tag) + " %}", "a template cannot use other templates");
  }
}

TEST(JinjaUnsupportedTest, AutoescapeIsRefused) {
  ExpectUnsupported("{% autoescape true %}{% endautoescape %}", "autoescape: only false");
}

TEST(JinjaUnsupportedTest, IntegersOfMoreThan64BitsAreRefused) {
  for (const char* source :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "2 ** 63", "9223372036854775807 * 2",
        "'9223372036854775808' | int", "1e30 | int", "(-9223372036854775807 - 1) // -1"}) {
    ExpectUnsupported("{{ " + std::string(source) + " }}", "an integer exceeds 64 bits");
  }
}

TEST(JinjaUnsupportedTest, ComplexNumbersAreRefused) {
  ExpectUnsupported("{{ (-8) ** 0.5 }}", "complex numbers");
}

TEST(JinjaUnsupportedTest, FormatFieldsOtherThanANameOrANumberAreRefused) {
  for (const char* field : {"{:>5}", "{0.a}", "{0[a]}", "{!r}", "{:{w}}"}) {
    ExpectUnsupported("{{ '" + std::string(field) + "'.format(1, w=2) }}",
                      "is more than a name or a number");
  }
}

TEST(JinjaUnsupportedTest, MethodsThatChangeAListAndLargeIndentsAreRefused) {
  ExpectUnsupported("{{ [1].pop() }}", "pop: not supported");
  ExpectUnsupported("{{ [1].clear() }}", "clear: not supported");
  ExpectUnsupported("{{ [1] | tojson(indent=101) }}", "tojson: an indent of more than 100");
}

}  // namespace
}  // namespace kvd
