// Reading the body of a chat.
#include "http/api/chat_reader.h"

#include <gmock/gmock.h>

#include "http/api/messages_reader.h"
#include "text/json.h"

namespace kvd::http {
namespace {

using ::testing::StartsWith;

Result<ChatInput> ReadChat(const std::string& members, const Settings& settings = {}) {
  std::string json = R"({"messages":[{"role":"user","content":"Hi"}])";
  if (!members.empty()) json += "," + members;
  json += "}";
  const auto body = ParseJson(json);
  EXPECT_TRUE(body.has_value()) << json;
  return ReadChatInput(Fields(*body), settings);
}

std::string ErrorOfChat(const std::string& members) {
  const auto input = ReadChat(members);
  return input ? std::string() : input.error().message;
}

std::string JsonOf(const Value& value) {
  return value.is_missing() ? std::string("missing") : *WriteJson(value);
}

TEST(ChatReaderTest, MessagesAreRequired) {
  const Value body = *ParseJson("{}");
  const auto input = ReadChatInput(Fields(body), Settings());
  ASSERT_FALSE(input.has_value());
  EXPECT_EQ(input.error().message, "'messages' is required");
}

TEST(ChatReaderTest, AResponseFormatBecomesASchema) {
  EXPECT_EQ(JsonOf(ReadChat("")->answer_schema), "missing");
  EXPECT_EQ(JsonOf(ReadChat(R"("response_format":{"type":"text"})")->answer_schema), "missing");
  EXPECT_EQ(JsonOf(ReadChat(R"("response_format":{"type":"json_object"})")->answer_schema),
            R"({"type": "object"})");
  EXPECT_EQ(JsonOf(ReadChat(R"("response_format":{"type":"json_object","schema":{"const":1}})")
                       ->answer_schema),
            R"({"const": 1})");
  EXPECT_EQ(JsonOf(ReadChat(R"("response_format":{"type":"json_schema","json_schema":{"name":"x",
                          "schema":{"const":2}}})")
                       ->answer_schema),
            R"({"const": 2})");
  EXPECT_EQ(JsonOf(ReadChat(R"("json_schema":{"const":3})")->answer_schema), R"({"const": 3})");
  EXPECT_THAT(ErrorOfChat(R"("response_format":{"type":"sound"})"),
              StartsWith("response_format.type: "));
  EXPECT_THAT(ErrorOfChat(R"("response_format":{"type":"json_object","schema":123})"),
              StartsWith("response_format.schema: "));
  EXPECT_THAT(ErrorOfChat(R"("response_format":{"type":"json_schema"})"),
              StartsWith("response_format.json_schema: "));
  EXPECT_THAT(ErrorOfChat(R"("response_format":"text")"), StartsWith("response_format: "));
  EXPECT_THAT(ErrorOfChat(R"("json_schema":{},"grammar":"root ::= \"a\"")"),
              StartsWith("grammar: "));
}

TEST(ChatReaderTest, TheContinuationIsRequestedOrChosenByTheServer) {
  EXPECT_FALSE(ReadChat("")->has_continuation);
  EXPECT_TRUE(ReadChat("")->chat.add_generation_prompt);
  const auto without = ReadChat(R"("add_generation_prompt":false)");
  EXPECT_TRUE(without->has_continuation);
  EXPECT_FALSE(without->chat.add_generation_prompt);
  const auto continued = ReadChat(R"("continue_final_message":true,"add_generation_prompt":false)");
  EXPECT_TRUE(continued->chat.continue_final_message);
  EXPECT_TRUE(ReadChat(R"("continue_final_message":"content")")->chat.continue_final_message);
  EXPECT_THAT(ErrorOfChat(R"("continue_final_message":true,"add_generation_prompt":true)"),
              StartsWith("continue_final_message: not together"));
  EXPECT_THAT(ErrorOfChat(R"("continue_final_message":5)"), StartsWith("continue_final_message: "));
}

TEST(ChatReaderTest, ReasoningCanBeSwitchedOffOrGivenAnEffort) {
  EXPECT_EQ(ReadChat("")->chat.enable_thinking, std::nullopt);
  EXPECT_EQ(ReadChat(R"("reasoning_effort":"none")")->chat.enable_thinking, false);
  const auto high = ReadChat(R"("reasoning_effort":"high","chat_template_kwargs":{"a":1})");
  EXPECT_EQ(JsonOf(high->chat.variables), R"({"a": 1, "reasoning_effort": "high"})");
  EXPECT_EQ(ReadChat(R"("reasoning_format":"deepseek-legacy")")->reasoning_format,
            ReasoningFormat::kDeepseekLegacy);
  EXPECT_THAT(ErrorOfChat(R"("reasoning_format":"loud")"), StartsWith("reasoning_format: "));
  EXPECT_THAT(ErrorOfChat(R"("chat_template_kwargs":5)"), StartsWith("chat_template_kwargs: "));
}

TEST(ChatReaderTest, TheBudgetOfReasoningIsRead) {
  EXPECT_EQ(ReadChat("")->reasoning_budget, -1);
  EXPECT_EQ(ReadChat("")->budget_message, std::nullopt);
  EXPECT_EQ(ReadChat(R"("thinking_budget_tokens":7)")->reasoning_budget, 7);
  EXPECT_EQ(ReadChat(R"("thinking_budget_tokens":7,"reasoning_budget_tokens":8)")->reasoning_budget,
            8);
  EXPECT_EQ(ReadChat(R"("reasoning_budget_message":"so")")->budget_message, "so");
  EXPECT_THAT(ErrorOfChat(R"("thinking_budget_tokens":"a")"),
              StartsWith("thinking_budget_tokens: "));
}

TEST(ChatReaderTest, ThinkingInAnthropicRequestsHasABudget) {
  const auto chat_of = [](const std::string& thinking) {
    return ReadMessagesAsOpenAi(
        *ParseJson(R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":9,"thinking":)" +
                   thinking + "}"));
  };
  const auto budget_of = [&](const std::string& thinking) {
    const auto chat = chat_of(thinking);
    if (!chat || !chat->dict().Contains("thinking_budget_tokens")) return std::int64_t{-1};
    return chat->dict().Find("thinking_budget_tokens").integer();
  };
  EXPECT_EQ(budget_of(R"({"type":"enabled","budget_tokens":2048})"), 2048);
  EXPECT_EQ(budget_of(R"({"type":"enabled"})"), 10'000);
  EXPECT_EQ(budget_of(R"({"type":"adaptive"})"), -1);
  EXPECT_EQ(budget_of(R"({"type":"disabled"})"), -1);
  EXPECT_THAT(chat_of(R"({"type":"enabled","budget_tokens":"a"})").error().message,
              StartsWith("thinking.budget_tokens: "));
}

TEST(ChatReaderTest, ToolsAreChosenByName) {
  EXPECT_EQ(ReadChat(R"("tool_choice":"required")")->tool_choice.kind, ToolChoice::Kind::kRequired);
  const auto chosen = ReadChat(R"("tool_choice":{"type":"function","function":{"name":"f"}})");
  EXPECT_EQ(chosen->tool_choice.kind, ToolChoice::Kind::kFunction);
  EXPECT_EQ(chosen->tool_choice.function, "f");
  EXPECT_FALSE(ReadChat(R"("parallel_tool_calls":false)")->parallel_calls);
  EXPECT_THAT(ErrorOfChat(R"("tool_choice":"maybe")"), StartsWith("tool_choice: "));
  EXPECT_THAT(ErrorOfChat(R"("parallel_tool_calls":1)"), StartsWith("parallel_tool_calls: "));
}

}  // namespace
}  // namespace kvd::http
