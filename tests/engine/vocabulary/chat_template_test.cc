#include "engine/vocabulary/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

using testing::HasSubstr;

const std::vector<ChatMessage> kChat = {
    {"system", "Be brief"}, {"user", "Hello"},       {"assistant", "Hi"},
    {"user", "Who?"},       {"assistant", " Me \n"}, {"user", "So"},
};

std::string Apply(ChatTemplate kind, bool add_assistant = true,
                  std::string_view eos_text = "</s>") {
  Result<std::string> text = ApplyChatTemplate(kind, kChat, add_assistant, eos_text);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text ? *text : std::string();
}

TEST(ChatTemplateTest, ChatmlFramesEveryMessage) {
  EXPECT_EQ(
      Apply(ChatTemplate::kChatml),
      "<|im_start|>system\nBe "
      "brief<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>\n"
      "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n Me "
      "\n<|im_end|>\n<|im_start|>user\nSo<|im_end|>\n"
      "<|im_start|>assistant\n");
}

TEST(ChatTemplateTest, Llama2PutsTheSystemTextBeforeTheFirstMessage) {
  EXPECT_EQ(Apply(ChatTemplate::kLlama2),
            "[INST] Be brief\nHello [/INST]Hi</s>[INST] Who? [/INST] Me \n</s>[INST] So [/INST]");
}

TEST(ChatTemplateTest, Llama2SysMarksTheSystemText) {
  EXPECT_EQ(Apply(ChatTemplate::kLlama2Sys),
            "[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHello [/INST]Hi</s>[INST] Who? [/INST] Me "
            "\n</s>[INST] So [/INST]");
}

TEST(ChatTemplateTest, Llama2SysBosBeginsEveryTurnButTheFirstWithBos) {
  EXPECT_EQ(Apply(ChatTemplate::kLlama2SysBos),
            "[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHello [/INST]Hi</s><s>[INST] Who? [/INST] Me "
            "\n</s><s>[INST] So [/INST]");
}

TEST(ChatTemplateTest, Llama2SysStripTrimsTheMessages) {
  EXPECT_EQ(Apply(ChatTemplate::kLlama2SysStrip),
            "[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHello [/INST]Hi</s>[INST] Who? "
            "[/INST]Me</s>[INST] So [/INST]");
}

TEST(ChatTemplateTest, Llama3TrimsTheMessages) {
  EXPECT_EQ(Apply(ChatTemplate::kLlama3),
            "<|start_header_id|>system<|end_header_id|>\n\nBe "
            "brief<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
            "Hello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHi<|eot_id|><|start_"
            "header_id|>user"
            "<|end_header_id|>\n\nWho?<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
            "\n\nMe<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nSo<|eot_id|><|start_header_id|>assistant<|"
            "end_header_id|>\n\n");
}

TEST(ChatTemplateTest, TheMistralVersionsDifferInSpacesAndTrimming) {
  EXPECT_EQ(
      Apply(ChatTemplate::kMistralV1),
      " [INST] Be brief\n\nHello [/INST] Hi</s> [INST] Who? [/INST]  Me \n</s> [INST] So [/INST]");
  EXPECT_EQ(Apply(ChatTemplate::kMistralV3),
            "[INST] Be brief\n\nHello[/INST] Hi</s>[INST] Who?[/INST] Me</s>[INST] So[/INST]");
  EXPECT_EQ(Apply(ChatTemplate::kMistralV3Tekken),
            "[INST]Be brief\n\nHello[/INST]Hi</s>[INST]Who?[/INST] Me \n</s>[INST]So[/INST]");
  EXPECT_EQ(Apply(ChatTemplate::kMistralV7),
            "[SYSTEM_PROMPT] Be brief[/SYSTEM_PROMPT][INST] Hello[/INST] Hi</s>[INST] Who?[/INST]  "
            "Me \n</s>[INST] So[/INST]");
  EXPECT_EQ(Apply(ChatTemplate::kMistralV7Tekken),
            "[SYSTEM_PROMPT]Be brief[/SYSTEM_PROMPT][INST]Hello[/INST]Hi</s>[INST]Who?[/INST] Me "
            "\n</s>[INST]So[/INST]");
}

