#include "text/chat/named_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/text/chat/chat_case.h"

namespace kvd {
namespace {

using test::Formatted;
using test::TextsWith;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Apply(std::string_view name, bool add_assistant = true,
                  std::string_view eos_text = "</s>") {
  ChatTexts texts = TextsWith("");
  texts.tokens = {{"eos", std::string(eos_text)}};
  return Formatted(
      texts, Concat(R"({"messages": [
      {"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hello"},
      {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Who?"},
      {"role": "assistant", "content": " Me \n"}, {"role": "user", "content": "So"}],
      "chat_template": ")",
                    name, R"(", "add_generation_prompt": )", add_assistant ? "true}" : "false}"));
}

TEST(NamedFormatsTest, ChatmlFramesEveryMessage) {
  EXPECT_EQ(
      Apply("chatml"),
      "<|im_start|>system\nBe "
      "brief<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>\n"
      "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n Me "
      "\n<|im_end|>\n<|im_start|>user\nSo<|im_end|>\n"
      "<|im_start|>assistant\n");
}

TEST(NamedFormatsTest, Llama2PutsTheSystemTextBeforeTheFirstMessage) {
  EXPECT_EQ(Apply("llama2"),
            "[INST] Be brief\nHello [/INST]Hi</s>[INST] Who? [/INST] Me \n</s>[INST] So [/INST]");
}

TEST(NamedFormatsTest, Llama2SysMarksTheSystemText) {
  EXPECT_EQ(Apply("llama2-sys"),
            "[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHello [/INST]Hi</s>[INST] Who? [/INST] Me "
            "\n</s>[INST] So [/INST]");
}

TEST(NamedFormatsTest, Llama2SysBosBeginsEveryTurnExceptTheFirstWithBos) {
  EXPECT_EQ(Apply("llama2-sys-bos"),
            "[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHello [/INST]Hi</s><s>[INST] Who? [/INST] Me "
            "\n</s><s>[INST] So [/INST]");
}

TEST(NamedFormatsTest, Llama2SysStripTrimsTheMessages) {
  EXPECT_EQ(Apply("llama2-sys-strip"),
            "[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHello [/INST]Hi</s>[INST] Who? "
            "[/INST]Me</s>[INST] So [/INST]");
}

TEST(NamedFormatsTest, Llama3TrimsTheMessages) {
  EXPECT_EQ(Apply("llama3"),
            "<|start_header_id|>system<|end_header_id|>\n\nBe "
            "brief<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
            "Hello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHi<|eot_id|><|start_"
            "header_id|>user"
            "<|end_header_id|>\n\nWho?<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
            "\n\nMe<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nSo<|eot_id|><|start_header_id|>assistant<|"
            "end_header_id|>\n\n");
}

TEST(NamedFormatsTest, TheMistralVersionsDifferInSpacesAndTrimming) {
  EXPECT_EQ(
      Apply("mistral-v1"),
      " [INST] Be brief\n\nHello [/INST] Hi</s> [INST] Who? [/INST]  Me \n</s> [INST] So [/INST]");
  EXPECT_EQ(Apply("mistral-v3"),
            "[INST] Be brief\n\nHello[/INST] Hi</s>[INST] Who?[/INST] Me</s>[INST] So[/INST]");
  EXPECT_EQ(Apply("mistral-v3-tekken"),
            "[INST]Be brief\n\nHello[/INST]Hi</s>[INST]Who?[/INST] Me \n</s>[INST]So[/INST]");
  EXPECT_EQ(Apply("mistral-v7"),
            "[SYSTEM_PROMPT] Be brief[/SYSTEM_PROMPT][INST] Hello[/INST] Hi</s>[INST] Who?[/INST]  "
            "Me \n</s>[INST] So[/INST]");
  EXPECT_EQ(Apply("mistral-v7-tekken"),
            "[SYSTEM_PROMPT]Be brief[/SYSTEM_PROMPT][INST]Hello[/INST]Hi</s>[INST]Who?[/INST] Me "
            "\n</s>[INST]So[/INST]");
}

TEST(NamedFormatsTest, ZephyrEndsTurnsWithItsEndOfText) {
  EXPECT_EQ(Apply("zephyr"),
            "<|system|>\nBe "
            "brief<|endoftext|>\n<|user|>\nHello<|endoftext|>\n<|assistant|>\nHi<|endoftext|>\n"
            "<|user|>\nWho?<|endoftext|>\n<|assistant|>\n Me "
            "\n<|endoftext|>\n<|user|>\nSo<|endoftext|>\n<|assistant|>\n");
  EXPECT_EQ(Apply("zephyr-eos", false, "[E]"),
            "<|system|>\nBe brief[E]\n<|user|>\nHello[E]\n<|assistant|>\nHi[E]\n<|user|>\nWho?[E]\n"
            "<|assistant|>\n Me \n[E]\n<|user|>\nSo[E]\n");
}

TEST(NamedFormatsTest, GemmaGivesTheSystemTextToTheUserAndCallsTheAssistantModel) {
  EXPECT_EQ(
      Apply("gemma"),
      "<start_of_turn>user\nBe brief\n\nHello<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n"
      "<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\nMe<end_of_turn>\n"
      "<start_of_turn>user\nSo<end_of_turn>\n<start_of_turn>model\n");
}

TEST(NamedFormatsTest, Phi3WritesLineEndsAndNotebookDoesNot) {
  EXPECT_EQ(
      Apply("phi3"),
      "<|system|>\nBe "
      "brief<|end|>\n<|user|>\nHello<|end|>\n<|assistant|>\nHi<|end|>\n<|user|>\nWho?<|end|>\n"
      "<|assistant|>\n Me \n<|end|>\n<|user|>\nSo<|end|>\n<|assistant|>\n");
  EXPECT_EQ(Apply("notebook"),
            "<|system|>Be brief<|end|><|user|>Hello<|end|><|assistant|>Hi<|end|><|user|>Who?<|end|>"
            "<|assistant|> Me \n<|end|><|user|>So<|end|><|assistant|>");
}

TEST(NamedFormatsTest, AMessageWithoutContentPrintsNoContent) {
  for (const std::string_view name : NamedFormats()) {
    EXPECT_THAT(Formatted(TextsWith(""), Concat(R"({"messages": [{"role": "user", "content": "Go"},
        {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "id": "1",
         "function": {"name": "f", "arguments": "{}"}}]}, {"role": "user", "content": "On"}],
        "chat_template": ")",
                                                name, "\"}")),
                Not(HasSubstr("None")))
        << name;
  }
}

TEST(NamedFormatsTest, TheTurnOfTheAssistantIsBegunOnlyOnRequest) {
  const auto begun = [](std::string_view name) {
    return Formatted(TextsWith(""), Concat(R"({"messages": [{"role": "user", "content": "Hello"}],
        "add_generation_prompt": false, "chat_template": ")",
                                           name, "\"}"));
  };
  EXPECT_EQ(begun("chatml"), "<|im_start|>user\nHello<|im_end|>\n");
  EXPECT_EQ(begun("gemma"), "<start_of_turn>user\nHello<end_of_turn>\n");
  EXPECT_EQ(begun("notebook"), "<|user|>Hello<|end|>");
}

TEST(NamedFormatsTest, EveryNameHasAProgramThatFormatsAChat) {
  for (const std::string_view name : NamedFormats()) {
    EXPECT_THAT(Apply(name), AllOf(HasSubstr("Who?"), HasSubstr("So"))) << name;
    const bool drops_system = name == "yandex";
    EXPECT_EQ(Apply(name).find("Be brief") == std::string::npos, drops_system) << name;
  }
  EXPECT_FALSE(NamedFormatText("ChatML").has_value()) << "names are case-sensitive";
}

}  // namespace
}  // namespace kvd
