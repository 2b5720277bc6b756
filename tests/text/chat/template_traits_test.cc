#include "text/chat/template_traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/text/chat/chat_case.h"
#include "text/json.h"

namespace kvd {
namespace {

using test::RequestOf;
using testing::StartsWith;

TemplateTraits TraitsOf(std::string_view program_text) {
  const auto program = jinja::Template::Parse(program_text);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return FindTraits(*program, program_text, Value::Of(Dict()));
}

std::string Adapted(std::string_view program_text, std::string_view messages) {
  const auto adapted = AdaptMessages(RequestOf(messages).messages, TraitsOf(program_text));
  return adapted ? *WriteJson(*adapted) : adapted.error().message;
}

constexpr std::string_view kCallLoop =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}";
constexpr std::string_view kEnd = "{% endfor %}{% endfor %}";

std::string CallTemplate(std::string_view call) {
  return std::string(kCallLoop) + std::string(call) + std::string(kEnd);
}

TEST(TemplateTraitsTest, TheFormatOfArgumentsIsFoundByRendering) {
  const TemplateTraits as_json = TraitsOf(CallTemplate("{{ c.function.arguments | tojson }}"));
  EXPECT_TRUE(as_json.reads_object_arguments);
  EXPECT_FALSE(as_json.reads_text_arguments) << "a string would be quoted a second time";
  const TemplateTraits as_text = TraitsOf(CallTemplate("{{ c.function.arguments }}"));
  EXPECT_FALSE(as_text.reads_object_arguments) << "an object would have Python's notation";
  EXPECT_TRUE(as_text.reads_text_arguments);
  const TemplateTraits both = TraitsOf(CallTemplate(
      "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | "
      "tojson }}"));
  EXPECT_TRUE(both.reads_object_arguments);
  EXPECT_TRUE(both.reads_text_arguments);

  const TemplateTraits own = TraitsOf(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}"
      "{% if a is string %}{{ a }}{% else %}{% for k, v in a.items() %}{{ k }}:<{{ v }}>{% endfor "
      "%}"
      "{% endif %}{% endfor %}{% endfor %}");
  EXPECT_TRUE(own.reads_object_arguments);
  EXPECT_FALSE(own.reads_text_arguments) << "a text would stand in another notation than an object";
  const TemplateTraits items = TraitsOf(
      CallTemplate("{% for k, v in c.function.arguments.items() %}<{{ k }}>{{ v }}{% endfor %}"));
  EXPECT_TRUE(items.reads_object_arguments);
  EXPECT_FALSE(items.reads_text_arguments);
}

TEST(TemplateTraitsTest, TheFormatOfContentIsFoundByRendering) {
  const TemplateTraits text = TraitsOf("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(text.reads_text_content);
  EXPECT_FALSE(text.reads_content_parts);
  const TemplateTraits parts = TraitsOf(
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}");
  EXPECT_FALSE(parts.reads_text_content);
  EXPECT_TRUE(parts.reads_content_parts);
}

TEST(TemplateTraitsTest, FieldsAreFoundByTheirNames) {
  EXPECT_EQ(TraitsOf("{{ messages[0].reasoning_content }}").reasoning_field, "reasoning_content");
  EXPECT_EQ(TraitsOf("{{ messages[0]['thinking'] }}").reasoning_field, "thinking");
  EXPECT_EQ(TraitsOf("{{ messages[0].my_reasoning }}").reasoning_field, "");
  EXPECT_EQ(TraitsOf("For internal reasoning. {{ messages[0].thinking }}").reasoning_field,
            "thinking");
  EXPECT_TRUE(TraitsOf("{% if thinking %}{% endif %}").names_it_thinking);
  EXPECT_FALSE(TraitsOf("{% if enable_thinking %}{{ thinking }}{% endif %}").names_it_thinking);
}

TEST(TemplateTraitsTest, MessagesGetTheFormatThatTheTemplateReads) {
  const std::string_view text_call =
      R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]}])";
  const std::string_view object_call =
      R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}])";
  const std::string as_json = CallTemplate("{{ c.function.arguments | tojson }}");
  const std::string as_text = CallTemplate("{{ c.function.arguments }}");
  EXPECT_EQ(Adapted(as_json, text_call), object_call);
  EXPECT_EQ(Adapted(as_json, object_call), object_call);
  EXPECT_EQ(Adapted(as_text, object_call), text_call);
  EXPECT_EQ(Adapted(as_text, text_call), text_call);
  EXPECT_THAT(
      Adapted(as_json,
              R"([{"role": "a", "tool_calls": [{"function": {"name": "f", "arguments": "x"}}]}])"),
      StartsWith("messages[0].tool_calls[0].function.arguments: not the text of an object: "));
  EXPECT_THAT(
      Adapted(
          as_json,
          R"([{"role": "a", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}])"),
      StartsWith("messages[0].tool_calls[0].function.arguments: not the text of an object"));
}

TEST(TemplateTraitsTest, ContentsGetTheFormatThatTheTemplateReads) {
  const std::string_view text = R"([{"role": "user", "content": "a\nb"}])";
  const std::string_view two_parts =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  EXPECT_EQ(Adapted("{% for m in messages %}{{ m.content }}{% endfor %}", two_parts), text);
  const std::string_view parts_only =
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}";
  EXPECT_EQ(Adapted(parts_only, two_parts), two_parts);
  EXPECT_EQ(Adapted(parts_only, text),
            R"([{"role": "user", "content": [{"type": "text", "text": "a\nb"}]}])");
}

TEST(TemplateTraitsTest, ReasoningGetsTheNameThatTheTemplateReads) {
  const std::string_view given = R"([{"role": "assistant", "reasoning": "why"}])";
  EXPECT_EQ(Adapted("{{ messages[0].reasoning_content }}", given),
            R"([{"role": "assistant", "reasoning": "why", "reasoning_content": "why"}])");
  EXPECT_EQ(Adapted("{{ messages[0].reasoning }}", given), given);
  EXPECT_EQ(Adapted("{{ messages[0].content }}", given), given);
}

}  // namespace
}  // namespace kvd