TEST(ChatTemplateTest, ZephyrEndsTurnsWithItsEndOfText) {
  EXPECT_EQ(Apply(ChatTemplate::kZephyr),
            "<|system|>\nBe "
            "brief<|endoftext|>\n<|user|>\nHello<|endoftext|>\n<|assistant|>\nHi<|endoftext|>\n"
            "<|user|>\nWho?<|endoftext|>\n<|assistant|>\n Me "
            "\n<|endoftext|>\n<|user|>\nSo<|endoftext|>\n<|assistant|>\n");
  EXPECT_EQ(Apply(ChatTemplate::kZephyrEos, false, "[E]"),
            "<|system|>\nBe brief[E]\n<|user|>\nHello[E]\n<|assistant|>\nHi[E]\n<|user|>\nWho?[E]\n"
            "<|assistant|>\n Me \n[E]\n<|user|>\nSo[E]\n");
}

TEST(ChatTemplateTest, GemmaGivesTheSystemTextToTheUserAndCallsTheAssistantModel) {
  EXPECT_EQ(
      Apply(ChatTemplate::kGemma),
      "<start_of_turn>user\nBe brief\n\nHello<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n"
      "<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\nMe<end_of_turn>\n"
      "<start_of_turn>user\nSo<end_of_turn>\n<start_of_turn>model\n");
}

TEST(ChatTemplateTest, Phi3WritesLineEndsAndNotebookNone) {
  EXPECT_EQ(
      Apply(ChatTemplate::kPhi3),
      "<|system|>\nBe "
      "brief<|end|>\n<|user|>\nHello<|end|>\n<|assistant|>\nHi<|end|>\n<|user|>\nWho?<|end|>\n"
      "<|assistant|>\n Me \n<|end|>\n<|user|>\nSo<|end|>\n<|assistant|>\n");
  EXPECT_EQ(Apply(ChatTemplate::kNotebook),
            "<|system|>Be brief<|end|><|user|>Hello<|end|><|assistant|>Hi<|end|><|user|>Who?<|end|>"
            "<|assistant|> Me \n<|end|><|user|>So<|end|><|assistant|>");
}

TEST(ChatTemplateTest, TheAssistantsTurnIsBegunOnlyOnDemand) {
  const ChatMessage one[] = {{"user", "Hello"}};
  EXPECT_EQ(*ApplyChatTemplate(ChatTemplate::kChatml, one, false),
            "<|im_start|>user\nHello<|im_end|>\n");
  EXPECT_EQ(*ApplyChatTemplate(ChatTemplate::kGemma, one, false),
            "<start_of_turn>user\nHello<end_of_turn>\n");
  EXPECT_EQ(*ApplyChatTemplate(ChatTemplate::kNotebook, one, false), "<|user|>Hello<|end|>");
}

TEST(ChatTemplateTest, MessagesThatNoTemplateKnowsAreNamed) {
  Result<std::string> none = ApplyChatTemplate(ChatTemplate::kChatml, {}, true);
  EXPECT_EQ(none.error().code, Code::kInvalidArgument);
  EXPECT_THAT(none.error().message, HasSubstr("messages"));
  const ChatMessage wrong[] = {{"user", "a"}, {"wizard", "b"}};
  Result<std::string> unknown = ApplyChatTemplate(ChatTemplate::kGemma, wrong, true);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("messages[1].role: 'wizard'"));
}

TEST(ChatTemplateTest, ATemplateThatIsNotKnownIsNamed) {
  EXPECT_EQ(ApplyChatTemplate(ChatTemplate::kUnknown, kChat, true).error().code,
            Code::kUnsupported);
  Result<std::string> text = ApplyChatTemplateText("{{ my own }}", kChat, true);
  EXPECT_EQ(text.error().code, Code::kUnsupported);
  EXPECT_THAT(text.error().message, HasSubstr("{{ my own }}"));
  EXPECT_THAT(ApplyChatTemplateText("", kChat, true).error().message,
              HasSubstr("the model has none"));
  EXPECT_TRUE(ApplyChatTemplateText("chatml", kChat, true).has_value());
}

