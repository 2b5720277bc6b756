// The calls of the C interface after the connection or the session was lost: a daemon that was
// killed, that was started again without its state, or in which another process has continued the
// session; and kvd_renew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/support/fake_daemon.h"
#include "tests/e2e/c_api/c_api_test.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::kPatienceMs;
using testing::HasSubstr;

const std::vector<kvd_token> kFourTokens = {10, 20, 30, 40};

// What another process of the session does to the sequence of a request in flight, and the reason
// why the request's answer cannot be repeated.
struct OthersChange {
  const char* message;
  int (*make)(kvd_client* other, kvd_sequence sequence);
};
const OthersChange kChanges[] = {
    {"its sequence was edited since",
     [](kvd_client* other, kvd_sequence sequence) {
       return kvd_sequence_remove(other, sequence, 0, 1, nullptr, nullptr, nullptr);
     }},
    {"another request has computed on its sequence since",
     [](kvd_client* other, kvd_sequence sequence) {
       kvd_logits logits;
       return kvd_decode(other, sequence, kFourTokens.data(), 4, -1, KVD_LOGITS_NONE, &logits,
                         nullptr);
     }},
};

class LostSessionTest : public test::CApiTest {
 protected:
  LostSessionTest() : LostSessionTest(std::make_shared<test::TemporaryFolder>()) {}

  // Starts the daemon again with further arguments.
  void StartAgainWith(const std::vector<std::string>& further = {}) {
    std::vector<std::string> arguments = {"-c",
                                          "4096",
                                          "-t",
                                          "1",
                                          "--deterministic",
                                          "--store",
                                          (folder_->path() / "store").string()};
    arguments.insert(arguments.end(), further.begin(), further.end());
    const Status again = daemon_->StartAgain(arguments);
    ASSERT_TRUE(again) << again.error().message;
  }
  kvd_session_info Session() const {
    kvd_session_info info{};
    info.size = sizeof info;
    EXPECT_EQ(kvd_session(client_, &info), KVD_OK) << kvd_error_message();
    return info;
  }
  // Opens a client that continues the session of the token.
  kvd_client* Resume(const kvd_session_info& session) const {
    return Open([&](kvd_connect_options& options) {
      options.outlive_seconds = 100;
      std::copy_n(session.session_token, sizeof session.session_token, options.session_token);
    });
  }
  // Replaces the client by one whose session outlives its connection.
  void OpenOutliving() {
    kvd_close(client_);
    client_ = Open([](kvd_connect_options& options) {
      options.outlive_seconds = 100;
      options.result_arena_bytes = 64 << 10;
    });
  }
  static kvd_generate_params Params(std::int32_t predict_max) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = kFourTokens.data();
    params.token_count = kFourTokens.size();
    params.predict_max = predict_max;
    params.flags = KVD_IGNORE_EOS;
    params.seed = 7;
    return params;
  }
  int TakeAll(kvd_request request) const {
    for (;;) {
      kvd_piece piece;
      const int code = kvd_generate_next(client_, request, kPatienceMs, &piece, nullptr);
      if (code != KVD_OK || piece.kind == KVD_PIECE_END) return code;
    }
  }
  // Kills the daemon, starts it again, and makes the change with another client of the session
  // before client_ reconnects.
  void ChangeAsAnotherProcess(const OthersChange& change, kvd_sequence sequence);
  // Checks that calls of each kind fail with the code in both forms, and write no output.
  void ExpectEveryCallFails(int code, kvd_sequence sequence);

 private:
  explicit LostSessionTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : CApiTest({"--store", (folder->path() / "store").string()}), folder_(folder) {}

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

void LostSessionTest::ChangeAsAnotherProcess(const OthersChange& change, kvd_sequence sequence) {
  daemon_->Kill();
  StartAgainWith();
  kvd_client* other = Resume(Session());
  EXPECT_EQ(change.make(other, sequence), KVD_OK) << kvd_error_message();
  EXPECT_EQ(kvd_leave(other), KVD_OK) << kvd_error_message();
  kvd_close(other);
}

// Connects to a fake daemon.
int ConnectToFake(const FakeDaemon& daemon, std::int32_t connect_timeout_ms, kvd_client** client) {
  const std::string path = daemon.socket_path();
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = path.c_str();
  options.connect_timeout_ms = connect_timeout_ms;
  return kvd_connect(&options, client);
}

