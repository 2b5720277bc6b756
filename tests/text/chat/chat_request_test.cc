#include "text/chat/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/text/chat/chat_case.h"

namespace kvd {
namespace {

using test::RequestOf;
using testing::StartsWith;

// The error of a request; its code and message.
std::string ProblemOf(std::string_view json) {
  const auto request = ParseChatRequest(json);
  return request ? std::string() : request.error().message;
}
std::string MessageProblem(std::string_view message) {
  return ProblemOf(Concat(R"([{"role": "user", "content": "a"}, )", message, "]"));
}
std::string FieldProblem(std::string_view field) {
  return ProblemOf(Concat(R"({"messages": [{"role": "assistant", "content": "a"}], )", field, "}"));
}

TEST(ChatRequestTest, EveryFieldIsRead) {
  const ChatRequest request = RequestOf(R"({
      "messages": [{"role": "user", "content": "a", "name": "ann"},
                   {"role": "assistant", "content": "b"}],
      "tools": [{"type": "function", "function": {"name": "find"}}],
      "documents": [{"title": "t"}],
      "chat_template": "chatml",
      "chat_template_kwargs": {"effort": "low"},
      "enable_thinking": false,
      "add_generation_prompt": false,
      "continue_final_message": true})");
  EXPECT_EQ(request.messages.items().size(), 2u);
  EXPECT_EQ(request.messages.items()[0].dict().Find("name").view(), "ann");
  EXPECT_EQ(request.tools.items().size(), 1u);
  EXPECT_EQ(request.documents.items().size(), 1u);
  EXPECT_EQ(request.chat_template, "chatml");
  EXPECT_EQ(request.variables.dict().Find("effort").view(), "low");
  EXPECT_EQ(request.enable_thinking, std::optional(false));
  EXPECT_FALSE(request.add_generation_prompt);
  EXPECT_TRUE(request.continue_final_message);
}

TEST(ChatRequestTest, APlainListIsTheListOfMessagesWithDefaultFields) {
  const ChatRequest request = RequestOf(R"([{"role": "user", "content": "a"}])");
  EXPECT_EQ(request.messages.items().size(), 1u);
  EXPECT_TRUE(request.tools.is_none());
  EXPECT_TRUE(request.documents.is_none());
  EXPECT_TRUE(request.variables.dict().empty());
  EXPECT_FALSE(request.enable_thinking.has_value());
  EXPECT_TRUE(request.add_generation_prompt);
  EXPECT_FALSE(request.continue_final_message);
  EXPECT_TRUE(RequestOf(R"({"messages": [{"role": "user", "content": "a"}], "tools": null,
                            "documents": null, "enable_thinking": null})")
                  .tools.is_none());
}

TEST(ChatRequestTest, AToolWithoutFunctionIsWrappedAndAnEmptyListMeansNoTools) {
  const ChatRequest bare =
      RequestOf(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "find"}]})");
  const Dict& tool = bare.tools.items()[0].dict();
  EXPECT_EQ(tool.Find("type").view(), "function");
  EXPECT_EQ(tool.Find("function").dict().Find("name").view(), "find");
  EXPECT_TRUE(RequestOf(R"({"messages": [{"role": "user", "content": "a"}], "tools": []})")
                  .tools.is_none());
}

TEST(ChatRequestTest, TheErrorSaysWhyATextIsNotARequest) {
  EXPECT_EQ(ProblemOf("3"), "chat: neither an object nor a list of messages");
  EXPECT_EQ(ProblemOf("{}"), "messages: missing");
  EXPECT_EQ(ProblemOf("[]"), "messages: a chat has at least one message");
  EXPECT_EQ(ProblemOf(R"({"messages": null})"), "messages: must be a list");
  EXPECT_EQ(FieldProblem(R"("temperature": 1)"), "temperature: unknown field");
  EXPECT_EQ(FieldProblem(R"("tools": {})"), "tools: must be a list");
  EXPECT_EQ(FieldProblem(R"("tools": [1])"), "tools[0]: must be an object");
  EXPECT_EQ(FieldProblem(R"("tools": [{}])"), "tools[0].name: missing");
  EXPECT_EQ(FieldProblem(R"("tools": [{"function": 1}])"), "tools[0].function: must be an object");
  EXPECT_EQ(FieldProblem(R"("tools": [{"function": {}}])"), "tools[0].function.name: missing");
  EXPECT_EQ(FieldProblem(R"("documents": "a")"), "documents: must be a list");
  EXPECT_EQ(FieldProblem(R"("documents": ["a"])"), "documents[0]: must be an object");
  EXPECT_EQ(FieldProblem(R"("chat_template": 1)"), "chat_template: must be a string");
  EXPECT_EQ(FieldProblem(R"("chat_template_kwargs": [])"),
            "chat_template_kwargs: must be an object");
  EXPECT_EQ(FieldProblem(R"("enable_thinking": 1)"), "enable_thinking: must be true or false");
  EXPECT_EQ(FieldProblem(R"("add_generation_prompt": "no")"),
            "add_generation_prompt: must be true or false");
  EXPECT_NE(ProblemOf("[{"), "") << "the parser of JSON names the place";
}

