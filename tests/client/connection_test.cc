// Tests client connections to a fake daemon: handshake, waiting, outputs in pieces, order of
// release, timeouts, several threads, death of the daemon and fork(2).
#include "client/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "client/client.h"
#include "shm/peer_socket.h"
#include "tests/client/support/fake_daemon.h"

namespace kvd {
namespace {

using wire::Verb;

Client ConnectTo(const FakeDaemon& daemon, ConnectOptions options) {
  options.socket_path = daemon.socket_path();
  auto client = Client::Connect(options);
  if (!client) ADD_FAILURE() << client.error().message;
  return std::move(client).value();
}
Client ConnectTo(const FakeDaemon& daemon) { return ConnectTo(daemon, daemon.options()); }

bool IsVerb(const ReceivedSubmission& received, Verb verb) {
  return received.submission.verb == static_cast<std::uint16_t>(verb);
}

std::vector<std::byte> Row(float value) {
  const std::vector<float> row(FakeDaemon::kVocab, value);
  const auto bytes = std::as_bytes(std::span(row));
  return {bytes.begin(), bytes.end()};
}

TEST(HandshakeTest, AValidWelcomeIsAccepted) {
  const FakeDaemon daemon;
  const Client client = ConnectTo(daemon);
  EXPECT_EQ(client.session().session, 7u);
  EXPECT_EQ(client.session().vocab_size, FakeDaemon::kVocab);
  EXPECT_EQ(client.session().daemon_pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_TRUE(client.Ping(100));
}

TEST(HandshakeTest, TheErrorWithoutADaemonSaysHowToStartOne) {
  ConnectOptions options;
  options.socket_path = "/nonexistent/kvd.sock";
  const auto client = Client::Connect(options);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kDisconnected);
  EXPECT_NE(client.error().message.find("/nonexistent/kvd.sock; start one with: kvd"),
            std::string::npos);
}

TEST(HandshakeTest, BadOptionsAreNamedBeforeConnecting) {
  ConnectOptions options;
  options.socket_path = "/nonexistent/kvd.sock";
  options.client_name = std::string(33, 'x');
  EXPECT_NE(Client::Connect(options).error().message.find("client_name"), std::string::npos);
  options.client_name = "";
  options.submission_entries = 5;
  EXPECT_NE(Client::Connect(options).error().message.find("submission_entries"), std::string::npos);
  options.submission_entries = 0;
  options.socket_path = std::string(200, 'x');
  EXPECT_NE(Client::Connect(options).error().message.find("socket path"), std::string::npos);
}

TEST(HandshakeTest, ARefusalIsTheDaemonsError) {
  const FakeDaemon daemon({}, [](wire::Welcome& welcome, std::vector<int>& descriptors) {
    welcome.code = static_cast<std::uint8_t>(Code::kPermission);
    std::strcpy(welcome.message, "uid 5 is not let in");
    descriptors.clear();
  });
  const auto client = Client::Connect(daemon.options());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kPermission);
  EXPECT_EQ(client.error().message, "uid 5 is not let in");
}

TEST(HandshakeTest, SegmentsThatDifferFromTheWelcomeAreRefused) {
  const auto connect = [](const FakeDaemon::WelcomeHook& hook) {
    const FakeDaemon daemon({}, hook);
    const auto client = Client::Connect(daemon.options());
    EXPECT_FALSE(client);
    return client ? Error{} : client.error();
  };
  using Fds = std::vector<int>;
  EXPECT_EQ(connect([](wire::Welcome& w, Fds&) { w.version = wire::kProtocolVersion + 1; }).code,
            Code::kVersionMismatch);
  EXPECT_EQ(connect([](wire::Welcome&, Fds& fds) { fds.pop_back(); }).code, Code::kCorrupt);
  EXPECT_EQ(connect([](wire::Welcome&, Fds& fds) { fds.push_back(fds[0]); }).code, Code::kCorrupt);
  EXPECT_EQ(connect([](wire::Welcome&, Fds& fds) { std::swap(fds[0], fds[1]); }).code,
            Code::kCorrupt);
  EXPECT_EQ(connect([](wire::Welcome& w, Fds&) { w.result_segment_bytes += 4096; }).code,
            Code::kCorrupt);
}

TEST(HandshakeTest, ASilentDaemonTimesOut) {
  const FakeDaemon daemon({}, [](wire::Welcome&, std::vector<int>&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  ConnectOptions options = daemon.options();
  options.connect_timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(Client::Connect(options).error().code, Code::kTimeout);
}

TEST(HandshakeTest, AConnectionClosedBeforeTheWelcomeIsRetried) {
  FakeDaemon daemon;
  daemon.HangUpFirst(4);
  const auto client = Client::Connect(daemon.options());
  EXPECT_TRUE(client) << client.error().message;
  EXPECT_EQ(daemon.accepted_count(), 5);
}

TEST(HandshakeTest, ATimeoutReportsTheCauseOfTheLastAttempt) {
  FakeDaemon daemon;
  daemon.HangUpFirst(1'000'000);
  ConnectOptions options = daemon.options();
  options.connect_timeout = std::chrono::milliseconds(100);
  const auto client = Client::Connect(options);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kDisconnected);
  EXPECT_THAT(client.error().message, testing::HasSubstr("no welcome: the peer has hung up"));
  EXPECT_THAT(client.error().message, testing::HasSubstr("100 ms"));
  EXPECT_GT(daemon.accepted_count(), 1);
  daemon.HangUpFirst(1'000'000);
  options.connect_timeout = std::chrono::milliseconds(0);
  EXPECT_FALSE(Client::Connect(options));
}

TEST(HandshakeTest, ARetryWaitsWhileNoDaemonIsThere) {
  auto daemon = std::make_unique<FakeDaemon>();
  const ConnectOptions options = daemon->options();
  const auto folder = std::filesystem::path(options.socket_path).parent_path();
  daemon->HangUpFirst(1);
  std::jthread restart([&] {
    while (daemon->accepted_count() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::filesystem::rename(folder, folder.string() + "-away");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::filesystem::rename(folder.string() + "-away", folder);
  });
  const auto client = Client::Connect(options);
  EXPECT_TRUE(client) << client.error().message;
  restart.join();
}

TEST(HandshakeTest, ARefusalAndAnAbsentDaemonAreNotRetried) {
  const FakeDaemon daemon({}, [](wire::Welcome& welcome, std::vector<int>& descriptors) {
    welcome.code = static_cast<std::uint8_t>(Code::kNoSpace);
    welcome.descriptor_count = 0;
    descriptors.clear();
  });
  EXPECT_EQ(Client::Connect(daemon.options()).error().code, Code::kNoSpace);
  EXPECT_EQ(daemon.accepted_count(), 1);
  ConnectOptions options = daemon.options();
  options.socket_path += "-none";
  options.connect_timeout = std::chrono::hours(1);
  const auto client = Client::Connect(options);
  EXPECT_EQ(client.error().code, Code::kDisconnected);
  EXPECT_THAT(client.error().message, testing::HasSubstr("no daemon at"));
}

TEST(ConnectionTest, FragmentsOfTextAreJoined) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kReadText)) return false;
    for (const std::string_view part : {"one ", "two ", ""}) {
      session.More(received.submission, std::as_bytes(std::span(part)), {});
    }
    session.Final(received.submission, std::as_bytes(std::span("three", 5)), {});
    return true;
  });
  const Client client = ConnectTo(daemon);
  EXPECT_EQ(client.ReadText(SequenceHandle{5}).value(), "one two three");
}

