// What the prefix cache sees of chats: a program sends the whole conversation again with each turn,
// the template renders all of it, and the daemon reuses the tokens of the turn before. Where a
// template renders an earlier turn differently (it drops the reasoning), kWhy shows both texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/support/served_daemon.h"
#include "tests/support/shared_files.h"
#include "tests/support/test_scale.h"
#include "text/chat/chat_formatter.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Templates in the style of published ones.
constexpr const char* kPlain =
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content ~ '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
// Keeps the reasoning of the messages after the user's last one, as Qwen3's template does.
constexpr const char* kDropsReasoning =
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
    "{{ '<|' ~ m.role ~ '|>' }}{% if m.reasoning_content and loop.index0 > ns.last %}"
    "{{ '<think>' ~ m.reasoning_content ~ '</think>' }}{% endif %}{{ m.content ~ '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

constexpr const char* kTurns[][2] = {
    {"user", "Where is the kite, and who put it there after the long walk to the hill?"},
    {"assistant", "The kite is in the red box."},
    {"user", "And the drum?"},
    {"assistant", "The drum is with the old man."},
    {"user", "Thank you. Who has the bell?"},
};
constexpr const char* kReasoning = "The notebook says where each thing is.";

Value Messages(std::size_t count) {
  std::vector<Value> messages;
  for (std::size_t i = 0; i < count; ++i) {
    Dict message;
    message.Set("role", Value::String(kTurns[i][0]));
    message.Set("content", Value::String(kTurns[i][1]));
    if (i % 2 == 1) message.Set("reasoning_content", Value::String(kReasoning));
    messages.push_back(Value::Of(std::move(message)));
  }
  return Value::List(std::move(messages));
}

struct Turn {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t before_tokens = 0;  // of the turn before, with its answer
  std::uint32_t common = 0;
  std::uint32_t reused = 0;
  std::string prompt_text;  // after the common tokens
  std::string cached_text;
};

class ChatTurnsTest : public test::ServedDaemonTest {
 protected:
  ChatTurnsTest() : ServedDaemonTest({"-c", "32768"}) {}

  static std::string TextOf(const ChatFormatter& formatter, std::size_t count, bool adds_prompt) {
    ChatRequest request;
    request.messages = Messages(count);
    request.add_generation_prompt = adds_prompt;
    const auto text = formatter.Format(request);
    return text ? *text : std::string();
  }

  // Sends the conversation turn by turn and returns the turns after the first. Empty if the
  // template refuses the conversation.
  std::vector<Turn> Run(const std::string& program) {
    const Client client = Connect();
    EXPECT_TRUE(client.Call(wire::DropRetainedArgs{}, {}, wire::kFlagForce));
    ChatTexts texts;
    texts.tokens = {{"bos", "<s>"}, {"eos", "</s>"}};
    const auto formatter = ChatFormatter::Create(texts, program, false);
    EXPECT_TRUE(formatter.has_value()) << formatter.error().message;
    std::vector<Turn> turns;
    std::vector<TokenId> before;
    for (std::size_t count = 1; count <= std::size(kTurns); count += 2) {
      const std::string prompt = TextOf(*formatter, count, true);
      if (prompt.empty()) return {};
      const auto tokens = client.Tokenize(prompt, wire::kFlagParseSpecial).value();
      if (!before.empty()) turns.push_back(Asked(client, tokens, before));
      if (count == std::size(kTurns)) break;
      // What the model would have written, as the template renders it.
      const std::string answered = TextOf(*formatter, count + 1, false);
      const std::string text = answered.starts_with(prompt) ? answered : prompt + kTurns[count][1];
      before = client.Tokenize(text, wire::kFlagParseSpecial).value();
      auto sequence = client.NewSequence();
      EXPECT_TRUE(sequence.has_value());
      EXPECT_TRUE(sequence->Decode(before, Pos{0}, wire::LogitsWanted::kNone));
      (void)sequence->Detach();  // the daemon keeps it as a cached prefix
    }
    return turns;
  }

  static Turn Asked(const Client& client, const std::vector<TokenId>& tokens,
                    const std::vector<TokenId>& before) {
    const auto bytes = std::as_bytes(std::span(tokens));
    const wire::WhyRecord told = client.Call(wire::WhyArgs{}, PayloadOf(bytes)).value().record;
    const auto differs = std::ranges::mismatch(tokens, before);
    const auto common = static_cast<std::uint32_t>(differs.in1 - tokens.begin());
    EXPECT_EQ(told.common, common) << "the nearest sequence is that of the turn before";
    // At least one token of a prompt is computed.
    EXPECT_GE(told.reused + 1, common);
    auto sequence = client.NewSequence();
    auto generation = sequence->Generate({.tokens = tokens, .predict_max = 0});
    EXPECT_TRUE(generation.has_value());
    while (generation->Next().value()) {
    }
    EXPECT_EQ(generation->result().prompt_shared, told.reused) << "why tells what a prompt reuses";
    return {told.prompt_tokens,
            static_cast<std::uint32_t>(before.size()),
            common,
            told.reused,
            told.prompt_text,
            told.cached_text};
  }

  static void Print(const std::string& name, const std::vector<Turn>& turns) {
    for (const Turn& turn : turns) {
      std::printf("%-52s %5u tokens, of the turn before %5u of %5u reused", name.c_str(),
                  turn.prompt_tokens, turn.reused, turn.before_tokens);
      if (turn.common < turn.before_tokens) {
        std::printf("; then \"%s\" in place of \"%s\"", turn.prompt_text.c_str(),
                    turn.cached_text.c_str());
      }
      std::puts("");
    }
  }
};

TEST_F(ChatTurnsTest, APlainTemplateReusesTheWholePreviousTurn) {
  const std::vector<Turn> turns = Run(kPlain);
  Print("plain", turns);
  ASSERT_EQ(turns.size(), 2u);
  for (const Turn& turn : turns) EXPECT_EQ(turn.common, turn.before_tokens);
}

TEST_F(ChatTurnsTest, IfATemplateDropsTheReasoningWhyShowsBothTexts) {
  const std::vector<Turn> turns = Run(kDropsReasoning);
  Print("drops reasoning", turns);
  ASSERT_EQ(turns.size(), 2u);
  for (const Turn& turn : turns) {
    EXPECT_LT(turn.common, turn.before_tokens);
    EXPECT_THAT(turn.cached_text, HasSubstr("think>The notebook"));
    EXPECT_THAT(turn.prompt_text, StartsWith("The "));
  }
}

TEST_F(ChatTurnsTest, PublishedTemplatesReuseTheUnchangedPrefix) {
  const fs::path folder = "../shared/templates";
  if (const std::string missing = test::MissingShared("templates"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  std::map<std::string, std::string> programs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path() / "template.jinja");
    std::ostringstream text;
    text << file.rdbuf();
    if (!text.str().empty()) programs[entry.path().filename().string()] = text.str();
  }
  std::size_t number = 0;
  std::erase_if(programs, [&](const auto&) { return number++ % test::Stride(8) != 0; });
  ASSERT_FALSE(programs.empty());
  std::size_t refused = 0;
  for (const auto& [name, program] : programs) {
    SCOPED_TRACE(name);
    const std::vector<Turn> turns = Run(program);
    Print(name, turns);
    if (turns.empty()) ++refused;
    // Even a template that rewrites an answer keeps the turns before that answer.
    for (const Turn& turn : turns) EXPECT_GT(turn.common, turn.before_tokens / 3);
  }
  EXPECT_LT(refused, programs.size() / 4);
}

}  // namespace
}  // namespace kvd
