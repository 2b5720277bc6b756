// Tests the prompt cache on disk between real daemons: a daemon with an empty pool reads the
// prompts that another daemon has computed.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd::prompt_cache_test {
namespace {

using testing::HasSubstr;

std::vector<TokenId> Prompt(std::size_t count, TokenId first = 10) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(first + static_cast<TokenId>((i * i + i) % 400));
  }
  return tokens;
}

struct Computed {
  PrefixReuse reuse;
  std::vector<float> logits;  // the logits after the last token
};

class PromptCacheE2eTest : public testing::Test {
 protected:
  DaemonProcess Start(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"-c", "8192", "--deterministic", "--cache-dir",
                                          folder_.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto daemon = DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = arguments});
    if (!daemon) ADD_FAILURE() << daemon.error().message;
    return std::move(*daemon);
  }
  static Client Connect(const DaemonProcess& daemon, std::uint64_t salt = 0) {
    auto client = Client::Connect({.socket_path = daemon.socket_path(), .cache_salt = salt});
    if (!client) ADD_FAILURE() << client.error().message;
    return std::move(*client);
  }
  static Computed Compute(const DaemonProcess& daemon, const std::vector<TokenId>& prompt,
                          std::uint64_t salt = 0) {
    const Client client = Connect(daemon, salt);
    auto sequence = client.Create();
    EXPECT_TRUE(sequence);
    auto decoding = client.StartDecode(*sequence, prompt, Pos{0}, wire::LogitsWanted::kLast);
    EXPECT_TRUE(decoding) << decoding.error().message;
    auto logits = decoding->Next();
    EXPECT_TRUE(logits) << logits.error().message;
    Computed computed{logits->reuse(), {logits->values().begin(), logits->values().end()}};
    EXPECT_TRUE(client.Retain(*sequence));
    return computed;
  }
  static void Await(const DaemonProcess& daemon,
                    const std::function<bool(const wire::CacheReply&)>& holds) {
    const Client client = Connect(daemon);
    for (int i = 0; i < 4000; ++i) {
      const auto cache = client.Call(wire::CacheArgs{});
      if (cache && holds(cache->record)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "the cache did not come to it";
  }
  static void AwaitEntries(const DaemonProcess& daemon, std::uint64_t count) {
    Await(daemon, [count](const wire::CacheReply& cache) { return cache.entries == count; });
  }

  std::vector<std::filesystem::path> Entries() const {
    std::vector<std::filesystem::path> entries;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = file.path().filename().string();
      if (name.ends_with(".prompt") && name.front() != '.') entries.push_back(file.path());
    }
    return entries;
  }

  test::TemporaryFolder folder_;
};

TEST_F(PromptCacheE2eTest, AnEmptyDaemonReadsAPromptFromDisk) {
  const std::vector<TokenId> prompt = Prompt(700);
  Computed first;
  {
    DaemonProcess daemon = Start();
    first = Compute(daemon, prompt);
    EXPECT_EQ(first.reuse.tokens, 0u);
    AwaitEntries(daemon, 1);
    ASSERT_TRUE(daemon.Stop());
  }
  DaemonProcess daemon = Start();
  AwaitEntries(daemon, 1);
  const Computed again = Compute(daemon, prompt);
  EXPECT_EQ(again.reuse, (PrefixReuse{699, PrefixOrigin::kDisk, PrefixLimit::kComplete}));
  EXPECT_EQ(again.logits, first.logits);
  const Client client = Connect(daemon);
  EXPECT_EQ(client.Info()->tokens_computed, 1u);
  EXPECT_EQ(client.Info()->prefix_tokens_reused[static_cast<int>(PrefixOrigin::kDisk)], 699u);
  EXPECT_EQ(client.Call(wire::CacheArgs{})->record.loads, 1u);
  // The prompt is in the pool, so that it is not read from disk again.
  EXPECT_EQ(Compute(daemon, prompt).reuse.origin, PrefixOrigin::kRetained);
  EXPECT_EQ(client.Call(wire::CacheArgs{})->record.loads, 1u);
}

