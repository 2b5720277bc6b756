// Clients whose connection is cut, whose daemon is killed, or whose daemon forgets: they go on by
// themselves, and everything that they asked for happens once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "shm/wire_check.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(60);

// What a client that works for a while has seen, which no interruption may change.
struct Seen {
  std::vector<std::vector<TokenId>> generated;
  std::vector<std::vector<TokenId>> held;  // of the sequences at the end
  std::vector<float> logits;
  std::size_t forks = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

class ReconnectTest : public test::ServedDaemonTest {
 protected:
  explicit ReconnectTest(std::vector<std::string> arguments = {"-c", "16384"})
      : ServedDaemonTest(std::move(arguments)) {}

  static void Cut(const Client& client) {
    (void)::shutdown(client.connection()->socket_for_test(), SHUT_RDWR);
  }
  static std::vector<TokenId> HeldBy(const Client& client, SequenceHandle sequence) {
    std::vector<TokenId> tokens;
    const auto cells = client.ReadTokens(sequence);
    EXPECT_TRUE(cells) << cells.error().message;
    if (cells) {
      for (const TokenAt& cell : *cells) tokens.push_back(cell.token);
    }
    return tokens;
  }
  static std::vector<TokenId> GenerateOn(const Sequence& sequence, std::int32_t count,
                                         std::uint64_t seed) {
    const std::vector<TokenId> prompt = {10, 20, 30, 40};
    std::vector<TokenId> tokens;
    auto generation = sequence.Generate({.tokens = prompt,
                                         .predict_max = count,
                                         .temperature = 0.9f,
                                         .seed = seed,
                                         .flags = wire::kIgnoreEos});
    EXPECT_TRUE(generation) << generation.error().message;
    if (!generation) return tokens;
    for (;;) {
      auto piece = generation->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece || !*piece) return tokens;
      tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    }
  }

