// Tests clients whose connection is cut, whose daemon is killed, or whose daemon has lost its
// state: the client library reconnects by itself, and each request is executed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/e2e/support/client_work.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::HeldBy;
using test::Seen;
using test::Work;
using testing::HasSubstr;

class ReconnectTest : public test::ServedDaemonTest {
 protected:
  explicit ReconnectTest(std::vector<std::string> arguments = {"-c", "16384"})
      : ServedDaemonTest(std::move(arguments)) {}

  static void Cut(const Client& client) {
    (void)::shutdown(client.connection()->socket_for_test(), SHUT_RDWR);
  }
  // Repeats the work, calling `interrupt` while it runs, until `interrupt` was called at least
  // `interruptions` times. Checks that every result is the one without interruptions.
  void ExpectUnchangedBy(int interruptions, const std::function<void(const Client&)>& interrupt) {
    Seen right;
    {
      const Client client = Connect();
      right = Work(client);
    }
    ASSERT_EQ(right.generated[0].size(), 360u);
    ASSERT_EQ(right.forks, 120u);
    for (int count = 0; count < interruptions && !HasFailure();) {
      const Client client = Connect();
      Seen seen;
      std::atomic<bool> is_done = false;
      std::jthread worker([&] {
        seen = Work(client);
        is_done = true;
      });
      for (; !is_done; ++count) interrupt(client);
      worker.join();
      EXPECT_EQ(seen.generated, right.generated);
      EXPECT_EQ(seen.held, right.held);
      EXPECT_EQ(seen.logits, right.logits);
      EXPECT_EQ(seen.forks, right.forks);
    }
  }
  bool Eventually(const std::function<bool()>& holds) {
    const auto deadline = steady_clock::now() + test::kPatience;
    while (!holds()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
};

TEST_F(ReconnectTest, LostConnectionsChangeNoResult) {
  ExpectUnchangedBy(3, [&](const Client& client) {
    std::this_thread::sleep_for(milliseconds(20));
    Cut(client);
  });
}

TEST_F(ReconnectTest, KilledDaemonsChangeNoResult) {
  ExpectUnchangedBy(2, [&](const Client&) {
    // In a sanitizer build a daemon that lives for 60 ms computes almost nothing.
    std::this_thread::sleep_for(milliseconds(60) * test::Stride(5));
    daemon_->Kill();
    const Status again = daemon_->StartAgain();
    ASSERT_TRUE(again) << again.error().message;
  });
  ExpectServesOthers();
}

TEST_F(ReconnectTest, AReconnectedSessionKeepsItsIdAndSequences) {
  const Client client = Connect();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>{5, 6, 7}, Pos{0}));
  const std::uint64_t session = client.session().session;
  for (const bool kills : {false, true}) {
    if (kills) {
      daemon_->Kill();
      ASSERT_TRUE(daemon_->StartAgain());
    } else {
      Cut(client);
    }
    EXPECT_EQ(HeldBy(client, sequence->handle()), (std::vector<TokenId>{5, 6, 7}));
    const auto entry = sequence->Query();
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->session, session);
  }
  // A new session gets a larger number than the resumed session.
  EXPECT_GT(Connect().session().session, session);
}

TEST_F(ReconnectTest, LogitsReceivedBeforeAReconnectionStayReadable) {
  const Client client = Connect();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  auto logits = sequence->Decode(std::vector<TokenId>{5, 6, 7}, Pos{0});
  ASSERT_TRUE(logits);
  const std::vector<float> copy(logits->values().begin(), logits->values().end());
  daemon_->Kill();
  ASSERT_TRUE(daemon_->StartAgain());
  auto more = sequence->Decode(std::vector<TokenId>{8}, Pos{3});
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(std::vector<float>(logits->values().begin(), logits->values().end()), copy);
}

TEST_F(ReconnectTest, ALostSessionIsAnErrorUntilTheClientAcceptsANewOne) {
  const Client client = Connect();
  const auto sequence = client.Create();
  ASSERT_TRUE(sequence);
  daemon_->Kill();
  std::filesystem::remove_all(daemon_->folder() + "/state");
  ASSERT_TRUE(daemon_->StartAgain());
  for (int i = 0; i < 2; ++i) {
    const auto entry = client.Query(*sequence);
    ASSERT_FALSE(entry);
    EXPECT_EQ(entry.error().code, Code::kSessionLost) << entry.error().message;
  }
  ASSERT_TRUE(client.Renew());
  EXPECT_TRUE(client.Ping(10));
  EXPECT_EQ(client.Query(*sequence).error().code, Code::kNotFound);
  EXPECT_TRUE(client.NewSequence());
  EXPECT_TRUE(client.Renew()) << "nothing has failed";
}

