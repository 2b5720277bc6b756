// Tests the limits of the tenants' file on requests, state slots and saved bytes with a real
// daemon, and that tenants do not share entries of the prompt cache on disk. tenants_test.cc has
// the other limits of the file.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/support/shares_fixture.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::Fill;
using test::TokensOf;
using testing::HasSubstr;
using Tenant = std::array<std::uint8_t, 16>;

constexpr Tenant kLimited{1};
constexpr Tenant kOther{2};
// The narrowest rings, so that a long generation waits until its client reads.
const ConnectOptions kNarrow{.submission_entries = 8, .completion_entries = 16};

class TenantLimitsTest : public test::ServedDaemonTest {
 protected:
  // `limits`: the lines of the section of kLimited.
  TenantLimitsTest(const char* limits, const char* model)
      : TenantLimitsTest(std::make_shared<test::TemporaryFolder>(), limits, model) {}
  TenantLimitsTest(const std::shared_ptr<test::TemporaryFolder>& folder, const char* limits,
                   const char* model)
      : ServedDaemonTest({"-m", test::DataModel(model), "--store",
                          (folder->path() / "store").string(), "--cache-dir",
                          (folder->path() / "cache").string(), "--tenants",
                          WriteFile(*folder, limits)}),
        folder_(folder) {}