void LostSessionTest::ExpectEveryCallFails(int code, kvd_sequence sequence) {
  kvd_sequence made = 0;
  kvd_sequence_info info{};
  kvd_snapshot_info* snapshots = nullptr;
  kvd_token* tokens = nullptr;
  char* text = nullptr;
  std::size_t count = 7;
  kvd_daemon_info daemon{};
  daemon.size = sizeof daemon;
  const kvd_chat_message message = {"user", "a"};
  ExpectRefused({
      {code, "", [&](auto* later) { return kvd_ping(client_, 10, nullptr, later); }},
      {code, "", [&](auto* later) { return kvd_info(client_, &daemon, later); }},
      {code, "", [&](auto* later) { return kvd_defrag(client_, nullptr, later); }},
      {code, "", [&](auto* later) { return kvd_sequence_create(client_, nullptr, &made, later); }},
      {code, "",
       [&](auto* later) {
         return kvd_sequence_fork(client_, sequence, -1, 1, nullptr, &made, nullptr, later);
       }},
      {code, "", [&](auto* later) { return kvd_sequence_query(client_, sequence, &info, later); }},
      {code, "", [&](auto* later) { return kvd_sequence_drop(client_, sequence, 0, later); }},
      {code, "",
       [&](auto* later) { return kvd_publish(client_, sequence, "x", nullptr, nullptr, later); }},
      {code, "", [&](auto* later) { return kvd_snapshots(client_, &snapshots, &count, later); }},
      {code, "", [&](auto* later) { return kvd_save(client_, sequence, "x", 0, nullptr, later); }},
      {code, "",
       [&](auto* later) { return kvd_tokenize(client_, "a", 1, 0, &tokens, &count, later); }},
      {code, "",
       [&](auto* later) { return kvd_chat(client_, &message, 1, 0, &text, &count, later); }},
      {code, "", [&](auto* later) { return kvd_cancel(client_, 1, nullptr, later); }},
  });
  EXPECT_EQ(made, 0u);
  EXPECT_EQ(info.handle, 0u);
  EXPECT_EQ(snapshots, nullptr);
  EXPECT_EQ(tokens, nullptr);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(count, 7u);
  kvd_logits logits;
  const kvd_generate_params params = Params(4);
  EXPECT_EQ(
      kvd_decode(client_, sequence, kFourTokens.data(), 4, 0, KVD_LOGITS_LAST, &logits, nullptr),
      code);
  EXPECT_EQ(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, nullptr), code);
  EXPECT_EQ(kvd_prompt(client_, sequence, "a", 0, nullptr), code);
  EXPECT_EQ(kvd_generate_text(client_, sequence, "a", 0, nullptr, nullptr, nullptr, nullptr), code);
  EXPECT_EQ(kvd_state_seq_get_size(client_, sequence, 0), 0u);
  EXPECT_EQ(kvd_error_code(), code);
}

TEST_F(LostSessionTest, ADaemonThatWasStartedWithoutItsStateDoesNotKnowTheSession) {
  const kvd_session_info before = Session();
  const kvd_sequence sequence = Filled(20);
  const kvd_request generation = Compute(Create());
  kvd_piece piece;
  ASSERT_EQ(kvd_generate_next(client_, generation, kPatienceMs, &piece, nullptr), KVD_OK);
  kvd_sequence made = 0;
  kvd_request create = 0;
  daemon_->Kill();
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &made, &create), KVD_OK)
      << "a submit does not wait for the connection: " << kvd_error_message();
  StartAgainWith({"--cold"});
  ExpectEveryCallFails(KVD_SESSION_LOST, sequence);
  EXPECT_EQ(TakeAll(generation), KVD_SESSION_LOST);
  ASSERT_EQ(kvd_renew(client_), KVD_OK) << kvd_error_message();
  EXPECT_EQ(kvd_finish(client_, create, kPatienceMs), KVD_SESSION_LOST) << "of before the renewal";
  EXPECT_EQ(made, 0u);
  EXPECT_NE(std::memcmp(Session().session_token, before.session_token, 16), 0);
  EXPECT_FALSE(Exists(sequence));
  EXPECT_EQ(kvd_error_code(), KVD_NOT_FOUND) << kvd_error_message();
  EXPECT_EQ(Query(Filled(20)).cell_count, 20u);
}

