// Tests the limits for another uid on resources of the daemon outside the memory: connections,
// requests, arenas, held bytes, saved states and the prompt cache. At its limit the uid is refused
// with the numbers, or its own oldest entries are removed. The daemon's own uid can still use its
// part of each resource. Needs root.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/support/shares_fixture.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::Fill;
using test::TokensOf;
using testing::HasSubstr;

class DaemonSharesTest : public test::SharesTest {
 protected:
  using SharesTest::SharesTest;

  Result<Client> ConnectOther(ConnectOptions options = {}) {
    return SharesTest::ConnectOther(std::move(options));
  }
  Result<Client> ConnectOwn(ConnectOptions options = {}) {
    options.socket_path = socket_path();
    options.call_timeout = std::chrono::seconds(60);
    return Client::Connect(options);
  }
  // Waits until the condition holds, for at most 20 s: the daemon notices a release with a delay.
  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 4000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  static void ExpectRefused(const Error& error, const char* sentence) {
    EXPECT_EQ(error.code, Code::kNoSpace) << error.message;
    EXPECT_THAT(test::WithUidOfOther(error.message), HasSubstr(sentence));
  }
};

// ------------------------------------------------------------------------------- connections

class ConnectionSharesTest : public DaemonSharesTest {
 protected:
  ConnectionSharesTest()
      : DaemonSharesTest({"--other-connections", "2", "--other-request-bytes", "6000000",
                          "--other-result-bytes", "20000000"}) {}
};

TEST_F(ConnectionSharesTest, ConnectionsOfAnotherUidAreRefusedAtItsLimit) {
  std::vector<Client> others;
  others.push_back(Other());
  others.push_back(Other());
  const auto third = ConnectOther();
  ASSERT_FALSE(third);
  ExpectRefused(third.error(), "connections: 1 more wanted, owner 65534 holds 2 of 2");
  std::vector<Client> own;
  for (int i = 0; i < 5; ++i) {
    auto client = ConnectOwn();
    ASSERT_TRUE(client) << client.error().message;
    own.push_back(std::move(*client));
  }
  others.pop_back();
  EXPECT_TRUE(Eventually([&] { return ConnectOther().has_value(); }));
}