TEST(ConnectionTest, TextLargerThanTheArenaArrivesWhole) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kReadText)) return false;
    const std::vector<std::byte> part(30'000, std::byte{'x'});
    for (int i = 0; i < 50; ++i) session.More(received.submission, part, {});
    session.Final(received.submission, {}, {});
    return true;
  });
  ConnectOptions options = daemon.options();
  options.result_arena_bytes = 65536;
  options.submission_entries = 8;
  const Client client = ConnectTo(daemon, options);
  EXPECT_EQ(client.ReadText(SequenceHandle{5}).value(), std::string(1'500'000, 'x'));
  EXPECT_TRUE(client.Ping());
}

TEST(ConnectionTest, ErrorsHaveTheCodeAndMessageOfTheDaemon) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (IsVerb(received, Verb::kReadText)) {
      session.More(received.submission, std::as_bytes(std::span("partial", 7)), {});
    }
    if (!IsVerb(received, Verb::kDrop) && !IsVerb(received, Verb::kReadText)) return false;
    session.Fail(received.submission, Code::kNotFound, "sequence 5: no such handle");
    return true;
  });
  const Client client = ConnectTo(daemon);
  const auto dropped = client.Drop(SequenceHandle{5});
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().code, Code::kNotFound);
  EXPECT_EQ(dropped.error().message, "sequence 5: no such handle");
  EXPECT_EQ(client.ReadText(SequenceHandle{5}).error().message, "sequence 5: no such handle");
  EXPECT_TRUE(client.Ping());
}