TEST_F(LostSessionTest, AForgottenStateHasNoSession) {
  const kvd_sequence sequence = Filled(20);
  ASSERT_TRUE(daemon_->Stop());
  const std::string forget =
      test::KvdPath() + " --forget --state-dir " + daemon_->folder() + "/state >/dev/null 2>&1";
  ASSERT_EQ(std::system(forget.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  StartAgainWith();
  ExpectEveryCallFails(KVD_SESSION_LOST, sequence);
  ASSERT_EQ(kvd_renew(client_), KVD_OK) << kvd_error_message();
  EXPECT_FALSE(Exists(sequence));
  EXPECT_EQ(Query(Filled(20)).cell_count, 20u);
}

TEST_F(LostSessionTest, ATokenThatTheDaemonDoesNotKnowOpensNoSession) {
  kvd_session_info session = Session();
  session.session_token[0] ^= 1;
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path().c_str();
  std::copy_n(session.session_token, sizeof session.session_token, options.session_token);
  kvd_client* client = nullptr;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_SESSION_LOST);
  EXPECT_THAT(kvd_error_message(), HasSubstr("session_token"));
  EXPECT_EQ(client, nullptr);
}

TEST_F(LostSessionTest, WithoutADaemonEveryCallIsDisconnectedUntilARenewal) {
  kvd_close(client_);
  client_ = Open([](kvd_connect_options& options) {
    options.reconnect_timeout_ms = -1;
    options.connect_timeout_ms = 200;
  });
  const kvd_sequence sequence = Filled(20);
  const kvd_request generation = Compute(Create());
  kvd_piece piece;
  ASSERT_EQ(kvd_generate_next(client_, generation, kPatienceMs, &piece, nullptr), KVD_OK);
  daemon_->Kill();
  EXPECT_EQ(TakeAll(generation), KVD_DISCONNECTED);
  ExpectEveryCallFails(KVD_DISCONNECTED, sequence);
  EXPECT_EQ(kvd_renew(client_), KVD_DISCONNECTED) << "no daemon listens";
  StartAgainWith();
  ExpectEveryCallFails(KVD_DISCONNECTED, sequence);
  ASSERT_EQ(kvd_renew(client_), KVD_OK) << kvd_error_message();
  EXPECT_EQ(Query(Filled(20)).cell_count, 20u);
}

TEST_F(LostSessionTest, ACallThatReconnectsKeepsItsOwnTimeLimit) {
  kvd_close(client_);
  client_ = Open([](kvd_connect_options& options) { options.timeout_ms = 300; });
  kvd_sequence sequence = 0;
  int code = KVD_TIMEOUT;
  while (code == KVD_TIMEOUT) code = kvd_sequence_create(client_, nullptr, &sequence, nullptr);
  ASSERT_EQ(code, KVD_OK) << kvd_error_message();
  daemon_->Kill();
  EXPECT_EQ(kvd_ping(client_, 0, nullptr, nullptr), KVD_TIMEOUT);
  kvd_request ping = 0;
  ASSERT_EQ(kvd_ping(client_, 0, nullptr, &ping), KVD_OK) << kvd_error_message();
  EXPECT_EQ(kvd_finish(client_, ping, 10), KVD_TIMEOUT);
  std::size_t index = 7;
  EXPECT_EQ(kvd_wait_any(client_, &ping, 1, 10, &index), KVD_TIMEOUT);
  EXPECT_EQ(index, 7u);
  StartAgainWith();
  EXPECT_EQ(kvd_finish(client_, ping, kPatienceMs), KVD_OK) << "a timeout ends no request";
}

TEST_F(LostSessionTest, AGenerationConflictsWithWhatAnotherProcessHasDoneToItsSequence) {
  for (const OthersChange& change : kChanges) {
    SCOPED_TRACE(change.message);
    OpenOutliving();
    const kvd_sequence sequence = Create();
    const kvd_request generation = Compute(sequence);
    kvd_piece piece;
    ASSERT_EQ(kvd_generate_next(client_, generation, kPatienceMs, &piece, nullptr), KVD_OK);
    ChangeAsAnotherProcess(change, sequence);
    EXPECT_EQ(TakeAll(generation), KVD_CONFLICT);
    EXPECT_THAT(kvd_error_message(), HasSubstr(change.message));
  }
}

TEST_F(LostSessionTest, ADecodeConflictsWithWhatAnotherProcessHasDoneToItsSequence) {
  kvd_client* witness = Open();
  for (const OthersChange& change : kChanges) {
    SCOPED_TRACE(change.message);
    // The rows of the tokens exceed the output arena, so the decode waits in the middle.
    OpenOutliving();
    const kvd_sequence sequence = Create();
    const std::vector<kvd_token> tokens(64, 9);
    kvd_request decode = 0;
    ASSERT_EQ(kvd_decode(client_, sequence, tokens.data(), tokens.size(), 0, KVD_LOGITS_ALL,
                         nullptr, &decode),
              KVD_OK);
    kvd_sequence_info info{};
    while (info.cell_count == 0) {
      ASSERT_EQ(kvd_sequence_query(witness, sequence, &info, nullptr), KVD_OK);
    }
    ChangeAsAnotherProcess(change, sequence);
    kvd_logits logits;
    int code = KVD_OK;
    while (code == KVD_OK) {
      code = kvd_decode_next(client_, decode, kPatienceMs, &logits);
      if (code == KVD_OK) (void)kvd_release(client_, &logits);
    }
    EXPECT_EQ(code, KVD_CONFLICT);
    EXPECT_THAT(kvd_error_message(), HasSubstr(change.message));
  }
  kvd_close(witness);
}

TEST_F(LostSessionTest, ADecodeInPiecesContinuesAfterTheRowsThatWereReceived) {
  const std::vector<kvd_token> tokens(64, 9);
  std::vector<std::vector<float>> rows[2];
  for (const bool kills : {false, true}) {
    OpenOutliving();
    kvd_logits logits;
    kvd_request decode = 0;
    const kvd_sequence sequence = Create();
    ASSERT_EQ(kvd_decode(client_, sequence, tokens.data(), 5, 0, KVD_LOGITS_NONE, &logits, nullptr),
              KVD_OK);
    ASSERT_EQ(kvd_decode(client_, sequence, tokens.data(), tokens.size(), 5, KVD_LOGITS_ALL,
                         nullptr, &decode),
              KVD_OK);
    do {
      ASSERT_EQ(kvd_decode_next(client_, decode, kPatienceMs, &logits), KVD_OK)
          << kvd_error_message();
      EXPECT_EQ(logits.row_first, rows[kills].size());
      for (std::uint32_t i = 0; i < logits.row_count; ++i) {
        const float* row = logits.rows + std::size_t{i} * logits.row_floats;
        rows[kills].emplace_back(row, row + logits.row_floats);
      }
      EXPECT_EQ(logits.cell_count, 5 + rows[kills].size());
      EXPECT_EQ(kvd_release(client_, &logits), KVD_OK);
      if (kills && rows[kills].size() < 32) {
        daemon_->Kill();
        StartAgainWith();
      }
    } while (logits.has_more != 0);
    EXPECT_EQ(Query(sequence).cell_count, 5 + tokens.size());
  }
  ASSERT_EQ(rows[0].size(), tokens.size());
  EXPECT_EQ(rows[1], rows[0]);
}

TEST(FakeDaemonCallsTest, ConnectNamesBothVersionsOfTheProtocol) {
  const FakeDaemon daemon({}, [](wire::Welcome& welcome, std::vector<int>&) {
    welcome.version = wire::kProtocolVersion + 1;
  });
  kvd_client* client = nullptr;
  EXPECT_EQ(ConnectToFake(daemon, 10'000, &client), KVD_VERSION_MISMATCH);
  EXPECT_THAT(kvd_error_message(), HasSubstr(std::to_string(wire::kProtocolVersion)));
  EXPECT_THAT(kvd_error_message(), HasSubstr(std::to_string(wire::kProtocolVersion + 1)));
  EXPECT_EQ(client, nullptr);
}

TEST(FakeDaemonCallsTest, ConnectTimesOutIfNoWelcomeComes) {
  const FakeDaemon daemon({}, [](wire::Welcome&, std::vector<int>&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  kvd_client* client = nullptr;
  EXPECT_EQ(ConnectToFake(daemon, 20, &client), KVD_TIMEOUT) << kvd_error_message();
  EXPECT_EQ(client, nullptr);
}

TEST(FakeDaemonCallsTest, ADaemonThatBreaksTheProtocolIsCorrupt) {
  const FakeDaemon without_segment(
      {}, [](wire::Welcome&, std::vector<int>& descriptors) { descriptors.pop_back(); });
  kvd_client* client = nullptr;
  EXPECT_EQ(ConnectToFake(without_segment, 10'000, &client), KVD_CORRUPT) << kvd_error_message();
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (received.submission.verb != static_cast<std::uint16_t>(wire::Verb::kPing)) return false;
    session.Final(received.submission, std::as_bytes(std::span("other bytes")), {});
    return true;
  });
  ASSERT_EQ(ConnectToFake(daemon, 10'000, &client), KVD_OK) << kvd_error_message();
  std::uint64_t nanoseconds = 7;
  EXPECT_EQ(kvd_ping(client, 5, &nanoseconds, nullptr), KVD_CORRUPT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("differ"));
  kvd_request request = 0;
  ASSERT_EQ(kvd_ping(client, 5, &nanoseconds, &request), KVD_OK);
  EXPECT_EQ(kvd_finish(client, request, kPatienceMs), KVD_CORRUPT);
  EXPECT_EQ(nanoseconds, 7u);
  kvd_close(client);
}

}  // namespace
}  // namespace kvd
