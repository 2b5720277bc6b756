// POST /v1/chat/completions with a real daemon over the bundled model.
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/text.h"
#include "http/api/json_text.h"
#include "http/api/routes.h"
#include "tests/e2e/support/temporary_folder.h"
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
  GatewayReply Ask(std::string members) {
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

// Messages whose members are absent, null, empty or of a wrong type, as the only message and behind
// others, with and without the fields that continue them, for several templates.
TEST_F(ChatRoutesTest, MessagesWithoutContentAreAcceptedOnlyWhereAllowed) {
  AddTemplateRoutes(gateway_, router_);
  Start();
  const std::string call = R"("tool_calls":[{"function":{"name":"f","arguments":"{}"}}])";
  const std::string messages[] = {
      R"({"role":"assistant","content":null})",
      R"({"role":"assistant"})",
      R"({"role":"assistant","content":[]})",
      R"({"role":"assistant","content":""})",
      R"({"role":"assistant","content":7})",
      R"({"role":"assistant","content":null,"reasoning_content":"x"})",
      R"({"role":"assistant","content":null,)" + call + "}",
      R"({"role":"assistant",)" + call + "}",
      R"({"role":"user","content":null})",
      R"({"role":"tool","content":null})",
      R"({"role":"system"})",
      R"({"content":"a"})",
      R"({"role":"user","content":"a"},{"role":"assistant","content":null})",
      R"({"role":"user","content":"a"},{"role":"assistant"})"};
  for (const std::string_view chosen : {"", "llama2", "chatml", kHermes}) {
    for (const std::string& message : messages) {
      for (const char* const extra :
           {"", R"(,"continue_final_message":true)", R"(,"add_generation_prompt":false)"}) {
        SCOPED_TRACE(message + extra);
        const std::string text = R"({"max_tokens":1,"messages":[)" + message + "]" + extra +
                                 R"(,"chat_template":)" + JsonText(TextValue(chosen)) + "}";
        for (const char* const path :
             {"/v1/chat/completions", "/v1/chat/completions/input_tokens", "/apply-template"}) {
          const GatewayReply reply = Post(path, text);
          EXPECT_TRUE(reply.status == 200 || reply.status == 400) << reply.status << reply.body;
        }
      }
    }
  }
}

TEST_F(ChatRoutesTest, AnAssistantsMessageWithoutContentIsContinuedAsAnEmptyOne) {
  AddTemplateRoutes(gateway_, router_);
  settings_.chat_template = "chatml";
  Start();
  const auto prompt = [this](const std::string& message) {
    return std::string(
        At(ValueOf(Post("/apply-template", R"({"messages":[)" + message + "]}")), "prompt").view());
  };
  EXPECT_EQ(prompt(R"({"role":"assistant","content":null})"),
            prompt(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(prompt(R"({"role":"assistant"})"), "<|im_start|>assistant\n");
}

// The bundled model, but no BOS is put in front of a text.
std::string WriteModelWithoutBos(const std::filesystem::path& folder) {
  std::ifstream in("models/notebook-1m-q8_0.gguf", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  constexpr std::string_view kKey = "tokenizer.ggml.add_bos_token";
  const std::size_t value = bytes.find(kKey) + kKey.size() + sizeof(std::uint32_t);  // its type
  bytes.at(value) = 0;
  const std::filesystem::path path = folder / "no-bos.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

TEST_F(ChatRoutesTest, AForkWhoseTemplateWritesNothingIsRefused) {
  const kvd::test::TemporaryFolder folder;
  gateway_.Keep(std::move(*ResponseStore::Open((folder.path() / "responses").string())));
  AddResponsesRoutes(gateway_, router_);
  Start(WriteModelWithoutBos(folder.path()));
  const std::string id(
      At(ValueOf(Post("/v1/responses", R"({"input":"a","max_output_tokens":1})")), "id").view());
  const auto session = *tenant().session();
  ASSERT_TRUE(Run(session->Publish(tenant().slots().at(0).sequence, "tale", 0, {})));
  for (const std::string& source : {id, std::string("tale")}) {
    for (const char* const prompts : {R"(["a"])", R"(["a","b"])"}) {
      const GatewayReply reply =
          Post("/v1/chat/completions", Concat(R"({"fork_from":")", source, R"(","prompts":)",
                                              prompts, R"(,"chat_template":"{% set x = 1 %}"})"));
      EXPECT_EQ(ErrorOf(reply), "400 prompts[0]: the chat template writes no text for it");
    }
  }
}

TEST_F(ChatRoutesTest, AResponseThatCannotBeStoredIsAnError) {
  const kvd::test::TemporaryFolder folder;
  const auto responses = folder.path() / "responses";
  gateway_.Keep(std::move(*ResponseStore::Open(responses.string())));
  AddResponsesRoutes(gateway_, router_);
  Start();
  const auto body = [](const std::string& members) {
    return R"({"input":"a","max_output_tokens":1)" + members + "}";
  };
  const std::string long_text(17u << 20, 'x');
  EXPECT_THAT(ErrorOf(Post("/v1/responses", body(R"(,"metadata":{"a":")" + long_text + "\"}"))),
              StartsWith("400 store: response: "));
  std::filesystem::remove_all(responses);
  EXPECT_EQ(ErrorOf(Post("/v1/responses", body(""))),
            "500 the server cannot read or write a file: No such file or directory");
  EXPECT_EQ(Post("/v1/responses", body(R"(,"store":false)")).status, 200);
}

// The response repeats the member one level deeper than the body had it.
TEST_F(ChatRoutesTest, AStoredResponseOfTheLargestDepthCanBeRead) {
  const kvd::test::TemporaryFolder folder;
  gateway_.Keep(std::move(*ResponseStore::Open((folder.path() / "responses").string())));
  AddResponsesRoutes(gateway_, router_);
  Start();
  constexpr int kDeepest = 127;
  const std::string deep = std::string(kDeepest, '[') + std::string(kDeepest, ']');
  const std::string body = R"({"input":"a","max_output_tokens":1,"metadata":)" + deep + "}";
  const std::string id(At(ValueOf(Post("/v1/responses", body)), "id").view());
  EXPECT_EQ(Get("/v1/responses/" + id).status, 200);
  EXPECT_EQ(
      Post("/v1/responses",
           Concat(R"({"input":"b","max_output_tokens":1,"previous_response_id":")", id, "\"}"))
          .status,
      200);
}

TEST_F(ChatRoutesTest, ExceedingALimitOfTheRequestIsAClientError) {
  Start();
  const auto error = [this](const std::string& members) { return ErrorOf(Ask(members)); };
  EXPECT_THAT(error(R"("chat_template":"{% for i in range(100000) %}{% for j in range(100000) %}a)"
                    R"({% endfor %}{% endfor %}")"),
              StartsWith("400 "));
  std::string tools = R"("tools":[)";
  for (int i = 0; i < 2000; ++i) {
    tools += R"({"type":"function","function":{"name":"f)" + std::to_string(i) + R"("}},)";
  }
  tools.back() = ']';
  EXPECT_THAT(error(tools), StartsWith("400 tools: 2000 tools, at most "));
  const std::string nested = std::string(300, '(') + "a0" + std::string(300, ')');
  EXPECT_THAT(error(R"("max_tokens":1,"grammar":"root ::= )" + nested + R"(\na0 ::= [a-z]")"),
              StartsWith("400 "));
}

TEST_F(ChatRoutesTest, AStreamNamesTheRoleOnceAndEndsWithDone) {
  Start();
  const Value whole = Chat(R"("max_tokens":8)");
  const GatewayReply stream = Ask(R"("max_tokens":8,"stream":true)");
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

TEST_F(ChatRoutesTest, ARequiredToolCallIsMadeAndStreamed) {
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
    const Value& calls = delta.dict().Find("tool_calls");
    if (calls.is_missing()) continue;
    const Value& part = calls.items()[0];
    if (At(part, "function").dict().Contains("name")) {
      ++names;
      EXPECT_EQ(At(part, "type").view(), "function");
    }
    streamed += At(part, "function.arguments").view();
  }
  EXPECT_EQ(names, 1u);
  EXPECT_EQ(streamed, At(call, "function.arguments").view());
}

TEST_F(ChatRoutesTest, AResponseFormatAppliesAfterReasoning) {
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
    const Value& part = delta.dict().Find("reasoning_content");
    if (!part.is_missing()) streamed += part.view();
    const Value& text = delta.dict().Find("content");
    if (text.is_string()) content += text.view();
  }
  EXPECT_EQ(streamed, first + " and so");
  EXPECT_EQ(content, At(ChoiceOf(reply), "message.content").view());
  // A limit of the answer that ends within the forced text cuts it.
  const Value cut = Chat(thinking + R"("max_tokens":7,"reasoning_budget_tokens":6)" + message);
  EXPECT_EQ(At(cut, "usage.completion_tokens").integer(), 7);
  EXPECT_THAT(reasoning_of(cut), StartsWith(first));
  EXPECT_EQ(At(ChoiceOf(cut), "message.content").view(), "");
}

TEST_F(ChatRoutesTest, TheBudgetOfTheCommandLineAppliesToRequestsWithoutOne) {
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
  EXPECT_FALSE(At(ChoiceOf(none), "message").dict().Contains("reasoning_content"));
  EXPECT_NE(At(ChoiceOf(none), "message.content").view(), "");
  EXPECT_THAT(ErrorOf(Ask(R"("reasoning_budget_tokens":-2)")),
              StartsWith("400 reasoning_budget_tokens: "));
  EXPECT_THAT(ErrorOf(Ask(R"("reasoning_budget_message":5)")),
              StartsWith("400 reasoning_budget_message: "));
}

TEST_F(ChatRoutesTest, ABudgetCountsReasoningThatTheModelBegins) {
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

TEST_F(ChatRoutesTest, ASchemaAppliesAfterReasoningEndedByABudget) {
  settings_.chat_template = kHermes;
  Start();
  const Value reply = Chat(R"("response_format":{"type":"json_schema","json_schema":)"
                           R"({"schema":{"const":"kite"}}},"max_tokens":60,)"
                           R"("reasoning_budget_tokens":4)");
  EXPECT_EQ(At(ChoiceOf(reply), "message.content").view(), "\"kite\"");
  EXPECT_EQ(At(ChoiceOf(reply), "finish_reason").view(), "stop");
}

TEST_F(ChatRoutesTest, TheGrammarOfTheCommandLineAppliesToRequestsWithoutToolsOrGrammar) {
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

TEST_F(ChatRoutesTest, TheSchemaOfTheCommandLineAppliesToRequestsWithoutOne) {
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

TEST_F(ChatRoutesTest, AnEmbeddingModelWithADecoderAnswersChats) {
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