TEST(ConnectionTest, LogitsStayValidUntilReleasedInAnyOrder) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kDecode)) return false;
    session.Final(received.submission,
                  Row(static_cast<float>(static_cast<std::uint8_t>(received.payload[0]))),
                  {0, 9, 0});
    return true;
  });
  ConnectOptions options = daemon.options();
  options.result_arena_bytes = 65536;  // room for 1024 rows of logits
  const Client client = ConnectTo(daemon, options);
  const Sequence sequence = client.NewSequence().value();
  std::vector<Logits> held;
  for (TokenId token = 0; token < 10'000; ++token) {
    const TokenId tokens[] = {token % 200};
    auto logits = sequence.Decode(tokens, Pos{0});
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_EQ(logits->row_count(), 1u);
    EXPECT_EQ(logits->cell_count(), 9u);
    EXPECT_EQ(logits->row(0)[3], static_cast<float>(token % 200));
    held.push_back(std::move(*logits));
    if (held.size() == 100) {
      for (std::size_t i = 0; i < held.size(); ++i) {
        ASSERT_EQ(held[i].row(0)[0], static_cast<float>((token - 99 + static_cast<int>(i)) % 200));
      }
      // Releases the newest logits first and the oldest last.
      while (!held.empty()) held.pop_back();
    }
  }
}

TEST(ConnectionTest, LogitsInPiecesArriveOneByOne) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kDecode)) return false;
    std::vector<std::byte> rows;
    for (int row = 0; row < 500; ++row) {
      const auto one = Row(static_cast<float>(row));
      rows.insert(rows.end(), one.begin(), one.end());
    }
    for (std::int64_t piece = 0; piece < 10; ++piece) {
      session.More(received.submission, rows, {0, piece, piece * 500});
    }
    session.Final(received.submission, rows, {0, 5500, 5000});
    return true;
  });
  ConnectOptions options = daemon.options();
  options.result_arena_bytes = 65536;
  const Client client = ConnectTo(daemon, options);
  const Sequence sequence = client.NewSequence().value();
  const TokenId tokens[] = {1};
  auto decoding = sequence.StartDecode(tokens, Pos{0}, wire::LogitsWanted::kAll);
  ASSERT_TRUE(decoding);
  std::size_t row_count = 0;
  for (;;) {
    const auto logits = decoding->Next();
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_EQ(logits->row_first(), row_count);
    EXPECT_EQ(logits->row(499)[0], 499.0f);
    row_count += logits->row_count();
    if (!logits->has_more()) break;
  }
  EXPECT_EQ(row_count, 5500u);
  EXPECT_EQ(decoding->Next().error().code, Code::kNotFound);
}

TEST(ConnectionTest, ACallThatTimesOutLeavesTheConnectionUsable) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kReadText)) return false;
    session.held.push_back(received.submission);
    return true;
  });
  ConnectOptions options = daemon.options();
  options.call_timeout = std::chrono::milliseconds(100);
  const Client client = ConnectTo(daemon, options);
  EXPECT_EQ(client.ReadText(SequenceHandle{5}).error().code, Code::kTimeout);
  EXPECT_TRUE(client.Ping());
}

TEST(ConnectionTest, ARequestCanBeCancelledFromAnotherThread) {
  std::atomic<std::uint64_t> held_request = 0;
  const FakeDaemon daemon([&](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kGenerate)) return false;
    session.held.push_back(received.submission);
    held_request = received.submission.request;
    return true;
  });
  const Client client = ConnectTo(daemon);
  const Sequence sequence = client.NewSequence().value();
  const TokenId tokens[] = {1};
  auto generation = sequence.Generate({.tokens = tokens});
  ASSERT_TRUE(generation);
  std::thread canceller([&] {
    while (held_request == 0) std::this_thread::yield();
    generation->Cancel();
  });
  const auto piece = generation->Next();
  canceller.join();
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, Code::kCancelled);
}

TEST(ConnectionTest, DestroyingAGenerationCancelsIt) {
  std::atomic<bool> was_cancelled = false;
  const FakeDaemon daemon([&](FakeSession& session, const ReceivedSubmission& received) {
    if (IsVerb(received, Verb::kGenerate)) {
      session.held.push_back(received.submission);
      return true;
    }
    if (IsVerb(received, Verb::kCancel)) was_cancelled = true;
    return false;
  });
  const Client client = ConnectTo(daemon);
  const TokenId tokens[] = {1};
  {
    auto generation = client.StartGenerate(SequenceHandle{1}, {.tokens = tokens}).value();
  }
  EXPECT_TRUE(client.Ping());
  EXPECT_TRUE(was_cancelled);
}

