// Chats with a real daemon: the templates of the bundled model's file, kvd_chat, kvd_chat_json,
// kvctl chat, template, run and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "text/json.h"
#include "text/tool_calls/tool_format.h"

namespace kvd {
namespace {

using test::JsonField;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kMessages =
    R"([{"role": "system", "content": "Answer."},
        {"role": "user", "content": "Where is the kite?"}])";
constexpr const char* kChatText =
    "<|system|>Answer.<|end|><|user|>Where is the kite?<|end|><|assistant|>";

class ChatTest : public test::ServedDaemonTest {
 protected:
  ChatTest() : ServedDaemonTest({"-c", "4096"}) {}

  void SetUp() override {
    ServedDaemonTest::SetUp();
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    const std::string path = socket_path();
    options.socket_path = path.c_str();
    ASSERT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("kvd-chat-") + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    kvd_close(client_);
    std::filesystem::remove_all(folder_);
    ServedDaemonTest::TearDown();
  }

  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  test::KvctlOutcome Kvctl(const std::string& arguments) const {
    return test::KvctlProcess(socket_path()).Run(arguments);
  }
  // Takes a text from the library and frees it; the error's message if the call failed.
  static std::string Taken(int code, char** text) {
    if (code != KVD_OK) return kvd_error_message();
    std::string taken = *text;
    kvd_free(*text);
    return taken;
  }
  std::string Json(const std::string& json) {
    char* text = nullptr;
    std::size_t bytes = 0;
    return Taken(kvd_chat_json(client_, json.data(), json.size(), &text, &bytes, nullptr), &text);
  }

  kvd_client* client_ = nullptr;
  std::filesystem::path folder_;
};

TEST_F(ChatTest, TheLibraryFormatsWithTheModelsTemplate) {
  const kvd_chat_message messages[] = {{"system", "Answer."}, {"user", "Where is the kite?"}};
  char* text = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(Taken(kvd_chat(client_, messages, 2, KVD_ADD_ASSISTANT, &text, &bytes, nullptr), &text),
            kChatText);
  EXPECT_EQ(bytes, std::string(kChatText).size());
  EXPECT_EQ(Taken(kvd_chat(client_, messages, 2, 0, &text, &bytes, nullptr), &text),
            "<|system|>Answer.<|end|><|user|>Where is the kite?<|end|>");
  EXPECT_EQ(Json(kMessages), kChatText);
  kvd_request request = 0;
  ASSERT_EQ(kvd_chat(client_, messages, 2, KVD_ADD_ASSISTANT, &text, &bytes, &request), KVD_OK);
  EXPECT_EQ(Taken(kvd_finish(client_, request, -1), &text), kChatText);
  ASSERT_EQ(
      kvd_chat_json(client_, kMessages, std::string(kMessages).size(), &text, &bytes, &request),
      KVD_OK);
  EXPECT_EQ(Taken(kvd_finish(client_, request, -1), &text), kChatText);
}

TEST_F(ChatTest, TheLibraryReturnsTheTemplate) {
  char* text = nullptr;
  std::size_t bytes = 0;
  EXPECT_THAT(Taken(kvd_chat_template(client_, nullptr, &text, &bytes, nullptr), &text),
              StartsWith("{% for m in messages %}"));
  EXPECT_EQ(kvd_chat_template(client_, "tool_use", &text, &bytes, nullptr), KVD_NOT_FOUND);
  EXPECT_STREQ(kvd_error_message(), "the model has no template named 'tool_use'");
  kvd_request request = 0;
  ASSERT_EQ(kvd_chat_template(client_, nullptr, &text, &bytes, &request), KVD_OK);
  EXPECT_THAT(Taken(kvd_finish(client_, request, -1), &text),
              StartsWith("{% for m in messages %}"));
}

