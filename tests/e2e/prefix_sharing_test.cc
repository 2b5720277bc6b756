// Tests prefix sharing between real processes: a prefix that one process has computed is not
// computed again for another process, also after the first process was killed. Prompts of different
// namespaces share no prefixes.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

std::vector<TokenId> Prompt(std::size_t count, TokenId first = 10) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(first + static_cast<TokenId>((i * i + i) % 400));
  }
  return tokens;
}

struct Computed {
  PrefixReuse reuse;
  std::vector<float> logits;  // of the last token
};

class PrefixSharingE2eTest : public test::ServedDaemonTest {
 protected:
  explicit PrefixSharingE2eTest(std::vector<std::string> arguments = {"-c", "8192"})
      : ServedDaemonTest(std::move(arguments)) {}

  static Computed Compute(const Client& client, const std::vector<TokenId>& prompt,
                          std::uint16_t flags = 0) {
    auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence);
    auto decoding =
        client.StartDecode(sequence->handle(), prompt, Pos{0}, wire::LogitsWanted::kLast, flags);
    EXPECT_TRUE(decoding) << decoding.error().message;
    auto logits = decoding->Next();
    EXPECT_TRUE(logits) << logits.error().message;
    return {logits->reuse(), {logits->values().begin(), logits->values().end()}};
  }
  // Starts a process that computes the prompt and then waits to be killed. Returns when the prompt
  // is computed.
  pid_t StartVictim(const std::vector<TokenId>& prompt, ConnectOptions options = {}) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      options.socket_path = socket_path();
      auto client = Client::Connect(options);
      if (!client) ::_exit(1);
      const auto sequence = client->Create();
      if (!sequence) ::_exit(2);
      auto decoding = client->StartDecode(*sequence, prompt, Pos{0}, wire::LogitsWanted::kNone);
      if (!decoding || !decoding->Next()) ::_exit(3);
      if (::write(ready[1], "x", 1) != 1) ::_exit(4);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the victim computed nothing";
    ::close(ready[0]);
    return child;
  }
  static void Kill(pid_t child) {
    ::kill(child, SIGKILL);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }
  // Waits until the daemon has noticed that the other clients have ended and has released their
  // sequences.
  static void WaitUntilAlone(const Client& client) {
    const auto is_alone = [&] {
      const auto info = client.Info();
      return info->sessions == 1 && info->sequences_live == info->sequences_retained;
    };
    for (int i = 0; i < 2000 && !is_alone(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(is_alone());
  }
};

TEST_F(PrefixSharingE2eTest, AProcessReusesPromptsOfALiveAndOfAKilledProcess) {
  const std::vector<TokenId> prompt = Prompt(300);
  const Client client = Connect();
  const Computed alone = Compute(client, prompt, wire::kFlagNoPrefix);
  EXPECT_EQ(alone.reuse.limit, PrefixLimit::kOff);
  WaitUntilAlone(client);
  ASSERT_TRUE(client.Call(wire::DropRetainedArgs{}));

  const pid_t victim = StartVictim(prompt);
  const Computed beside = Compute(client, prompt);
  EXPECT_EQ(beside.reuse, (PrefixReuse{299, PrefixOrigin::kLive, PrefixLimit::kComplete}));
  EXPECT_EQ(beside.logits, alone.logits);

  Kill(victim);
  WaitUntilAlone(client);
  const std::uint64_t before = client.Info()->tokens_computed;
  const Computed after = Compute(client, prompt);
  EXPECT_EQ(after.reuse, (PrefixReuse{299, PrefixOrigin::kRetained, PrefixLimit::kComplete}));
  EXPECT_EQ(after.logits, alone.logits);
  const auto info = client.Info();
  EXPECT_EQ(info->tokens_computed, before + 1);
  EXPECT_EQ(info->sequences_retained, 1u);
  EXPECT_GE(info->prefix_hits, 2u);
  EXPECT_EQ(info->prefix_tokens_reused[static_cast<int>(PrefixOrigin::kRetained)], 299u);
}

TEST_F(PrefixSharingE2eTest, AnotherSaltReusesNothing) {
  const std::vector<TokenId> prompt = Prompt(200);
  const pid_t victim = StartVictim(prompt, {.cache_salt = 5});
  const Client client = Connect();
  EXPECT_EQ(Compute(client, prompt).reuse.tokens, 0u);
  const auto salted = Client::Connect({.socket_path = socket_path(), .cache_salt = 5});
  ASSERT_TRUE(salted);
  EXPECT_EQ(Compute(*salted, prompt).reuse.tokens, 199u);
  const auto apart =
      Client::Connect({.socket_path = socket_path(), .shares_prefixes = false, .cache_salt = 5});
  ASSERT_TRUE(apart);
  EXPECT_EQ(Compute(*apart, prompt).reuse.limit, PrefixLimit::kOff);
  Kill(victim);
}

class SmallPoolTest : public PrefixSharingE2eTest {
 protected:
  SmallPoolTest() : PrefixSharingE2eTest({"-c", "1024"}) {}
};

TEST_F(SmallPoolTest, APoolFullOfRetainedSequencesRefusesNoRequest) {
  const Client client = Connect();
  for (TokenId round = 0; round < 8; ++round) {
    Kill(StartVictim(Prompt(200, 10 + 3 * round)));
    WaitUntilAlone(client);
  }
  const auto info = client.Info();
  EXPECT_GT(info->prefix_evictions, 0u);
  EXPECT_EQ(info->free_cells + info->reclaimable_cells, info->pool_cells);
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  auto decoding =
      client.StartDecode(sequence->handle(), Prompt(1000, 90), Pos{0}, wire::LogitsWanted::kNone);
  ASSERT_TRUE(decoding);
  EXPECT_TRUE(decoding->Next());
}

TEST_F(PrefixSharingE2eTest, EightSessionsWithOnePromptComputeItOnce) {
  const Client client = Connect();
  const std::uint64_t before = client.Info()->tokens_computed;
  std::vector<Client> clients;
  const std::vector<TokenId> prompt = Prompt(1024);
  for (int i = 0; i < 8; ++i) clients.push_back(Connect());
  std::vector<Sequence> sequences;
  std::vector<Decoding> decodings;
  for (const Client& each : clients) {
    sequences.push_back(std::move(*each.NewSequence()));
    decodings.push_back(std::move(
        *each.StartDecode(sequences.back().handle(), prompt, Pos{0}, wire::LogitsWanted::kLast)));
  }
  for (Decoding& decoding : decodings) EXPECT_TRUE(decoding.Next());
  EXPECT_EQ(client.Info()->tokens_computed, before + 1024 + 7);
}

}  // namespace
}  // namespace kvd