TEST(ChatTemplateTest, TemplatesAreRecognisedByTheirMarkers) {
  struct Case {
    ChatTemplate kind;
    std::string_view text;
  };
  for (const Case& one : {
           Case{ChatTemplate::kChatml,
                "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'}}"},
           Case{ChatTemplate::kUnknown, "{{'<|im_start|>system<|im_sep|>' + message['content']}}"},
           Case{ChatTemplate::kUnknown, "<|im_start|>User: <end_of_utterance>"},
           Case{ChatTemplate::kLlama2, "{{ '[INST] ' + message['content'] + ' [/INST]' }}"},
           Case{ChatTemplate::kLlama2Sys, "{{ '[INST] <<SYS>>' + system }}"},
           Case{ChatTemplate::kLlama2SysBos, "{{ bos_token + '[INST] ' + '<<SYS>>' }}"},
           Case{ChatTemplate::kLlama2SysStrip,
                "{{ '[INST] <<SYS>>' + content.strip() + ' [/INST]' }}"},
           Case{ChatTemplate::kMistralV1,
                "{{- ' [INST] ' + system_message + message['content'] }}"},
           Case{ChatTemplate::kMistralV3,
                "{{ '[AVAILABLE_TOOLS]' }}{{ \"[INST] \" + message['content'] }}"},
           Case{ChatTemplate::kMistralV3Tekken,
                "{{ '[AVAILABLE_TOOLS]' }}{{ \"[INST]\" + message['content'] }}"},
           Case{ChatTemplate::kMistralV7, "{{ '[SYSTEM_PROMPT] ' }}{{ '[INST] ' }}"},
           Case{ChatTemplate::kPhi3,
                "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + "
                "'\n'}}"},
           Case{ChatTemplate::kPhi3,
                "{{'<|' + message['role'] + '|>\\n' + content + '<|end|>\\n' }}{{ "
                "'<|assistant|>\\n' }}"},
           Case{ChatTemplate::kNotebook,
                "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
                "{% if add_generation_prompt %}<|assistant|>{% endif %}"},
           Case{ChatTemplate::kZephyr,
                "{{ '<|user|>\\n' + message['content'] + '<|endoftext|>' }}"},
           Case{ChatTemplate::kZephyrEos,
                "{{ '<|user|>\\n' + message['content'] + eos_token }}{{ '<|assistant|>' }}"},
           Case{ChatTemplate::kUnknown,
                "{{ '<|user|>\\n' + message['content'] }}{{ '<|assistant|>' + eos_token }}"},
           Case{ChatTemplate::kUnknown, "[gMASK]<sop><|user|><|assistant|>"},
           Case{ChatTemplate::kGemma, "{{ '<start_of_turn>' + role + '\\n' }}"},
           Case{ChatTemplate::kLlama3, "{{ '<|start_header_id|>' + role + '<|end_header_id|>' }}"},
           Case{ChatTemplate::kUnknown, ""},
       }) {
    EXPECT_EQ(ChatTemplateName(RecogniseChatTemplate(one.text)), ChatTemplateName(one.kind))
        << one.text;
  }
}

TEST(ChatTemplateTest, ATemplateMayBeGivenByItsName) {
  for (int kind = 1; kind <= static_cast<int>(ChatTemplate::kNotebook); ++kind) {
    std::string_view name = ChatTemplateName(static_cast<ChatTemplate>(kind));
    EXPECT_NE(name, "unknown") << kind;
    EXPECT_EQ(RecogniseChatTemplate(name), static_cast<ChatTemplate>(kind));
    EXPECT_TRUE(ApplyChatTemplate(static_cast<ChatTemplate>(kind), kChat, true).has_value())
        << name;
  }
  EXPECT_EQ(ChatTemplateName(ChatTemplate::kUnknown), "unknown");
}

TEST(ChatTemplateTest, ThePhi3VocabularysOwnTemplateIsRecognised) {
  auto vocabulary = LoadVocabulary("phi-3");
  if (vocabulary == nullptr)
    GTEST_SKIP() << VocabularyFolder() << ": the folder has no phi-3 vocabulary";
  EXPECT_EQ(RecogniseChatTemplate(vocabulary->chat_template()), ChatTemplate::kPhi3);
}

}  // namespace
}  // namespace kvd
