// What README and the examples teach is right: the commands that publish a context give the tokens
// that the model's chat template gives for it.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/user_shell.h"

namespace kvd {
namespace {

constexpr const char* kQuestion = "Who keeps the drum?";

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The commands of a text that publish a context, with the names of their snapshots.
struct TaughtContext {
  std::string command;
  std::string snapshot;
};
std::vector<TaughtContext> ContextsOf(const std::string& text) {
  const std::regex form("kvctl run -n 0 --keep ([a-z]+) (\"[^\"]*\"|'[^']*')");
  std::vector<TaughtContext> contexts;
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at) {
    contexts.push_back({.command = at->str(), .snapshot = (*at)[1]});
  }
  return contexts;
}

class TaughtPromptsTest : public test::ServedDaemonTest {
 protected:
  std::vector<TokenId> SnapshotTokens(const std::string& name) {
    const Client client = Connect();
    const auto fork = client.Attach(name);
    EXPECT_TRUE(fork) << fork.error().message;
    const auto read = client.ReadTokens(fork.value_or(SequenceHandle::kNone));
    EXPECT_TRUE(read) << read.error().message;
    std::vector<TokenId> tokens;
    if (read) {
      for (const TokenAt& token : *read) tokens.push_back(token.token);
    }
    return tokens;
  }
  std::vector<TokenId> Tokens(const std::string& text, bool is_new_sequence) {
    const auto tokens = Connect().Tokenize(
        text, static_cast<std::uint16_t>(wire::kFlagParseSpecial |
                                         FlagIf(is_new_sequence, wire::kFlagAddSpecial)));
    EXPECT_TRUE(tokens) << tokens.error().message;
    return tokens.value_or(std::vector<TokenId>());
  }
  // The text of a chat by the model's template.
  std::string Chat(const std::string& system, const std::string& question) const {
    const test::KvctlOutcome chat =
        test::KvctlProcess(socket_path()).Run("chat --system '" + system + "' '" + question + "'");
    EXPECT_EQ(chat.exit_code, 0) << chat.output;
    return chat.output;
  }
  // Runs the command after the lines of shell `before`, and compares the snapshot with the tokens
  // of the chat that begins with the system message `system`.
  void ExpectTheTemplatesTokens(const TaughtContext& taught, const std::string& before,
                                const std::string& system) {
    SCOPED_TRACE(taught.command);
    const test::UserShell shell;
    shell.Done("export KVD_SOCKET=" + socket_path() + "; " + before + taught.command);
    std::vector<TokenId> tokens = SnapshotTokens(taught.snapshot);
    const std::vector<TokenId> question =
        Tokens(std::string("<|user|>") + kQuestion + "<|end|><|assistant|>", false);
    tokens.insert(tokens.end(), question.begin(), question.end());
    EXPECT_EQ(tokens, Tokens(Chat(system, kQuestion), true));
    (void)Connect().Unpublish(taught.snapshot);
  }
  static std::string SystemOf(const std::string& command) {
    std::smatch found;
    const std::regex form("<\\|system\\|>(.*)<\\|end\\|>");
    EXPECT_TRUE(std::regex_search(command, found, form)) << command;
    return found[1];
  }
};

TEST_F(TaughtPromptsTest, ReadmeTeachesTheTemplatesTokens) {
  const std::vector<TaughtContext> contexts = ContextsOf(TextOf("README.md"));
  ASSERT_EQ(contexts.size(), 2u) << "the quickstart and the ten lines";
  for (const TaughtContext& taught : contexts) {
    ExpectTheTemplatesTokens(taught, "", SystemOf(taught.command));
  }
}

TEST_F(TaughtPromptsTest, TheShellExampleTeachesTheTemplatesTokens) {
  const std::string script = TextOf("examples/notebook.sh");
  const std::vector<TaughtContext> contexts = ContextsOf(script);
  ASSERT_EQ(contexts.size(), 1u);
  std::smatch facts;
  ASSERT_TRUE(std::regex_search(script, facts, std::regex("\nfacts='([^']*)'\n")));
  std::string system = SystemOf(contexts[0].command);
  const std::size_t at = system.find("$facts");
  ASSERT_NE(at, std::string::npos);
  system.replace(at, 6, facts[1].str());
  ExpectTheTemplatesTokens(contexts[0], facts.str(), system);
}

TEST_F(TaughtPromptsTest, TheExampleInCTeachesTheTemplatesTokens) {
  const std::string program = TextOf("examples/fork.c");
  const std::vector<TaughtContext> contexts = ContextsOf(program);
  ASSERT_EQ(contexts.size(), 1u);
  ExpectTheTemplatesTokens(contexts[0], "", SystemOf(contexts[0].command));
  std::smatch asked;
  ASSERT_TRUE(std::regex_search(program, asked, std::regex("kvd-example-fork notebook '([^']*)'")));
  const std::string question = "What colour is the drum?";
  EXPECT_EQ(asked[1], "<|user|>" + question + "<|end|><|assistant|>");
  EXPECT_TRUE(Chat("x", question).ends_with(asked[1].str()));
}

TEST_F(TaughtPromptsTest, WarmAndRunShareAContext) {
  const test::UserShell shell;
  const std::string set = "export KVD_SOCKET=" + socket_path() + "; ";
  const std::string text =
      "<|system|>Answer from the notebook. The drum is red, kept by Tom in the mill.<|end|>";
  shell.Done(set + "printf '%s' '" + text + "' >context; kvctl warm context");
  const std::string run = shell.Done(set + "kvctl run --json -n 0 '" + text + "'");
  EXPECT_EQ(test::JsonField(run, "tokens_computed"), "1") << run;
  const std::string why = shell.Done(set + "kvctl why --json '" + text + "'");
  EXPECT_EQ(test::JsonField(why, "prompt_token"), "-1") << why;
  const std::string chat = shell.Done(set +
                                      "kvctl warm --json --chat --system 'Answer from the "
                                      "notebook. The drum is red, kept by Tom in the mill.'");
  EXPECT_EQ(test::JsonField(chat, "tokens_computed"), "1") << chat;
}

}  // namespace
}  // namespace kvd