TEST_F(PromptCacheE2eTest, TwoDaemonsShareOneDirectory) {
  const std::vector<TokenId> prompt = Prompt(500);
  const DaemonProcess one = Start();
  const DaemonProcess two = Start();
  const Computed first = Compute(one, prompt);
  AwaitEntries(one, 1);
  AwaitEntries(two, 1);
  const Computed second = Compute(two, prompt);
  EXPECT_EQ(second.reuse, (PrefixReuse{499, PrefixOrigin::kDisk, PrefixLimit::kComplete}));
  EXPECT_EQ(second.logits, first.logits);
  // Computes a longer prompt that begins with the tokens of `prompt`.
  std::vector<TokenId> longer = prompt;
  longer.insert(longer.end(), {5, 6, 7});
  EXPECT_EQ(Compute(two, longer).reuse.tokens, 500u);
  Await(two, [](const wire::CacheReply& cache) { return cache.spills == 1; });
  EXPECT_EQ(Entries().size(), 1u) << "the longer one has replaced the other";
  // If another process removes the files, both daemons forget them.
  for (const auto& entry : Entries()) std::filesystem::remove(entry);
  AwaitEntries(one, 0);
  AwaitEntries(two, 0);
}

TEST_F(PromptCacheE2eTest, ADamagedEntryIsReportedAndItsPromptComputed) {
  const std::vector<TokenId> prompt = Prompt(300);
  Computed first;
  {
    DaemonProcess daemon = Start();
    first = Compute(daemon, prompt);
    AwaitEntries(daemon, 1);
    ASSERT_TRUE(daemon.Stop());
  }
  const auto entry = Entries().front();
  const auto middle = std::filesystem::file_size(entry) / 2;
  {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(middle));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(middle));
    file.put(static_cast<char>(byte ^ 0x10));
  }
  const DaemonProcess daemon = Start();
  const Computed again = Compute(daemon, prompt);
  EXPECT_EQ(again.reuse.tokens, 0u);
  EXPECT_EQ(again.logits, first.logits);
  Await(daemon, [](const wire::CacheReply& cache) {
    return cache.entries_dropped == 1 && cache.spills == 1;
  });
  EXPECT_TRUE(test::LogShows(daemon, "cache_entry_dropped"));
  EXPECT_EQ(Entries().size(), 1u) << "written anew";
  const auto info = test::KvctlProcess(daemon.socket_path()).Run("info");
  EXPECT_THAT(info.output, HasSubstr("1 entries"));
  EXPECT_THAT(info.output, HasSubstr("1 damaged"));
}

TEST_F(PromptCacheE2eTest, AnotherSaltReusesNothing) {
  {
    DaemonProcess daemon = Start();
    (void)Compute(daemon, Prompt(300), 5);
    AwaitEntries(daemon, 1);
    ASSERT_TRUE(daemon.Stop());
  }
  const DaemonProcess daemon = Start();
  EXPECT_EQ(Compute(daemon, Prompt(300)).reuse.tokens, 0u);
  EXPECT_EQ(Compute(daemon, Prompt(300), 6).reuse.tokens, 0u);
  EXPECT_EQ(Compute(daemon, Prompt(300), 5).reuse.origin, PrefixOrigin::kDisk);
}

TEST_F(PromptCacheE2eTest, APromptOfARecurrentModelIsReadWithItsStates) {
  const std::vector<std::string> model = {
      "-m", std::filesystem::absolute("models/notebook-1m-hybrid-q8_0.gguf")};
  const std::vector<TokenId> prompt = Prompt(300);
  Computed first;
  {
    DaemonProcess daemon = Start(model);
    first = Compute(daemon, prompt);
    AwaitEntries(daemon, 1);
    ASSERT_TRUE(daemon.Stop());
  }
  const DaemonProcess daemon = Start(model);
  const Computed again = Compute(daemon, prompt);
  EXPECT_EQ(again.reuse, (PrefixReuse{299, PrefixOrigin::kDisk, PrefixLimit::kComplete}));
  EXPECT_EQ(again.logits, first.logits);
}

// Retained sequences that a small pool evicts remain in the prompt cache on disk.
TEST_F(PromptCacheE2eTest, EvictedPromptsAreReadFromDisk) {
  const DaemonProcess daemon = Start({"-c", "1024"});
  for (TokenId round = 0; round < 8; ++round) {
    (void)Compute(daemon, Prompt(300, 10 + 3 * round));
    AwaitEntries(daemon, static_cast<std::uint64_t>(round) + 1);
  }
  EXPECT_GT(Connect(daemon).Info()->prefix_evictions, 0u);
  EXPECT_EQ(Connect(daemon).Call(wire::CacheArgs{})->record.spills_missed, 0u);
  for (TokenId round = 0; round < 8; ++round) {
    const PrefixReuse reuse = Compute(daemon, Prompt(300, 10 + 3 * round)).reuse;
    EXPECT_TRUE(reuse.tokens == 299u || reuse.limit == PrefixLimit::kOnDisk) << round;
  }
  EXPECT_GT(Connect(daemon).Call(wire::CacheArgs{})->record.loads, 0u);
}

}  // namespace
}  // namespace kvd::prompt_cache_test