TEST_F(ReconnectTest, WithoutADaemonReconnectingTimesOut) {
  auto client =
      Client::Connect({.socket_path = socket_path(), .reconnect_timeout = milliseconds(200)});
  ASSERT_TRUE(client);
  auto hasty =
      Client::Connect({.socket_path = socket_path(), .reconnect_timeout = milliseconds(0)});
  ASSERT_TRUE(hasty);
  auto patient = Client::Connect({.socket_path = socket_path(),
                                  .call_timeout = milliseconds(50),
                                  .reconnect_timeout = std::chrono::hours(1)});
  ASSERT_TRUE(patient);
  daemon_->Kill();
  const auto ping = client->Ping();
  ASSERT_FALSE(ping);
  EXPECT_EQ(ping.error().code, Code::kDisconnected);
  EXPECT_THAT(ping.error().message, HasSubstr("in 200 ms reconnecting failed"));
  EXPECT_EQ(hasty->Ping().error().code, Code::kDisconnected);
  EXPECT_EQ(patient->Ping().error().code, Code::kTimeout) << "a call's own time holds";
  ASSERT_TRUE(daemon_->StartAgain());
  ASSERT_TRUE(client->Renew());
  EXPECT_TRUE(client->Ping());
  EXPECT_TRUE(patient->Ping());
}

TEST_F(ReconnectTest, AnotherProcessResumesTheSessionByItsToken) {
  SequenceHandle sequence = SequenceHandle::kNone;
  ConnectOptions options{.socket_path = socket_path()};
  std::optional<Client> first(Connect());
  options.session_token = first->session().session_token;
  sequence = *first->Create();
  ASSERT_TRUE(first->Fork(sequence, -1, 2));
  Cut(*first);
  auto second = Client::Connect(options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->session().session, first->session().session);
  EXPECT_TRUE(second->Clear(sequence));
  const auto forks = second->Fork(sequence, -1, 2);
  ASSERT_TRUE(forks) << forks.error().message;
  EXPECT_EQ(second->List()->size(), 5u);
  // A wrong token does not resume a session.
  options.session_token[0] ^= 1;
  const auto wrong = Client::Connect(options);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kSessionLost);
}

class PatientDaemonTest : public ReconnectTest {
 protected:
  PatientDaemonTest() : ReconnectTest({"--reconnect-wait-ms", "3600000"}) {}
};

TEST_F(PatientDaemonTest, AGoodbyeEndsTheSessionAtOnceAndALostConnectionDoesNot) {
  const Client witness = Connect();
  const auto live = [&] { return witness.Info()->sequences_live; };
  {
    const Client client = Connect();
    ASSERT_TRUE(client.Create());
    ASSERT_EQ(live(), 1u);
  }
  EXPECT_TRUE(Eventually([&] { return live() == 0; }));
  ASSERT_EQ(Eventually([&] { return witness.Info()->sessions == 1; }), true);
  const Client client = Connect();
  ASSERT_TRUE(client.Create());
  Cut(client);
  EXPECT_TRUE(Eventually([&] { return witness.Info()->sessions == 1; }));
  EXPECT_EQ(live(), 1u);
  EXPECT_TRUE(client.Ping());
}

class HastyDaemonTest : public ReconnectTest {
 protected:
  HastyDaemonTest() : ReconnectTest({"--reconnect-wait-ms", "1"}) {}
};

TEST_F(HastyDaemonTest, ALateClientHasLostItsSession) {
  const Client witness = Connect();
  const Client client = Connect();
  ASSERT_TRUE(client.Create());
  Cut(client);
  EXPECT_TRUE(Eventually([&] { return witness.Info()->sequences_live == 0; }));
  EXPECT_EQ(client.Ping().error().code, Code::kSessionLost);
}

}  // namespace
}  // namespace kvd
