#include "text/chat/chat_formatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/text/chat/chat_case.h"

namespace kvd {
namespace {

using test::Formatted;
using test::TextsWith;
using testing::HasSubstr;

constexpr std::string_view kHello = R"([{"role": "user", "content": "hello"}])";

TEST(ChatFormatterTest, TheTemplateSeesTheChatAndTheSpecialTokens) {
  const ChatTexts texts = TextsWith(
      "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ messages[0].content }}"
      "{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ enable_thinking is defined }}");
  EXPECT_EQ(Formatted(texts, kHello), "<s></s>FalsehelloNoneNoneTrueFalse");
}

TEST(ChatFormatterTest, VariablesOfTheRequestReachTheTemplate) {
  const ChatTexts texts = TextsWith("{{ effort }} {{ enable_thinking }}");
  EXPECT_EQ(Formatted(texts, R"({"messages": [{"role": "user", "content": "a"}],
                                 "chat_template_kwargs": {"effort": "low"},
                                 "enable_thinking": false})"),
            "low False");
}

TEST(ChatFormatterTest, ATemplateWithTheVariableThinkingGetsTheChoiceByThatName) {
  const ChatTexts texts = TextsWith("{{ 'on' if thinking else 'off' }}");
  EXPECT_EQ(Formatted(texts, kHello), "off");
  EXPECT_EQ(Formatted(texts, R"({"messages": [{"role": "user", "content": "a"}],
                                 "enable_thinking": true})"),
            "on");
}

TEST(ChatFormatterTest, AModelWithoutATemplateUsesChatml) {
  const auto formatter = ChatFormatter::Create(ChatTexts(), "", false);
  ASSERT_TRUE(formatter.has_value()) << formatter.error().message;
  EXPECT_TRUE(formatter->is_fallback());
  EXPECT_EQ(Formatted(ChatTexts(), kHello),
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_FALSE(ChatFormatter::Create(ChatTexts(), "chatml", false)->is_fallback());
}

TEST(ChatFormatterTest, TheTemplateIsChosenByNameOrGivenAsText) {
  ChatTexts texts = TextsWith("own");
  texts.templates.emplace_back("tool_use", "with tools");
  texts.templates.emplace_back("rag", "with documents");
  const auto chosen = [&](std::string_view choice, bool has_tools = false) {
    const auto formatter = ChatFormatter::Create(texts, choice, has_tools);
    return formatter ? *formatter->Format(test::RequestOf(kHello)) : formatter.error().message;
  };
  EXPECT_EQ(chosen(""), "own");
  EXPECT_EQ(chosen("", true), "with tools");
  EXPECT_EQ(chosen("rag", true), "with documents");
  EXPECT_EQ(chosen("notebook"), "<|user|>hello<|end|><|assistant|>");
  EXPECT_EQ(chosen("{{ messages | length }}"), "1");
  EXPECT_THAT(chosen("zephyrr"),
              HasSubstr("no template is named 'zephyrr'; the names are tool_use"));
  EXPECT_EQ(ChatFormatter::Create(texts, "zephyrr", false).error().code, Code::kNotFound);
}

TEST(ChatFormatterTest, ErrorsOfTheTemplateAreThoseOfTheFormatter) {
  EXPECT_THAT(Formatted(TextsWith("\n{% if %}"), kHello), HasSubstr("line 2"));
  const ChatTexts refusing = TextsWith("{{ raise_exception('only users, please') }}");
  EXPECT_THAT(Formatted(refusing, kHello), HasSubstr("only users, please"));
}

TEST(ChatFormatterTest, AContinuedMessageIsTheEndOfTheText) {
  const ChatTexts texts = TextsWith(
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  EXPECT_EQ(Formatted(texts, R"({"continue_final_message": true, "messages": [
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": "two and "}]})"),
            "<user>one</user><assistant>two and ");
  EXPECT_THAT(Formatted(TextsWith("{{ messages[0].role }}"),
                        R"({"continue_final_message": true, "messages": [
                            {"role": "assistant", "content": "a"}]})"),
              HasSubstr("continue_final_message: the template does not print the content"));
}

}  // namespace
}  // namespace kvd