TEST_F(ChatTest, ARequestChoosesItsTemplate) {
  const std::string messages = std::string(R"({"messages": )") + kMessages;
  EXPECT_THAT(Json(messages + R"(, "chat_template": "chatml"})"),
              StartsWith("<|im_start|>system\nAnswer."));
  EXPECT_EQ(Json(messages + R"(, "chat_template": "{{ messages | length }}{{ x }}",
                                "chat_template_kwargs": {"x": [1, null]}})"),
            "2[1, None]");
  EXPECT_EQ(Json(messages + "}"), kChatText) << "the last request's template is not kept";
  EXPECT_THAT(Json(messages + R"(, "chat_template": "chatmll"})"),
              HasSubstr("no template is named 'chatmll'"));
}

TEST_F(ChatTest, BadArgumentsAreNamed) {
  char* text = nullptr;
  std::size_t bytes = 0;
  const kvd_chat_message none[] = {{nullptr, "a"}};
  EXPECT_EQ(kvd_chat(client_, none, 1, 0, &text, &bytes, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_chat(client_, none, 0, 0, &text, &bytes, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_STREQ(kvd_error_message(), "messages: a chat has at least one message");
  const kvd_chat_message one[] = {{"user", "a"}};
  EXPECT_EQ(kvd_chat(client_, one, 1, KVD_FORCE, &text, &bytes, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_chat(client_, one, 1, 0, nullptr, &bytes, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_chat_json(client_, nullptr, 0, &text, &bytes, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_chat_template(client_, nullptr, &text, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(Json(R"([{"role": "user", "content": 1}])"),
            "messages[0].content: must be a string, a list of parts, or null");
  const std::string broken = R"({"messages": [{"role": "user", "content": "a"}],
                                 "chat_template": "{% if x %}"})";
  EXPECT_THAT(Json(broken), HasSubstr("line 1"));
}

TEST_F(ChatTest, KvctlFormatsFilesOfMessagesAndTools) {
  const std::string messages = File("messages.json", kMessages);
  EXPECT_EQ(Kvctl("chat --messages " + messages).output, kChatText);
  EXPECT_EQ(Kvctl("chat --system Answer. 'Where is the kite?'").output, kChatText);
  EXPECT_EQ(Kvctl("chat --messages " + messages + " --prefill 'In the'").output,
            std::string(kChatText) + "In the");
  const std::string tools =
      File("tools.json", R"([{"type": "function", "function": {"name": "find"}}])");
  const std::string program =
      File("t.jinja", "{{ tools[0].function.name }} {{ enable_thinking }} {{ x }}\n");
  EXPECT_EQ(Kvctl("chat a --tools " + tools + " --chat-template " + program +
                  " --thinking off --chat-template-kwargs '{\"x\": 3}'")
                .output,
            "find False 3");
  EXPECT_THAT(Kvctl("template").output, StartsWith("{% for m in messages %}"));
  EXPECT_THAT(Kvctl("template rag").output, HasSubstr("no chat template named 'rag'"));
  const std::string bad = File("bad.json", "[{\"role\": 1}]");
  const test::KvctlOutcome refused = Kvctl("chat --messages " + bad);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("bad.json: messages[0].role: must be a string"));
  EXPECT_THAT(Kvctl("chat a --chat-template-kwargs 3").output, HasSubstr("not a JSON object"));
  EXPECT_THAT(Kvctl("chat a --tools " + bad + "x").output, HasSubstr("not_found"));
  EXPECT_EQ(Kvctl("chat ''").exit_code, 1);
}

TEST_F(ChatTest, KvctlRunAndWhyTakeTheFormattedChat) {
  // Prefixes of fewer than 16 tokens are not shared.
  const std::string question =
      "Where is the kite, who put it there, and what is in the red box now?";
  const std::string messages =
      File("messages.json", R"([{"role": "user", "content": ")" + question + "\"}]");
  const std::string ran = Kvctl("run --chat --messages " + messages + " -t 0 -n 1 --json").output;
  const std::string told = Kvctl("why --chat --messages " + messages + " --json").output;
  const int prompt = std::stoi(JsonField(told, "prompt_tokens"));
  EXPECT_EQ(
      std::stoi(JsonField(ran, "tokens_computed")) + std::stoi(JsonField(ran, "tokens_reused")),
      prompt)
      << ran << told;
  EXPECT_EQ(std::stoi(JsonField(told, "tokens_in_common")), prompt);
  // The model adds BOS to its texts, and the template does not write it.
  const Client client = Connect();
  const auto tokens =
      client.Tokenize("<|user|>" + question + "<|end|><|assistant|>", wire::kFlagParseSpecial)
          .value();
  EXPECT_EQ(static_cast<std::size_t>(prompt), tokens.size() + 1);
}

constexpr const char* kTwoTools =
    R"([{"type": "function", "function": {"name": "find", "parameters": {"type": "object",
          "properties": {"name": {"enum": ["kite", "lamp"]}, "count": {"enum": [1, 2]}},
          "required": ["name", "count"]}}},
        {"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
          "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}}}])";

// The only call of an answer of kvctl run --json.
Dict OnlyCall(const std::string& output) {
  const auto answer = ParseJson(output);
  EXPECT_TRUE(answer && answer->is_dict()) << output;
  if (!answer || !answer->is_dict()) return {};
  EXPECT_EQ(answer->dict().Find("finish").view(), "end") << output;
  const Value& calls = answer->dict().Find("tool_calls");
  EXPECT_TRUE(!calls.is_missing() && calls.items().size() == 1) << output;
  if (calls.is_missing() || calls.items().empty()) return {};
  EXPECT_EQ(answer->dict().Find("content").view(), "") << output;
  return calls.items()[0].dict();
}

TEST_F(ChatTest, ToolCallsFollowTheirFormatAndAreParsed) {
  const std::string tools = File("tools.json", kTwoTools);
  const std::string run = "run --chat --tools " + tools +
                          " --one-call --json -n 300 --temp 2 --seed 5 'Where is the kite?' ";
  for (const ToolFormat format : ToolFormats()) {
    const std::string named = "--tool-format " + std::string(NameOf(format));
    SCOPED_TRACE(named);
    const Dict call = OnlyCall(Kvctl(run + named + " --tool-choice weather").output);
    if (!call.Contains("name")) continue;
    EXPECT_EQ(call.Find("name").view(), "weather");
    const auto arguments = ParseJson(call.Find("arguments").view());
    ASSERT_TRUE(arguments && arguments->is_dict());
    ASSERT_TRUE(arguments->dict().Contains("city"));
    const std::string_view city = arguments->dict().Find("city").view();
    EXPECT_TRUE(city == "Oslo" || city == "Rome") << city;
  }
  // The bundled model's template has no tools, so the format is plain JSON.
  const std::string name(
      OnlyCall(Kvctl(run + "--tool-choice required").output).Find("name").view());
  EXPECT_TRUE(name == "find" || name == "weather") << name;
}

TEST_F(ChatTest, ToolsThatCannotBeUsedAreNamed) {
  const std::string tools = File("tools.json", kTwoTools);
  const std::string run = "run --chat --json -n 4 x --tools " + tools;
  EXPECT_THAT(Kvctl(run + " --tool-format hermess").output, HasSubstr("hermes"));
  EXPECT_THAT(Kvctl(run + " --tool-choice fly").output, HasSubstr("fly"));
  const std::string wrong = File("wrong.json", R"([{"function": {"name": "a b"}}])");
  EXPECT_THAT(Kvctl("run --chat --json -n 4 x --tools " + wrong).output, HasSubstr("tools[0]"));
  EXPECT_THAT(Kvctl(run + " --tool-choice none").output, HasSubstr("\"tool_calls\":[]"));
}

}  // namespace
}  // namespace kvd