TEST(ConnectionTest, ManyThreadsShareOneConnection) {
  const FakeDaemon daemon;
  const Client client = ConnectTo(daemon);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&client, t] {
      for (int i = 0; i < 500; ++i) {
        const auto round_trip =
            client.Ping(static_cast<std::size_t>(t) * 100 + static_cast<std::size_t>(i));
        ASSERT_TRUE(round_trip) << round_trip.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ConnectionTest, MoreRequestsThanTheRingHoldsAreInFlightAtOnce) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kDecode)) return false;
    session.held.push_back(received.submission);
    if (session.held.size() < 100) return true;
    for (const wire::Submission& held : session.held) {
      session.Final(held, Row(static_cast<float>(held.p0)), {});
    }
    session.held.clear();
    return true;
  });
  ConnectOptions options = daemon.options();
  options.submission_entries = 8;
  const Client client = ConnectTo(daemon, options);
  std::vector<Decoding> decodings;
  std::vector<RequestId> ids;
  for (std::int32_t i = 0; i < 100; ++i) {
    const TokenId tokens[] = {1};
    auto decoding =
        client.StartDecode(SequenceHandle{1}, tokens, Pos{i}, wire::LogitsWanted::kLast);
    ASSERT_TRUE(decoding) << decoding.error().message;
    ids.push_back(decoding->request());
    decodings.push_back(std::move(*decoding));
  }
  for (int left = 100; left > 0; --left) {
    const auto index = client.connection()->WaitAny(ids, std::chrono::seconds(20));
    ASSERT_TRUE(index) << index.error().message;
    EXPECT_EQ(decodings[*index].Next()->row(0)[0], static_cast<float>(*index));
  }
  EXPECT_EQ(client.connection()->WaitAny(ids, std::chrono::seconds(1)).error().code,
            Code::kNotFound);
}

TEST(ConnectionTest, RepliesSentBeforeTheDaemonDiedAreDelivered) {
  const FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    if (!IsVerb(received, Verb::kReadText)) return false;
    session.Final(received.submission, std::as_bytes(std::span("last words", 10)), {});
    (void)session.channel().completions().Publish();
    session.HangUp();
    return true;
  });
  const Client client = ConnectTo(daemon);
  EXPECT_EQ(client.ReadText(SequenceHandle{5}).value(), "last words");
  const auto ping = client.Ping();
  ASSERT_FALSE(ping);
  EXPECT_EQ(ping.error().code, Code::kDisconnected);
  EXPECT_NE(ping.error().message.find("has hung up"), std::string::npos);
}

TEST(ConnectionTest, TheDeathOfTheDaemonEndsEveryWait) {
  FakeDaemon daemon([](FakeSession& session, const ReceivedSubmission& received) {
    session.held.push_back(received.submission);
    return true;
  });
  const Client client = ConnectTo(daemon);
  std::vector<std::thread> threads;
  std::atomic<int> disconnected = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto ping = client.Ping();
      if (!ping && ping.error().code == Code::kDisconnected) ++disconnected;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  daemon.Die();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(disconnected, 4);
}

TEST(ConnectionTest, ADaemonThatBreaksTheProtocolIsReportedAsCorrupt) {
  const auto error_of = [](std::function<void(wire::Submission&)> spoil, bool as_piece) {
    const FakeDaemon daemon([&](FakeSession& session, const ReceivedSubmission& received) {
      wire::Submission spoilt = received.submission;
      spoil(spoilt);
      as_piece ? session.More(spoilt, {}, {}) : session.Final(spoilt, {}, {});
      return true;
    });
    const Client client = ConnectTo(daemon);
    const auto ping = client.Ping();
    EXPECT_FALSE(ping);
    return ping ? Error{} : ping.error();
  };
  EXPECT_EQ(error_of([](wire::Submission& s) { s.request += 65536; }, false).code, Code::kCorrupt);
  EXPECT_EQ(error_of([](wire::Submission& s) { s.request = 0; }, true).code, Code::kCorrupt);
  EXPECT_EQ(error_of([](wire::Submission& s) { s.verb = 77; }, false).code, Code::kCorrupt);
}

TEST(ConnectionTest, AForkedChildIsRefusedAndTheParentIsUnaffected) {
  const FakeDaemon daemon;
  const Client client = ConnectTo(daemon);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto ping = client.Ping();
    client.DropLater(SequenceHandle{1});
    ::_exit(!ping && ping.error().code == Code::kInvalidArgument ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(client.Ping());
}

TEST(ConnectionTest, TheErrorForAPayloadLargerThanTheArenaHasBothSizes) {
  const FakeDaemon daemon;
  const Client client = ConnectTo(daemon);
  const auto tokens = client.Tokenize(std::string((1 << 20) + 1, 'x'), 0);
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().code, Code::kTooLarge);
  EXPECT_TRUE(client.Ping());
}

}  // namespace
}  // namespace kvd
