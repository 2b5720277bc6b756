// The prompt cache on disk between real daemons: what one computed, another one with nothing in its
// memory need not.
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
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using testing::HasSubstr;

std::vector<TokenId> Prompt(std::size_t count, TokenId first = 10) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(first + static_cast<TokenId>((i * i + i) % 400));
  }
  return tokens;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvd-cache-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::vector<std::filesystem::path> Entries() const {
    std::vector<std::filesystem::path> entries;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      if (file.path().extension() == ".prompt") entries.push_back(file.path());
    }
    return entries;
  }

 private:
  std::string path_;
};

struct Computed {
  PrefixReuse reuse;
  std::vector<float> logits;  // of the last token
};

class PromptCacheE2eTest : public testing::Test {
 protected:
  DaemonProcess Start(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"-c", "8192", "--deterministic", "--cache-dir",
                                          folder_.path()};
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
    auto decoding =
        client.StartDecode(*sequence, prompt, Pos{0}, wire::LogitsWanted::kLast);
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
      const auto cache = client.CacheInfo();
      if (cache && holds(*cache)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "the cache did not come to it";
  }
  static void AwaitEntries(const DaemonProcess& daemon, std::uint64_t count) {
    Await(daemon, [count](const wire::CacheReply& cache) { return cache.entries == count; });
  }

  Folder folder_;
};

TEST_F(PromptCacheE2eTest, APromptIsReadFromDiskByADaemonThatHasNothing) {
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
  EXPECT_EQ(client.CacheInfo()->loads, 1u);
  // Now it is in the pool.
  EXPECT_EQ(Compute(daemon, prompt).reuse.origin, PrefixOrigin::kRetained);
  EXPECT_EQ(client.CacheInfo()->loads, 1u);
}

}  // namespace
}  // namespace kvd
