// Tests the time of expiry and the flag "ephemeral" of sequences and snapshots with a real daemon,
// as the C interface and kvctl set and show them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/new_sequence.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint32_t kTtlMax = 31'536'000;
using Options = test::NewSequence;

class LifetimeTest : public test::ServedDaemonTest {
 protected:
  void SetUp() override {
    ServedDaemonTest::SetUp();
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    const std::string path = socket_path();
    options.socket_path = path.c_str();
    options.timeout_ms = 60'000;
    ASSERT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
  }
  void TearDown() override {
    kvd_close(client_);
    ServedDaemonTest::TearDown();
  }

  kvd_sequence_info Query(kvd_sequence sequence) const {
    kvd_sequence_info info{};
    EXPECT_EQ(kvd_sequence_query(client_, sequence, &info, nullptr), KVD_OK) << kvd_error_message();
    return info;
  }
  // Returns the entry of the snapshot; its name is empty if there is no such snapshot.
  kvd_snapshot_info Snapshot(const std::string& name) const {
    kvd_snapshot_info* list = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(kvd_snapshots(client_, &list, &count, nullptr), KVD_OK) << kvd_error_message();
    kvd_snapshot_info found{};
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].name == name) found = list[i];
    }
    kvd_free(list);
    return found;
  }
  kvd_sequence Filled() const {
    kvd_sequence sequence = 0;
    EXPECT_EQ(kvd_sequence_create(client_, nullptr, &sequence, nullptr), KVD_OK);
    const std::vector<kvd_token> tokens(40, 7);
    kvd_logits logits;
    EXPECT_EQ(kvd_decode(client_, sequence, tokens.data(), tokens.size(), 0, KVD_LOGITS_NONE,
                         &logits, nullptr),
              KVD_OK)
        << kvd_error_message();
    return sequence;
  }
  std::string Kvctl(const std::string& arguments, int exit_code = 0) const {
    const test::KvctlOutcome outcome = test::KvctlProcess(socket_path()).Run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << arguments << ": " << outcome.output;
    return outcome.output;
  }

  kvd_client* client_ = nullptr;
};