TEST_F(ConnectionSharesTest, RequestArenasOfAnotherUidCountTogether) {
  constexpr std::uint64_t kBytes = 4'194'304;
  std::optional<Client> first(*ConnectOther({.request_arena_bytes = kBytes}));
  const auto second = ConnectOther({.request_arena_bytes = kBytes});
  ASSERT_FALSE(second);
  ExpectRefused(second.error(),
                "request arena bytes: 4194304 more wanted, owner 65534 holds 4194304 of 6000000");
  const auto own_first = ConnectOwn({.request_arena_bytes = kBytes});
  EXPECT_TRUE(own_first) << own_first.error().message;
  const auto own_second = ConnectOwn({.request_arena_bytes = kBytes});
  EXPECT_TRUE(own_second) << own_second.error().message;
  EXPECT_TRUE(ConnectOther({.request_arena_bytes = 65'536})) << "what is left is its own";
  first.reset();
  EXPECT_TRUE(
      Eventually([&] { return ConnectOther({.request_arena_bytes = kBytes}).has_value(); }));
}

TEST_F(ConnectionSharesTest, ResultArenasOfAnotherUidCountTogether) {
  constexpr std::uint64_t kBytes = 16'777'216;
  const ConnectOptions large{.request_arena_bytes = 65'536, .result_arena_bytes = kBytes};
  std::optional<Client> first(*ConnectOther(large));
  const auto second = ConnectOther(large);
  ASSERT_FALSE(second);
  ExpectRefused(second.error(),
                "result arena bytes: 16777216 more wanted, owner 65534 holds 16777216 of 20000000");
  const auto own_first = ConnectOwn(large);
  EXPECT_TRUE(own_first) << own_first.error().message;
  const auto own_second = ConnectOwn(large);
  EXPECT_TRUE(own_second) << own_second.error().message;
  first.reset();
  EXPECT_TRUE(Eventually([&] { return ConnectOther(large).has_value(); }));
}

// ---------------------------------------------------------------------------------- requests

class RequestSharesTest : public DaemonSharesTest {
 protected:
  RequestSharesTest() : DaemonSharesTest({"--other-requests", "1"}) {}

  // The completion ring has 16 entries, so that a long generation waits until its client reads.
  static ConnectOptions Narrow() { return {.submission_entries = 8, .completion_entries = 16}; }
  static Result<Generation> StartLong(const Client& client, SequenceHandle sequence) {
    const std::vector<TokenId> prompt = TokensOf(1, 10);
    GenerateOptions options;
    options.tokens = prompt;
    options.predict_max = 400;
    options.flags = wire::kIgnoreEos;
    return client.StartGenerate(sequence, options);
  }
};

TEST_F(RequestSharesTest, RequestsInFlightOfAnotherUidAreLimitedOverAllConnections) {
  auto other = ConnectOther(Narrow());
  ASSERT_TRUE(other) << other.error().message;
  const Client sibling = Other();
  const auto sequence = other->Create();
  ASSERT_TRUE(sequence) << sequence.error().message;
  auto generation = StartLong(*other, *sequence);
  ASSERT_TRUE(generation) << generation.error().message;
  const auto refused = sibling.Create();
  ASSERT_FALSE(refused);
  ExpectRefused(refused.error(), "requests in flight: 1 more wanted, owner 65534 holds 1 of 1");
  const auto own = ConnectOwn(Narrow());
  ASSERT_TRUE(own) << own.error().message;
  const auto own_sequence = own->Create();
  ASSERT_TRUE(own_sequence) << own_sequence.error().message;
  const auto own_generation = StartLong(*own, *own_sequence);
  ASSERT_TRUE(own_generation) << own_generation.error().message;
  EXPECT_TRUE(Connect().Create());
  for (;;) {
    const auto piece = generation->Next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (!*piece) break;
  }
  EXPECT_TRUE(sibling.Create()) << "its last answer has come";
}

// -------------------------------------------------------------------------------- held bytes

class HeldSharesTest : public DaemonSharesTest {
 protected:
  HeldSharesTest() : DaemonSharesTest({"--other-held-bytes", "1048576"}) {}
};

TEST_F(HeldSharesTest, PayloadsOfAnotherUidStayWithinItsShare) {
  const ConnectOptions options{.request_arena_bytes = 4u << 20};
  const auto other = ConnectOther(options);
  ASSERT_TRUE(other) << other.error().message;
  const std::string text((1u << 20) + 1, ' ');
  const auto refused = other->Tokenize(text, 0);
  ASSERT_FALSE(refused);
  ExpectRefused(refused.error(), "held bytes: 1048577 more wanted, owner 65534 holds 0 of 1048576");
  const auto own = ConnectOwn(options);
  ASSERT_TRUE(own) << own.error().message;
  const auto tokens = own->Tokenize(text, 0);
  EXPECT_TRUE(tokens) << tokens.error().message;
  EXPECT_TRUE(other->Tokenize("a text", 0));
}

// ------------------------------------------------------------------------------ saved states

class SavedSharesTest : public DaemonSharesTest {
 protected:
  SavedSharesTest() : SavedSharesTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit SavedSharesTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : DaemonSharesTest({"-m", test::DataModel("attention"), "--other-saved-bytes", "100000",
                          "--store", (folder->path() / "store").string()}),
        folder_(folder) {}
  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(SavedSharesTest, SavedFilesOfAnotherUidAreLimitedAndCountAfterARestart) {
  const SaveOptions plain{.with_logits = false, .is_packed = false};
  // Saves files of about 40,000 bytes until a save is refused, checks the refusal and returns the
  // number of saved files.
  const auto save_until_refused = [&](const Client& client, SequenceHandle sequence) {
    std::size_t saved = 0;
    for (; saved < 10; ++saved) {
      const auto one = client.Save(sequence, "state" + std::to_string(saved), plain);
      if (one) continue;
      EXPECT_EQ(one.error().code, Code::kNoSpace) << one.error().message;
      EXPECT_THAT(one.error().message, HasSubstr("saved bytes: "));
      EXPECT_THAT(one.error().message, HasSubstr("of 100000"));
      break;
    }
    return saved;
  };
  std::size_t saved = 0;
  {
    const Client other = Other();
    const auto sequence = Fill(other, 1, 160);
    ASSERT_TRUE(sequence) << sequence.error().message;
    saved = save_until_refused(other, *sequence);
    EXPECT_GE(saved, 1u);
    EXPECT_LT(saved, 10u);
    ASSERT_TRUE(other.RemoveSaved("state0"));
    EXPECT_TRUE(other.Save(*sequence, "state0", plain)) << "what is removed makes room";
  }
  const Client own = Connect();
  const auto sequence = Fill(own, 2, 160);
  ASSERT_TRUE(sequence) << sequence.error().message;
  EXPECT_EQ(save_until_refused(own, *sequence), 10u);
  ASSERT_TRUE(daemon_->Stop());
  ASSERT_TRUE(daemon_->StartAgain());
  const Client other = Other();
  const auto again = Fill(other, 1, 160);
  ASSERT_TRUE(again) << again.error().message;
  const auto one_more = other.Save(*again, "one_more", plain);
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, Code::kNoSpace);
}

// ------------------------------------------------------------------------------ prompt cache

class CacheSharesTest : public DaemonSharesTest {
 protected:
  static constexpr std::size_t kTokens = 300;

  CacheSharesTest() : CacheSharesTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit CacheSharesTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : DaemonSharesTest({"-m", test::DataModel("attention"), "--cache-dir",
                          (folder->path() / "cache").string(), "--cache-mb", "1"}),
        folder_(folder) {}

  // Computes the prompt, retains it and waits until it is written to the prompt cache.
  void WritePrompt(const Client& client, std::size_t number) {
    const Client watcher = Connect();
    const std::uint64_t before = watcher.Call(wire::CacheArgs{})->record.spills;
    Result<SequenceHandle> sequence = Fill(client, number, kTokens);
    ASSERT_TRUE(Eventually([&] {
      if (!sequence) sequence = Fill(client, number, kTokens);
      return sequence.has_value();
    })) << sequence.error().message;
    ASSERT_TRUE(client.Retain(*sequence).value_or(false));
    ASSERT_TRUE(Eventually([&] {
      return watcher.Call(wire::CacheArgs{})->record.spills != before;
    })) << "the prompt was not written";
  }
  // Restarts the daemon without its state, so that its pool is empty.
  void StartEmpty() {
    ASSERT_TRUE(daemon_->Stop());
    std::filesystem::remove_all(daemon_->folder() + "/state");
    ASSERT_TRUE(daemon_->StartAgain());
  }
  PrefixOrigin OriginOf(const Client& client, std::size_t number) {
    const auto sequence = client.Create();
    EXPECT_TRUE(sequence);
    auto decoding =
        client.StartDecode(*sequence, TokensOf(number, kTokens), Pos{0}, wire::LogitsWanted::kLast);
    EXPECT_TRUE(decoding) << decoding.error().message;
    const auto logits = decoding->Next();
    EXPECT_TRUE(logits) << logits.error().message;
    EXPECT_TRUE(client.Drop(*sequence));
    return logits->reuse().origin;
  }

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(CacheSharesTest, PromptsOfAnotherUidEvictNoCacheEntryOfTheOwnUid) {
  constexpr std::uint64_t kShareBytes = (1u << 20) / 4;
  WritePrompt(Connect(), 500);
  const std::uint64_t own_bytes = Connect().Call(wire::CacheArgs{})->record.entry_bytes;
  ASSERT_GT(own_bytes, 0u);
  ASSERT_LT(own_bytes, kShareBytes / 4);
  // Together the prompts have twice as many bytes as the cache may hold.
  const std::size_t count = (2u << 20) / own_bytes + 1;
  {
    const Client other = Other();
    for (std::size_t number = 0; number < count; ++number) {
      ASSERT_NO_FATAL_FAILURE(WritePrompt(other, number));
      EXPECT_LE(Connect().Call(wire::CacheArgs{})->record.entry_bytes, own_bytes + kShareBytes)
          << number;
    }
  }
  EXPECT_GT(Connect().Call(wire::CacheArgs{})->record.entry_bytes, own_bytes + kShareBytes / 2)
      << "its part";
  ASSERT_NO_FATAL_FAILURE(StartEmpty());
  EXPECT_EQ(OriginOf(Connect(), 500), PrefixOrigin::kDisk);
  EXPECT_EQ(OriginOf(Other(), count - 1), PrefixOrigin::kDisk);
  EXPECT_EQ(OriginOf(Other(), 0), PrefixOrigin::kNone) << "its own oldest entry went";
  // The restarted daemon knows the owners of the entries on disk.
  {
    const Client other = Other();
    for (std::size_t number = 0; number < count; ++number) {
      ASSERT_NO_FATAL_FAILURE(WritePrompt(other, 1000 + number));
    }
  }
  EXPECT_LE(Connect().Call(wire::CacheArgs{})->record.entry_bytes, own_bytes + kShareBytes);
  ASSERT_NO_FATAL_FAILURE(StartEmpty());
  EXPECT_EQ(OriginOf(Connect(), 500), PrefixOrigin::kDisk);
}

}  // namespace
}  // namespace kvd
