// Kills the real daemon (SIGKILL) at random moments while clients publish, replace and unpublish
// snapshots and fork, edit and drop sequences. After each kill, the test starts the daemon again
// with the same state. Every acknowledged snapshot must exist, and its next logits must have the
// same bits as in a daemon that was never killed.
//
// KVD_KILLS: the number of kills (default 200, multiplied by KVD_TEST_SCALE). KVD_TEST_SEED: the
// seed of the run (default 1). tools/soak runs this test for hours.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <thread>

#include "tests/e2e/support/served_daemon.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

constexpr std::uint32_t kNamesPerThread = 4;
constexpr std::uint32_t kThreads = 3;
constexpr std::uint32_t kNames = kNamesPerThread * kThreads;
constexpr std::uint32_t kTexts = 24;
constexpr TokenId kNextToken = 9;

int KillCount() {
  if (const char* const kills = std::getenv("KVD_KILLS")) return std::atoi(kills);
  return test::Scaled(200, 5);
}

std::uint64_t Seed() {
  const char* const seed = std::getenv("KVD_TEST_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

// Returns the tokens of the text with the given number (1 to kTexts). The first 20 tokens of the
// texts are one of three beginnings.
std::vector<TokenId> TextOf(std::uint32_t number) {
  std::vector<TokenId> tokens = test::RandomTokens(number % 3, 20, 90);
  const std::vector<TokenId> rest = test::RandomTokens(100 + number, 5 + 3 * number, 90);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

// The number of the text that a snapshot name stands for; 0: the name does not exist. While a
// change is in progress, the two numbers differ, and after a kill either is allowed. The names are
// shared with the process in which the clients run.
struct NameState {
  std::atomic<std::uint32_t> acknowledged{0};
  std::atomic<std::uint32_t> asked_for{0};
};
struct SharedState {
  std::array<NameState, kNames> names;
  std::atomic<std::uint64_t> changes{0};  // number of acknowledged changes
};

std::string NameOf(std::uint32_t name) { return "name-" + std::to_string(name); }

Result<Client> Connect(const std::string& socket_path) {
  return Client::Connect({.socket_path = socket_path, .client_name = "load"});
}

// Decodes the tokens and returns the last row of logits.
Result<std::vector<float>> Decode(const Sequence& sequence, std::span<const TokenId> tokens,
                                  Pos pos) {
  KVD_TRY(const Logits logits, sequence.Decode(tokens, pos));
  const auto row = logits.row(logits.row_count() - 1);
  return std::vector<float>(row.begin(), row.end());
}

// A client that puts load on the daemon. A client of the load runs until its process or the daemon
// is killed. An error ends the client and is not reported.
class LoadThread {
 public:
  LoadThread(Client client, std::uint32_t thread, std::uint64_t seed, SharedState& shared)
      : client_(std::move(client)), thread_(thread), random_(seed), shared_(shared) {}

  void Run() {
    while (DoSomething()) {
    }
  }

 private:
  std::uint32_t In(std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(random_() % (most - least + 1));
  }
  std::uint32_t SomeName() { return thread_ * kNamesPerThread + In(0, kNamesPerThread - 1); }

  bool DoSomething() {
    switch (In(0, 7)) {
      case 0:
      case 1: return Publish();
      case 2: return Unpublish();
      default: return ForkAndEdit();
    }
  }

  template <class Change>
  bool ChangeName(std::uint32_t name, std::uint32_t text, Change change) {
    NameState& state = shared_.names[name];
    state.asked_for.store(text);
    if (!change()) return false;  // the daemon was killed, or has refused a valid change
    state.acknowledged.store(text);
    shared_.changes.fetch_add(1);
    return true;
  }

  bool Publish() {
    const std::uint32_t text = In(1, kTexts);
    const std::vector<TokenId> tokens = TextOf(text);
    const auto sequence = client_.NewSequence();
    if (!sequence) return false;
    // Decodes in two pieces, so that the second one continues in a partly filled block.
    const std::size_t first = In(1, static_cast<std::uint32_t>(tokens.size()) - 1);
    if (!Decode(*sequence, std::span(tokens).first(first), Pos{0}) ||
        !Decode(*sequence, std::span(tokens).subspan(first),
                Pos{static_cast<std::int32_t>(first)})) {
      return false;
    }
    const std::uint32_t name = SomeName();
    return ChangeName(
        name, text, [&] { return sequence->Publish(NameOf(name), wire::kFlagForce).has_value(); });
  }

  bool Unpublish() {
    const std::uint32_t name = SomeName();
    if (shared_.names[name].acknowledged.load() == 0) return true;
    return ChangeName(name, 0, [&] { return client_.Unpublish(NameOf(name)).has_value(); });
  }

  bool ForkAndEdit() {
    const std::uint32_t name = SomeName();
    if (shared_.names[name].acknowledged.load() == 0) return true;
    const auto fork = client_.AttachSnapshot(NameOf(name));
    if (!fork) return false;
    const auto entry = fork->Query();
    if (!entry) return false;
    const std::array tokens = {kNextToken, kNextToken, TokenId{3}};
    if (!Decode(*fork, tokens, Pos{entry->next_pos})) return false;
    const auto cut = static_cast<std::int32_t>(In(1, entry->cell_count));
    switch (In(0, 3)) {
      case 0: return fork->RemoveRange({Pos{cut}, kPosEnd}).has_value();
      case 1: return fork->Add({Pos{cut}, kPosEnd}, 3).has_value();
      case 2: return fork->ForkMany(3).has_value();
      default: return fork->Clear().has_value();
    }
  }

  Client client_;
  const std::uint32_t thread_;
  std::mt19937_64 random_;
  SharedState& shared_;
};

class DaemonKillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const bytes = ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(bytes, MAP_FAILED);
    shared_ = new (bytes) SharedState();
  }
  void TearDown() override { ::munmap(shared_, sizeof(SharedState)); }

  Result<DaemonProcess> StartDaemon() const {
    return DaemonProcess::Start(
        {.kvd_path = test::KvdPath(),
         .arguments = {"-m", model_, "-c", "8192", "-t", "1", "--deterministic"}});
  }

  // Starts a process with the clients. The test kills the clients' process together with the
  // daemon.
  pid_t StartLoad(const std::string& socket_path, std::uint64_t seed) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        auto client = Connect(socket_path);
        if (client)
          LoadThread(std::move(*client), thread, seed * kThreads + thread, *shared_).Run();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ::_exit(0);
  }

  // Computes the expected logits of kNextToken after each text with a daemon that is not killed.
  void ComputeRightAnswers() {
    Result<DaemonProcess> daemon = StartDaemon();
    ASSERT_TRUE(daemon) << daemon.error().message;
    const auto client = Connect(daemon->socket_path());
    ASSERT_TRUE(client) << client.error().message;
    for (std::uint32_t text = 1; text <= kTexts; ++text) {
      const std::vector<TokenId> tokens = TextOf(text);
      const auto sequence = client->NewSequence();
      ASSERT_TRUE(sequence);
      ASSERT_TRUE(Decode(*sequence, tokens, Pos{0}));
      const auto row =
          Decode(*sequence, {&kNextToken, 1}, Pos{static_cast<std::int32_t>(tokens.size())});
      ASSERT_TRUE(row) << row.error().message;
      right_[text] = *row;
    }
  }

  // Expects that every name stands for one of its two allowed texts and that the snapshot continues
  // with the expected logits. Sets both numbers of the name to the text that was found.
  void CheckSnapshots(const Client& client) {
    for (std::uint32_t name = 0; name < kNames; ++name) {
      SCOPED_TRACE(NameOf(name));
      NameState& state = shared_->names[name];
      const std::uint32_t acknowledged = state.acknowledged.load();
      const std::uint32_t asked_for = state.asked_for.load();
      const auto fork = client.AttachSnapshot(NameOf(name));
      if (!fork) {
        ASSERT_EQ(fork.error().code, Code::kNotFound) << fork.error().message;
        ASSERT_TRUE(acknowledged == 0 || asked_for == 0)
            << "text " << acknowledged << " was acknowledged but does not exist";
        state.acknowledged.store(0);
      } else {
        const auto entry = fork->Query();
        ASSERT_TRUE(entry);
        const auto is_text = [&](std::uint32_t text) {
          return text != 0 && TextOf(text).size() == entry->cell_count;
        };
        const std::uint32_t text = is_text(asked_for) ? asked_for : acknowledged;
        ASSERT_TRUE(is_text(text)) << entry->cell_count << " cells are neither of text "
                                   << acknowledged << " nor of " << asked_for;
        const auto row = Decode(*fork, {&kNextToken, 1}, Pos{entry->next_pos});
        ASSERT_TRUE(row) << row.error().message;
        ASSERT_EQ(std::memcmp(row->data(), right_[text].data(), row->size() * sizeof(float)), 0)
            << "the logits differ from those of a daemon that was never killed";
        state.acknowledged.store(text);
        ++checked_;
      }
      state.asked_for.store(state.acknowledged.load());
    }
    // Drops the sequences of the killed clients, whose sessions still wait for a resumption.
    const auto sequences = client.List();
    ASSERT_TRUE(sequences);
    for (const wire::SequenceEntry& entry : *sequences) {
      if ((entry.flags & layout::kSequencePublished) != 0) continue;
      (void)client.Drop(SequenceHandle{entry.handle}, Force::kYes);
    }
  }

  void KillAgainAndAgain(const std::string& model, int kills);

  std::string model_;
  SharedState* shared_ = nullptr;
  std::map<std::uint32_t, std::vector<float>> right_;
  std::uint64_t checked_ = 0;
};