TEST_F(LifetimeTest, SequencesAreCreatedAndForkedWithALifetime) {
  kvd_sequence plain = 0;
  kvd_sequence brief = 0;
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &plain, nullptr), KVD_OK);
  ASSERT_EQ(kvd_sequence_create(client_, Options(1000, KVD_EPHEMERAL), &brief, nullptr), KVD_OK);
  EXPECT_EQ(Query(plain).expires_in_seconds, 0u);
  EXPECT_EQ(Query(plain).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
  EXPECT_GT(Query(brief).expires_in_seconds, 900u);
  EXPECT_LE(Query(brief).expires_in_seconds, 1000u);
  EXPECT_NE(Query(brief).flags & KVD_SEQUENCE_EPHEMERAL, 0u);

  const kvd_sequence source = Filled();
  kvd_sequence forks[2] = {};
  kvd_fork_info info{};
  ASSERT_EQ(kvd_sequence_fork(client_, source, -1, 2, Options(500, 0), forks, &info, nullptr),
            KVD_OK);
  EXPECT_EQ(info.cell_count, 40u);
  for (const kvd_sequence fork : forks) {
    EXPECT_GT(Query(fork).expires_in_seconds, 400u);
    EXPECT_EQ(Query(fork).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
  }
  kvd_request request = 0;
  kvd_sequence later[2] = {};
  ASSERT_EQ(kvd_sequence_fork(client_, source, 20, 1, Options(0, KVD_EPHEMERAL), later, nullptr,
                              &request),
            KVD_OK);
  ASSERT_EQ(kvd_finish(client_, request, 60'000), KVD_OK);
  ASSERT_EQ(kvd_sequence_create(client_, Options(9, 0), &later[1], &request), KVD_OK);
  ASSERT_EQ(kvd_finish(client_, request, 60'000), KVD_OK);
  EXPECT_EQ(Query(later[0]).expires_in_seconds, 0u);
  EXPECT_NE(Query(later[0]).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
  EXPECT_LE(Query(later[1]).expires_in_seconds, 9u);
  EXPECT_GT(Query(later[1]).expires_in_seconds, 0u);
}

TEST_F(LifetimeTest, SnapshotsArePublishedWithALifetimeAndExpire) {
  const kvd_sequence source = Filled();
  kvd_sequence snapshot = 0;
  ASSERT_EQ(kvd_publish(client_, source, "lasting", nullptr, nullptr, nullptr), KVD_OK);
  ASSERT_EQ(kvd_publish(client_, source, "brief", Options(1, KVD_PUBLIC | KVD_EPHEMERAL), &snapshot,
                        nullptr),
            KVD_OK)
      << kvd_error_message();
  kvd_request request = 0;
  ASSERT_EQ(kvd_publish(client_, source, "long", Options(700, 0), nullptr, &request), KVD_OK);
  ASSERT_EQ(kvd_finish(client_, request, 60'000), KVD_OK) << kvd_error_message();
  EXPECT_EQ(Snapshot("lasting").expires_in_seconds, 0u);
  EXPECT_EQ(Snapshot("lasting").is_ephemeral, 0u);
  EXPECT_GT(Snapshot("long").expires_in_seconds, 600u);
  EXPECT_LE(Snapshot("long").expires_in_seconds, 700u);
  for (int i = 0; i < 2000 && Snapshot("brief").name[0] != 0; ++i) {
    EXPECT_EQ(Snapshot("brief").expires_in_seconds, Snapshot("brief").name[0] != 0 ? 1u : 0u);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_STREQ(Snapshot("brief").name, "");
  EXPECT_STREQ(Snapshot("lasting").name, "lasting");
  ASSERT_EQ(kvd_publish(client_, source, "hidden", Options(0, KVD_EPHEMERAL), &snapshot, nullptr),
            KVD_OK);
  EXPECT_EQ(Snapshot("hidden").is_ephemeral, 1u);
  EXPECT_EQ(Snapshot("hidden").is_public, 0u);
  EXPECT_NE(Query(snapshot).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
}

TEST_F(LifetimeTest, ValuesOutsideTheRangeAndForeignFlagsAreRefused) {
  kvd_sequence sequence = 0;
  EXPECT_EQ(kvd_sequence_create(client_, Options(kTtlMax + 1, 0), &sequence, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("ttl_seconds"));
  EXPECT_EQ(kvd_sequence_create(client_, Options(1, KVD_PUBLIC), &sequence, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_EQ(sequence, 0u);
  const kvd_sequence source = Filled();
  EXPECT_EQ(kvd_sequence_fork(client_, source, -1, 1, Options(kTtlMax + 1, 0), &sequence, nullptr,
                              nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_publish(client_, source, "x", Options(kTtlMax + 1, 0), nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_publish(client_, source, "x", Options(0, KVD_NORMALIZE), nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_publish(client_, source, "x", Options(kTtlMax, 0), nullptr, nullptr), KVD_OK);
}

TEST_F(LifetimeTest, KvctlSetsAndShowsTheLifetimeOfSnapshots) {
  Kvctl("run -n 4 --ignore-eos hello --keep kept --ttl 3000");
  EXPECT_GT(Snapshot("kept").expires_in_seconds, 2900u);
  EXPECT_LE(Snapshot("kept").expires_in_seconds, 3000u);
  const auto shows_expiry = ContainsRegex("(49m [0-9]+s|50m 0s)");
  (void)Filled();
  EXPECT_THAT(Kvctl("snapshots"), shows_expiry);
  EXPECT_THAT(Kvctl("snapshots"), HasSubstr("EXPIRES"));
  EXPECT_THAT(Kvctl("ps"), HasSubstr("EXPIRES"));
  EXPECT_THAT(Kvctl("ps"), shows_expiry);
  EXPECT_THAT(Kvctl("ps"), HasSubstr("never"));
  EXPECT_THAT(Kvctl("run -n 4 hello --ttl 5", 2), HasSubstr("--keep"));

  const std::string handle = std::to_string(Snapshot("kept").sequence);
  EXPECT_THAT(Kvctl("life --ttl 60 " + handle, 1),
              HasSubstr("kvctl publish --force --ttl SECONDS " + handle + " kept"));
  Kvctl("publish --force --ttl 60 --ephemeral " + handle + " kept");
  EXPECT_LE(Snapshot("kept").expires_in_seconds, 60u);
  EXPECT_GT(Snapshot("kept").expires_in_seconds, 0u);
  EXPECT_THAT(Kvctl("snapshots --json"), HasSubstr("\"ephemeral\":true"));
  Kvctl("publish --force " + std::to_string(Snapshot("kept").sequence) + " kept");
  EXPECT_EQ(Snapshot("kept").expires_in_seconds, 0u);
  // Another user's error stays as it is.
  EXPECT_THAT(Kvctl("life --ttl 60 12345", 1), Not(HasSubstr("publish")));
}

}  // namespace
}  // namespace kvd