TEST(ChatRequestTest, EachBadFieldOfAMessageIsNamed) {
  EXPECT_EQ(MessageProblem("1"), "messages[1]: must be an object");
  EXPECT_EQ(MessageProblem("{}"), "messages[1].role: missing");
  EXPECT_EQ(MessageProblem(R"({"role": 1})"), "messages[1].role: must be a string");
  EXPECT_EQ(MessageProblem(R"({"role": ""})"), "messages[1].role: empty");
  EXPECT_EQ(MessageProblem(R"({"role": "user", "content": 1})"),
            "messages[1].content: must be a string, a list of parts, or null");
  EXPECT_EQ(MessageProblem(R"({"role": "user", "content": ["a"]})"),
            "messages[1].content[0]: must be an object");
  EXPECT_EQ(MessageProblem(R"({"role": "user", "content": [{"text": "a"}]})"),
            "messages[1].content[0].type: missing");
  EXPECT_EQ(MessageProblem(R"({"role": "user", "content": [{"type": "text"}]})"),
            "messages[1].content[0].text: missing");
  EXPECT_EQ(MessageProblem(R"({"role": "user", "content": [{"type": "text", "text": 1}]})"),
            "messages[1].content[0].text: must be a string");
  for (const std::string_view field :
       {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
    EXPECT_EQ(MessageProblem(Concat(R"({"role": "tool", ")", field, R"(": 1})")),
              Concat("messages[1].", field, ": must be a string or null"));
  }
}

TEST(ChatRequestTest, EachBadFieldOfAToolCallIsNamed) {
  const auto problem = [](std::string_view calls) {
    return MessageProblem(Concat(R"({"role": "assistant", "tool_calls": )", calls, "}"));
  };
  EXPECT_EQ(problem("1"), "messages[1].tool_calls: must be a list");
  EXPECT_EQ(problem("[1]"), "messages[1].tool_calls[0]: must be an object");
  EXPECT_EQ(problem(R"([{"id": 1}])"), "messages[1].tool_calls[0].id: must be a string or null");
  EXPECT_EQ(problem("[{}]"), "messages[1].tool_calls[0].function: missing");
  EXPECT_EQ(problem(R"([{"function": 1}])"),
            "messages[1].tool_calls[0].function: must be an object");
  EXPECT_EQ(problem(R"([{"function": {}}])"), "messages[1].tool_calls[0].function.name: missing");
  EXPECT_THAT(problem(R"([{"function": {"name": "find", "arguments": 1}}])"),
              StartsWith("messages[1].tool_calls[0].function.arguments: must be an object"));
}

TEST(ChatRequestTest, APartThatIsNotTextIsNotSupported) {
  const auto request = ParseChatRequest(
      R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])");
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().code, Code::kUnsupported);
  EXPECT_EQ(request.error().message,
            "messages[0].content[0].type: 'image_url' is not supported; models read text only");
}

TEST(ChatRequestTest, OnlyAMessageOfTheAssistantCanBeContinued) {
  const auto problem = [](std::string_view message) {
    return ProblemOf(Concat(R"({"continue_final_message": true, "messages": [)", message, "]}"));
  };
  EXPECT_EQ(problem(R"({"role": "assistant", "content": "a"})"), "");
  EXPECT_EQ(problem(R"({"role": "user", "content": "a"})"),
            "messages[0].role: continue_final_message continues a message of the assistant");
  EXPECT_EQ(problem(R"({"role": "assistant", "content": null})"),
            "messages[0].content: continue_final_message continues a string");
}

TEST(ChatRequestTest, TheNumberOfMessagesIsLimited) {
  std::string json = "[";
  for (std::size_t i = 0; i <= ChatRequest::kMessagesMax; ++i) {
    json += R"({"role": "user", "content": ""},)";
  }
  json.back() = ']';
  const auto request = ParseChatRequest(json);
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().code, Code::kTooLarge);
  EXPECT_EQ(request.error().message, "messages: 4097 messages, the limit is 4096");
}

}  // namespace
}  // namespace kvd