void DaemonKillTest::KillAgainAndAgain(const std::string& model, int kills) {
  model_ = model;
  ASSERT_NO_FATAL_FAILURE(ComputeRightAnswers());
  Result<DaemonProcess> daemon = StartDaemon();
  ASSERT_TRUE(daemon) << daemon.error().message;
  std::mt19937_64 random(Seed());
  for (int kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    const std::uint64_t before = shared_->changes.load();
    const std::uint64_t wanted = before + random() % 12;
    const pid_t load = StartLoad(daemon->socket_path(), Seed() * 100'000 + random() % 100'000);
    // Kills at a random time after a random number of changes.
    for (int wait = 0; wait < 600'000 && shared_->changes.load() < wanted; ++wait) ::usleep(100);
    EXPECT_GE(shared_->changes.load(), wanted) << "the clients make no progress";
    ::usleep(static_cast<useconds_t>(random() % 2000));
    daemon->Kill();
    ::kill(load, SIGKILL);
    ::waitpid(load, nullptr, 0);

    const Status started = daemon->StartAgain();
    ASSERT_TRUE(started) << started.error().message;
    const auto client = Connect(daemon->socket_path());
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_NO_FATAL_FAILURE(CheckSnapshots(*client)) << daemon->log_text();
  }
  const std::string log = daemon->log_text();
  EXPECT_EQ(log.find("sequence_dropped"), std::string::npos) << log;
  std::size_t warm = 0;
  for (std::size_t at = log.find("warm_start"); at != std::string::npos;
       at = log.find("warm_start", at + 1)) {
    ++warm;
  }
  EXPECT_EQ(warm, static_cast<std::size_t>(kills));
  std::printf("%d kills, %llu acknowledged changes, %llu snapshots continued bit for bit\n", kills,
              static_cast<unsigned long long>(shared_->changes.load()),
              static_cast<unsigned long long>(checked_));
}

TEST_F(DaemonKillTest, AcknowledgedStateSurvivesEveryKillAndContinuesBitForBit) {
  KillAgainAndAgain(test::TinyModelPath(test::TinyLlama()), KillCount() - KillCount() / 4);
}

// Half of the layers of this model have a recurrent state.
TEST_F(DaemonKillTest, AcknowledgedRecurrentStatesSurviveEveryKill) {
  KillAgainAndAgain("models/notebook-1m-hybrid-q8_0.gguf", KillCount() / 4);
}

}  // namespace
}  // namespace kvd
