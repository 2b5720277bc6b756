// POST /v1/chat/completions with a real daemon over the bundled model.
#include <gmock/gmock.h>

#include "http/api/openai_chat.h"
#include "tests/http/api/support/event_list.h"
#include "tests/http/api/support/route_fixture.h"
#include "text/json.h"

namespace kvd::http {
namespace {

using test::EventsOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTools[] =
    R"("tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object",)"
    R"("properties":{"what":{"enum":["kite"]}},"required":["what"]}}}])";

class ChatRoutesTest : public test::RouteTest {
 protected:
  void SetUp() override {
    settings_.defaults.seed = 42;
    settings_.slot_count = 2;
    AddOpenAiChatRoutes(gateway_, router_);
  }
  Reply Ask(std::string members) {
    return Post("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"Where is the kite?"}],)" +
                    std::move(members) + "}");
  }
  Value Chat(std::string members) { return ValueOf(Ask(std::move(members))); }
  static const Value& ChoiceOf(const Value& reply, std::size_t index = 0) {
    return At(reply, "choices").items().at(index);
  }
  static Value At(const Value& value, std::string_view path) { return test::At(value, path); }
};

// Template of a model that calls functions as Hermes does, and reasons.
constexpr char kHermes[] =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{%- if tools %}<tool_call></tool_call>{% endif %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking %}<think>\n{% endif %}{% endif %}{#- </think> #}";

TEST_F(ChatRoutesTest, AReplyHasAMessageUsageAndTimings) {
  Start();
  const Value reply = Chat(R"("max_tokens":4)");
  EXPECT_THAT(At(reply, "id").view(), StartsWith("chatcmpl-"));
  EXPECT_THAT(At(reply, "system_fingerprint").view(), StartsWith("b"));
  EXPECT_EQ(At(reply, "object").view(), "chat.completion");
  EXPECT_EQ(At(ChoiceOf(reply), "message.role").view(), "assistant");
  EXPECT_EQ(At(ChoiceOf(reply), "finish_reason").view(), "length");
  EXPECT_EQ(At(reply, "usage.completion_tokens").integer(), 4);
  EXPECT_EQ(At(reply, "timings.predicted_n").integer(), 4);
  const std::int64_t prompt = At(reply, "usage.prompt_tokens").integer();
  const Value again = Chat(R"("max_tokens":4)");
  EXPECT_EQ(At(again, "usage.prompt_tokens_details.cached_tokens").integer(), prompt - 1);
  const Value counted =
      ValueOf(Post("/v1/chat/completions/input_tokens",
                   R"({"messages":[{"role":"user","content":"Where is the kite?"}]})"));
  EXPECT_EQ(At(counted, "input_tokens").integer(), prompt);
}

TEST_F(ChatRoutesTest, AStreamNamesTheRoleOnceAndEndsWithDone) {
  Start();
  const Value whole = Chat(R"("max_tokens":8)");
  const Reply stream = Ask(R"("max_tokens":8,"stream":true)");
  EXPECT_THAT(stream.body, ::testing::EndsWith("data: [DONE]\n\n"));
  const std::vector<Value> events = EventsOf(stream.body);
  ASSERT_GE(events.size(), 3u);
  std::string content;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(At(events[i], "id").view(), At(events[0], "id").view());
    const Value delta = At(ChoiceOf(events[i]), "delta");
    if (i == 0) {
      EXPECT_EQ(WriteJson(delta), R"({"role": "assistant", "content": null})");
    } else if (i + 1 == events.size()) {
      EXPECT_TRUE(delta.dict().empty());
      EXPECT_EQ(At(ChoiceOf(events[i]), "finish_reason").view(),
                At(ChoiceOf(whole), "finish_reason").view());
      EXPECT_EQ(At(events[i], "timings.predicted_n").integer(),
                At(whole, "usage.completion_tokens").integer());
    } else {
      EXPECT_FALSE(At(delta, "content").view().empty());
      content += At(delta, "content").view();
    }
  }
  EXPECT_EQ(content, At(ChoiceOf(whole), "message.content").view());
}

TEST_F(ChatRoutesTest, UsageComesInAChunkWithoutChoices) {
  Start();
  const std::vector<Value> events = EventsOf(
      Ask(R"("max_tokens":3,"n":2,"stream":true,"stream_options":{"include_usage":true})").body);
  EXPECT_TRUE(At(events.back(), "choices").items().empty());
  EXPECT_EQ(At(events.back(), "usage.completion_tokens").integer(), 6);
  EXPECT_GE(At(events.back(), "timings.predicted_per_second").number(), 0);
  std::size_t ends = 0;
  for (const Value& event : events) {
    if (At(event, "choices").items().empty()) continue;
    if (!At(ChoiceOf(event), "finish_reason").is_none()) ++ends;
  }
  EXPECT_EQ(ends, 2u);
}

TEST_F(ChatRoutesTest, SeveralChoicesShareOnePrompt) {
  Start();
  const Value reply = Chat(R"("max_tokens":6,"n":3,"temperature":9,"samplers":["temperature"])");
  ASSERT_EQ(At(reply, "choices").items().size(), 3u);
  EXPECT_EQ(At(ChoiceOf(reply, 2), "index").integer(), 2);
  EXPECT_NE(At(ChoiceOf(reply, 0), "message.content").view(),
            At(ChoiceOf(reply, 1), "message.content").view());
  EXPECT_LE(At(reply, "usage.completion_tokens").integer(), 18);
}

TEST_F(ChatRoutesTest, ARequiredCallIsMadeAndStreamed) {
  settings_.chat_template = kHermes;
  Start();
  const std::string members =
      std::string(kTools) + R"(,"tool_choice":"required","parallel_tool_calls":false,)"
                            R"("chat_template_kwargs":{"enable_thinking":false},"max_tokens":200)";
  const Value reply = Chat(members);
  EXPECT_EQ(At(ChoiceOf(reply), "finish_reason").view(), "tool_calls");
  const Value call = At(ChoiceOf(reply), "message.tool_calls").items().at(0);
  EXPECT_EQ(At(call, "function.name").view(), "find");
  const auto arguments = ParseJson(At(call, "function.arguments").view());
  ASSERT_TRUE(arguments.has_value());
  EXPECT_EQ(At(*arguments, "what").view(), "kite");
  EXPECT_EQ(At(call, "id").view().size(), 9u);
  EXPECT_TRUE(At(ChoiceOf(reply), "message.content").is_none());
  std::string streamed;
  std::size_t names = 0;
  for (const Value& event : EventsOf(Ask(members + R"(,"stream":true)").body)) {
    const Value delta = At(ChoiceOf(event), "delta");
    const Value* const calls = delta.dict().Find("tool_calls");
    if (calls == nullptr) continue;
    const Value& part = calls->items()[0];
    if (At(part, "function").dict().Find("name") != nullptr) {
      ++names;
      EXPECT_EQ(At(part, "type").view(), "function");
    }
    streamed += At(part, "function.arguments").view();
  }
  EXPECT_EQ(names, 1u);
  EXPECT_EQ(streamed, At(call, "function.arguments").view());
}

TEST_F(ChatRoutesTest, AResponseFormatHoldsBehindReasoning) {
  settings_.chat_template = kHermes;
  Start();
  const std::string format = R"("response_format":{"type":"json_schema","json_schema":)"
                             R"({"schema":{"const":"kite"}}},"max_tokens":100)";
  const Value plain = Chat(format + R"(,"chat_template_kwargs":{"enable_thinking":false})");
  EXPECT_EQ(At(ChoiceOf(plain), "message.content").view(), "\"kite\"");
  const Value object = Chat(R"("response_format":{"type":"json_object"},"max_tokens":1,)"
                            R"("chat_template_kwargs":{"enable_thinking":false})");
  EXPECT_THAT(At(ChoiceOf(object), "message.content").view(), StartsWith("{"));
  // The prompt ends inside reasoning, which the budget of tokens does not let the model leave.
  const Value thinking = Chat(format + R"(,"chat_template_kwargs":{"enable_thinking":true})");
  const std::string_view content = At(ChoiceOf(thinking), "message.content").view();
  EXPECT_TRUE(content.empty() || content == "\"kite\"") << content;
}

TEST_F(ChatRoutesTest, ABudgetEndsTheReasoningAfterItsTokens) {
  settings_.chat_template = kHermes;
  Start();
  const std::string thinking = R"("chat_template_kwargs":{"enable_thinking":true},"seed":5,)"
                               R"("ignore_eos":true,)";
  const auto reasoning_of = [](const Value& reply) {
    return std::string(At(ChoiceOf(reply), "message.reasoning_content").view());
  };
  const std::string first = reasoning_of(Chat(thinking + R"("max_tokens":6)"));
  EXPECT_NE(first, "");
  const std::string budget = thinking + R"("max_tokens":30,"reasoning_budget_tokens":6)";
  const std::string message = R"(,"reasoning_budget_message":" and so")";
  const Value reply = Chat(budget + message);
  EXPECT_EQ(reasoning_of(reply), first + " and so");
  EXPECT_NE(At(ChoiceOf(reply), "message.content").view(), "");
  EXPECT_EQ(At(ChoiceOf(reply), "finish_reason").view(), "length");
  EXPECT_EQ(At(reply, "usage.completion_tokens").integer(), 30);
  EXPECT_EQ(At(reply, "timings.predicted_n").integer(), 30);
  // Without a message, and in a stream.
  EXPECT_EQ(reasoning_of(Chat(budget)), first);
  std::string streamed, content;
  for (const Value& event : EventsOf(Ask(budget + message + R"(,"stream":true)").body)) {
    const Value delta = At(ChoiceOf(event), "delta");
    const Value* const part = delta.dict().Find("reasoning_content");
    if (part != nullptr) streamed += part->view();
    const Value* const text = delta.dict().Find("content");
    if (text != nullptr && text->is_string()) content += text->view();
  }
  EXPECT_EQ(streamed, first + " and so");
  EXPECT_EQ(content, At(ChoiceOf(reply), "message.content").view());
  // A limit of the answer that ends within the forced text cuts it.
  const Value cut = Chat(thinking + R"("max_tokens":7,"reasoning_budget_tokens":6)" + message);
  EXPECT_EQ(At(cut, "usage.completion_tokens").integer(), 7);
  EXPECT_THAT(reasoning_of(cut), StartsWith(first));
  EXPECT_EQ(At(ChoiceOf(cut), "message.content").view(), "");
}

TEST_F(ChatRoutesTest, TheCommandLinesBudgetHoldsForEveryAnswerThatNamesNone) {
  settings_.chat_template = kHermes;
  settings_.reasoning_budget = 3;
  settings_.budget_message = " and so";
  Start();
  const Value reply = Chat(R"("max_tokens":30,"n":2,"ignore_eos":true)");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(At(ChoiceOf(reply, i), "message.reasoning_content").view(),
                ::testing::EndsWith(" and so"));
  }
  const Value none = Chat(R"("max_tokens":8,"ignore_eos":true,"thinking_budget_tokens":0)");
  EXPECT_EQ(At(ChoiceOf(none), "message").dict().Find("reasoning_content"), nullptr);
  EXPECT_NE(At(ChoiceOf(none), "message.content").view(), "");
  EXPECT_THAT(ErrorOf(Ask(R"("reasoning_budget_tokens":-2)")),
              StartsWith("400 reasoning_budget_tokens: "));
  EXPECT_THAT(ErrorOf(Ask(R"("reasoning_budget_message":5)")),
              StartsWith("400 reasoning_budget_message: "));
}

TEST_F(ChatRoutesTest, ABudgetCountsReasoningThatTheAnswerBegins) {
  settings_.chat_template = kHermes;
  Start();
  // The grammar lets the answer reason as long as it wants.
  const Value reply = Chat(R"("chat_template_kwargs":{"enable_thinking":false},"max_tokens":60,)"
                           R"("reasoning_budget_tokens":4,)"
                           R"("grammar":"root ::= \"<think>\" [a-z ]+ \"</think>\" \"kite\"")");
  EXPECT_EQ(At(ChoiceOf(reply), "message.content").view(), "kite");
  EXPECT_NE(At(ChoiceOf(reply), "message.reasoning_content").view(), "");
  EXPECT_EQ(At(ChoiceOf(reply), "finish_reason").view(), "stop");
}

TEST_F(ChatRoutesTest, ASchemaHoldsBehindReasoningThatABudgetHasEnded) {
  settings_.chat_template = kHermes;
  Start();
  const Value reply = Chat(R"("response_format":{"type":"json_schema","json_schema":)"
                           R"({"schema":{"const":"kite"}}},"max_tokens":60,)"
                           R"("reasoning_budget_tokens":4)");
  EXPECT_EQ(At(ChoiceOf(reply), "message.content").view(), "\"kite\"");
  EXPECT_EQ(At(ChoiceOf(reply), "finish_reason").view(), "stop");
}

TEST_F(ChatRoutesTest, TheCommandLinesGrammarHoldsAnswersWithoutToolsOrAGrammarOfTheirOwn) {
  settings_.defaults.grammar = R"(root ::= "kite" | "drum")";
  settings_.chat_template = kHermes;
  Start();
  const std::string plain = R"("chat_template_kwargs":{"enable_thinking":false},"max_tokens":60)";
  const auto content_of = [this](const std::string& members) {
    return std::string(At(ChoiceOf(Chat(members)), "message.content").view());
  };
  EXPECT_THAT(content_of(plain), ::testing::AnyOf("kite", "drum"));
  EXPECT_EQ(content_of(plain + R"(,"grammar":"root ::= \"own\"")"), "own");
  EXPECT_EQ(content_of(plain + R"(,"response_format":{"type":"json_schema","json_schema":)"
                               R"({"schema":{"const":1}}})"),
            "1");
  const Value call = Chat(plain + "," + kTools + R"(,"tool_choice":"required")");
  EXPECT_EQ(At(ChoiceOf(call), "finish_reason").view(), "tool_calls");
}

TEST_F(ChatRoutesTest, TheCommandLinesSchemaHoldsAnswersWithoutOneOfTheirOwn) {
  settings_.defaults.json_schema = *ParseJson(R"({"const":"kite"})");
  Start();
  EXPECT_EQ(At(ChoiceOf(Chat(R"("max_tokens":60)")), "message.content").view(), "\"kite\"");
  const Value own = Chat(R"("max_tokens":60,"json_schema":{"const":7})");
  EXPECT_EQ(At(ChoiceOf(own), "message.content").view(), "7");
}

TEST_F(ChatRoutesTest, WithoutJinjaThereAreNoTools) {
  settings_.uses_jinja = false;
  Start();
  EXPECT_THAT(ErrorOf(Ask(kTools)), StartsWith("400 tools: not with --no-jinja"));
  EXPECT_EQ(Ask(R"("max_tokens":1,"tools":[])").status, 200);
}

TEST_F(ChatRoutesTest, AnEmbedderThatCanAnswerAnswers) {
  settings_.is_embedder = true;
  Start();
  EXPECT_EQ(Ask(R"("max_tokens":1)").status, 200);
}

TEST_F(ChatRoutesTest, LogprobsHaveTheTextOfTheAnswer) {
  Start();
  const Value reply = Chat(R"("max_tokens":5,"temperature":0,"logprobs":true,"top_logprobs":3)");
  std::string text;
  for (const Value& token : At(ChoiceOf(reply), "logprobs.content").items()) {
    text += At(token, "token").view();
    EXPECT_EQ(At(token, "top_logprobs").items().size(), 3u);
  }
  EXPECT_EQ(text, At(ChoiceOf(reply), "message.content").view());
}

TEST_F(ChatRoutesTest, AnAssistantsLastMessageIsContinued) {
  settings_.chat_template = kHermes;
  Start();
  const std::string tail = R"(,"max_tokens":1,"verbose":true})";
  const auto prompt_of = [&](const std::string& content) {
    const Value reply = ValueOf(
        Post("/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":)" +
                 content + "}]" + tail));
    return std::string(At(reply, "__verbose.prompt").view());
  };
  EXPECT_THAT(prompt_of("\"Well\""), ::testing::EndsWith("assistant\nWell"));
  EXPECT_THAT(prompt_of(R"([{"type":"text","text":"We"},{"type":"text","text":"ll"}])"),
              ::testing::EndsWith("assistant\nWe\n\nll"));
}

TEST_F(ChatRoutesTest, ErrorsNameTheField) {
  Start();
  const auto error = [&](const std::string& messages, const std::string& rest = "") {
    return ErrorOf(Post("/v1/chat/completions", "{\"messages\":" + messages + rest + "}"));
  };
  EXPECT_THAT(error("null"), StartsWith("400 'messages'"));
  EXPECT_THAT(error("\"string\""), StartsWith("400 messages: "));
  EXPECT_THAT(error("[123]"), StartsWith("400 messages[0]: "));
  EXPECT_THAT(error("[{}]"), StartsWith("400 messages[0].role: "));
  EXPECT_THAT(error(R"([{"role":"system","content":123}])"),
              StartsWith("400 messages[0].content: "));
  const std::string hi = R"([{"role":"user","content":"Hi"}])";
  EXPECT_THAT(error(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
                    R"({"role":"assistant","content":"c"}])"),
              StartsWith("400 messages: two or more"));
  EXPECT_THAT(error(hi, R"(,"top_logprobs":2)"), StartsWith("400 top_logprobs: "));
  EXPECT_THAT(error(hi, R"(,"tool_choice":"required")"), StartsWith("400 tool_choice: "));
  EXPECT_THAT(error(hi, R"(,"grammar":"root ::= (")"), StartsWith("400 grammar: "));
  EXPECT_THAT(error(hi, std::string(",") + kTools + R"(,"grammar":"root ::= \"a\"")"),
              StartsWith("400 grammar: not together with tools"));
  EXPECT_THAT(error(hi, R"(,"response_format":{"type":"json_object","schema":{"type":"hiccup"}})"),
              StartsWith("400 response_format: #/type"));
  EXPECT_THAT(error(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
              HasSubstr("image input is not supported"));
}

}  // namespace
}  // namespace kvd::http