  static std::string WriteFile(const test::TemporaryFolder& folder, const std::string& limits) {
    const std::string path = (folder.path() / "tenants").string();
    std::ofstream(path) << "[01000000000000000000000000000000]\n" << limits;
    return path;
  }
  Client As(const Tenant& tenant, ConnectOptions options = {}) {
    options.socket_path = socket_path();
    options.tenant = tenant;
    options.call_timeout = std::chrono::seconds(60);
    auto client = Client::Connect(options);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  wire::TenantEntry Listed() {
    const auto tenants = Connect().Call(wire::TenantsArgs{});
    EXPECT_TRUE(tenants) << tenants.error().message;
    EXPECT_EQ(tenants->entries.size(), 1u);
    return tenants->entries.front();
  }

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

class TenantRequestsTest : public TenantLimitsTest {
 protected:
  TenantRequestsTest() : TenantLimitsTest("requests = 2\n", "attention") {}

  static Result<Generation> StartLong(const Client& client) {
    KVD_TRY(const SequenceHandle sequence, client.Create());
    const std::vector<TokenId> prompt = TokensOf(1, 10);
    return client.StartGenerate(sequence,
                                {.tokens = prompt, .predict_max = 400, .flags = wire::kIgnoreEos});
  }
};

TEST_F(TenantRequestsTest, ConcurrentRequestsOfATenantAreLimitedOverItsSessions) {
  const Client first = As(kLimited, kNarrow);
  const Client second = As(kLimited, kNarrow);
  const Client third = As(kLimited);
  auto one = StartLong(first);
  ASSERT_TRUE(one) << one.error().message;
  auto two = StartLong(second);
  ASSERT_TRUE(two) << two.error().message;
  const auto refused = third.Create();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_THAT(refused.error().message, HasSubstr("requests in flight: 1 more wanted"));
  EXPECT_THAT(refused.error().message, HasSubstr("2 of 2"));
  EXPECT_EQ(Listed().requests_held, 2u);
  EXPECT_EQ(Listed().requests_max, 2u);
  EXPECT_TRUE(As(kOther).Create()) << "the limit is that of one tenant";
  for (;;) {
    const auto piece = one->Next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (!*piece) break;
  }
  EXPECT_TRUE(third.Create()) << "the last answer of a request makes room";
}

class TenantStatesTest : public TenantLimitsTest {
 protected:
  TenantStatesTest() : TenantLimitsTest("state_slots = 5\n", "attention-and-state") {}
};

TEST_F(TenantStatesTest, StateSlotsOfATenantAreLimited) {
  const Client limited = As(kLimited);
  std::vector<SequenceHandle> filled;
  for (std::size_t number = 0; number < 20; ++number) {
    const auto sequence = Fill(limited, number, 2);
    if (!sequence) {
      EXPECT_EQ(sequence.error().code, Code::kNoSpace) << sequence.error().message;
      EXPECT_THAT(sequence.error().message, HasSubstr("state"));
      break;
    }
    filled.push_back(*sequence);
  }
  EXPECT_GE(filled.size(), 4u);
  EXPECT_LE(filled.size(), 5u);
  EXPECT_LE(Listed().state_slots_held, 5u);
  EXPECT_EQ(Listed().state_slots_max, 5u);
  const Client other = As(kOther);
  for (std::size_t number = 0; number < 8; ++number) {
    const auto sequence = Fill(other, 100 + number, 2);
    EXPECT_TRUE(sequence) << sequence.error().message;
  }
  ASSERT_TRUE(limited.Drop(filled.back()));
  EXPECT_TRUE(Fill(limited, 50, 2)) << "a dropped sequence makes room";
}

class TenantFilesTest : public TenantLimitsTest {
 protected:
  TenantFilesTest() : TenantLimitsTest("saved_bytes = 100000\n", "attention") {}

  // Restarts the daemon without its state, so that its pool is empty.
  void StartEmpty() {
    ASSERT_TRUE(daemon_->Stop());
    std::filesystem::remove_all(daemon_->folder() + "/state");
    ASSERT_TRUE(daemon_->StartAgain());
  }
  PrefixOrigin OriginOf(const Client& client, std::size_t number) {
    const auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    const auto logits = sequence->Decode(TokensOf(number, 300), Pos{0});
    EXPECT_TRUE(logits) << logits.error().message;
    return logits->reuse().origin;
  }
};

TEST_F(TenantFilesTest, SavedBytesOfATenantAreLimitedAndCountAfterARestart) {
  const SaveOptions plain{.with_logits = false, .is_packed = false};
  std::size_t saved = 0;
  {
    const Client limited = As(kLimited);
    const auto sequence = Fill(limited, 1, 160);
    ASSERT_TRUE(sequence) << sequence.error().message;
    for (; saved < 10; ++saved) {
      const auto one = limited.Save(*sequence, "state" + std::to_string(saved), plain);
      if (one) continue;
      EXPECT_EQ(one.error().code, Code::kNoSpace) << one.error().message;
      EXPECT_THAT(one.error().message, HasSubstr("saved bytes: "));
      EXPECT_THAT(one.error().message, HasSubstr("of 100000"));
      break;
    }
    EXPECT_GE(saved, 1u);
    EXPECT_LT(saved, 10u);
    EXPECT_GT(Listed().saved_bytes_held, 0u);
    EXPECT_EQ(Listed().saved_bytes_max, 100'000u);
    const Client other = As(kOther);
    const auto theirs = Fill(other, 2, 160);
    ASSERT_TRUE(theirs) << theirs.error().message;
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(other.Save(*theirs, "state" + std::to_string(i), plain));
    }
  }
  ASSERT_TRUE(daemon_->Stop());
  ASSERT_TRUE(daemon_->StartAgain());
  const Client limited = As(kLimited);
  EXPECT_EQ(limited.Saved()->size(), saved) << "the files of the tenant";
  const auto again = Fill(limited, 1, 160);
  ASSERT_TRUE(again) << again.error().message;
  const auto one_more = limited.Save(*again, "one_more", plain);
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, Code::kNoSpace);
}

TEST_F(TenantFilesTest, APromptOnDiskIsReusedByItsTenantOnly) {
  const Client watcher = Connect();
  {
    const Client first = As(kLimited);
    const std::uint64_t before = watcher.Call(wire::CacheArgs{})->record.spills;
    const auto sequence = Fill(first, 7, 300);
    ASSERT_TRUE(sequence) << sequence.error().message;
    ASSERT_TRUE(first.Retain(*sequence).value_or(false));
    for (int i = 0; i < 4000 && watcher.Call(wire::CacheArgs{})->record.spills == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_NE(watcher.Call(wire::CacheArgs{})->record.spills, before)
        << "the prompt was not written";
  }
  ASSERT_NO_FATAL_FAILURE(StartEmpty());
  EXPECT_EQ(OriginOf(As(kOther), 7), PrefixOrigin::kNone);
  EXPECT_EQ(OriginOf(Connect(), 7), PrefixOrigin::kNone) << "the uid is no tenant";
  EXPECT_EQ(OriginOf(As(kLimited), 7), PrefixOrigin::kDisk);
}

}  // namespace
}  // namespace kvd