  // Many requests at once: generations, forks, removals, decodes; the same ones every time.
  static Seen Work(const Client& client) {
    constexpr std::size_t kGenerators = 3;
    Seen seen;
    seen.generated.resize(kGenerators);
    std::vector<Sequence> sequences;
    for (std::size_t i = 0; i <= kGenerators; ++i) {
      auto sequence = client.NewSequence();
      EXPECT_TRUE(sequence) << sequence.error().message;
      if (!sequence) return seen;
      sequences.push_back(std::move(*sequence));
    }
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < kGenerators; ++i) {
        threads.emplace_back([&, i] {
          for (std::uint64_t round = 0; round < 3; ++round) {
            const auto tokens = GenerateOn(sequences[i], 120, 1 + i + 10 * round);
            seen.generated[i].insert(seen.generated[i].end(), tokens.begin(), tokens.end());
          }
        });
      }
      threads.emplace_back([&] { Edit(client, sequences.back(), &seen); });
    }
    for (const Sequence& sequence : sequences) {
      seen.held.push_back(HeldBy(client, sequence.handle()));
    }
    const auto listed = client.List();
    EXPECT_TRUE(listed) << listed.error().message;
    if (listed) {
      // Others' that were let go stay, as prefixes.
      const auto own = std::ranges::count(*listed, client.session().session,
                                          [](const auto& entry) { return entry.session; });
      seen.forks = static_cast<std::size_t>(own) - sequences.size();
    }
    return seen;
  }
  // Forks, removals and decodes; what is applied twice or not at all shows in its counts.
  static void Edit(const Client& client, const Sequence& sequence, Seen* seen) {
    std::vector<SequenceHandle> forks;
    for (TokenId round = 0; round < 60; ++round) {
      const std::vector<TokenId> tokens(7, 100 + round);
      const auto entry = sequence.Query();
      ASSERT_TRUE(entry) << entry.error().message;
      auto logits = sequence.Decode(tokens, Pos{entry->next_pos});
      ASSERT_TRUE(logits) << logits.error().message;
      seen->logits.assign(logits->values().begin(), logits->values().end());
      const auto made = client.Fork(sequence.handle(), -1, 3);
      ASSERT_TRUE(made) << made.error().message;
      forks.insert(forks.end(), made->begin(), made->end());
      const auto removed = sequence.RemoveRange({.begin = Pos{entry->next_pos + 2}});
      ASSERT_TRUE(removed) << removed.error().message;
      ASSERT_EQ(*removed, 5u);
      ASSERT_TRUE(client.Drop(forks.front()));
      forks.erase(forks.begin());
    }
  }
  // Interrupts the work until it is done.
  void ExpectUnchangedBy(const std::function<void(const Client&)>& interrupt) {
    Seen right;
    {
      const Client client = Connect();
      right = Work(client);
    }
    ASSERT_EQ(right.generated[0].size(), 360u);
    ASSERT_EQ(right.forks, 120u);
    const Client client = Connect();
    Seen seen;
    std::atomic<bool> is_done = false;
    std::jthread worker([&] {
      seen = Work(client);
      is_done = true;
    });
    while (!is_done) interrupt(client);
    worker.join();
    EXPECT_EQ(seen.generated, right.generated);
    EXPECT_EQ(seen.held, right.held);
    EXPECT_EQ(seen.logits, right.logits);
    EXPECT_EQ(seen.forks, right.forks);
  }
  bool Eventually(const std::function<bool()>& holds) {
    const auto deadline = steady_clock::now() + kPatience;
    while (!holds()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
};

TEST_F(ReconnectTest, CutConnectionsChangeNothing) {
  int cuts = 0;
  ExpectUnchangedBy([&](const Client& client) {
    std::this_thread::sleep_for(milliseconds(20));
    Cut(client);
    ++cuts;
  });
  EXPECT_GE(cuts, 3);
}

TEST_F(ReconnectTest, KilledDaemonsChangeNothing) {
  int kills = 0;
  ExpectUnchangedBy([&](const Client&) {
    std::this_thread::sleep_for(milliseconds(60));
    daemon_->Kill();
    const Status again = daemon_->StartAgain();
    ASSERT_TRUE(again) << again.error().message;
    ++kills;
  });
  EXPECT_GE(kills, 2);
  ExpectServesOthers();
}

TEST_F(ReconnectTest, TheSessionIsTheSameAndItsSequencesAreThere) {
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
  // New sessions are not confused with it.
  EXPECT_GT(Connect().session().session, session);
}

TEST_F(ReconnectTest, LogitsFromBeforeStayReadable) {
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

TEST_F(ReconnectTest, AForgetfulDaemonIsAnErrorUntilTheClientGoesOnAnew) {
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

TEST_F(ReconnectTest, WithoutADaemonTheTimeEnds) {
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
  EXPECT_THAT(ping.error().message, HasSubstr("in 200 ms none came back"));
  EXPECT_EQ(hasty->Ping().error().code, Code::kDisconnected);
  EXPECT_EQ(patient->Ping().error().code, Code::kTimeout) << "a call's own time holds";
  ASSERT_TRUE(daemon_->StartAgain());
  ASSERT_TRUE(client->Renew());
  EXPECT_TRUE(client->Ping());
  EXPECT_TRUE(patient->Ping());
}

TEST_F(ReconnectTest, ATokenTakesTheSessionUpInAnotherProcessToo) {
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
  // A wrong one takes nothing.
  options.session_token[0] ^= 1;
  const auto wrong = Client::Connect(options);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kSessionLost);
}

class PatientDaemonTest : public ReconnectTest {
 protected:
  PatientDaemonTest() : ReconnectTest({"--reconnect-wait-ms", "3600000"}) {}
};

TEST_F(PatientDaemonTest, AGoodbyeGivesUpAtOnceALostConnectionWaits) {
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

TEST_F(HastyDaemonTest, WhoComesTooLateHasLostItsSession) {
  const Client witness = Connect();
  const Client client = Connect();
  ASSERT_TRUE(client.Create());
  Cut(client);
  EXPECT_TRUE(Eventually([&] { return witness.Info()->sequences_live == 0; }));
  EXPECT_EQ(client.Ping().error().code, Code::kSessionLost);
}

}  // namespace
}  // namespace kvd
