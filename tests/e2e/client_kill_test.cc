// Tests clients that are killed (SIGKILL) at random moments: the daemon frees every block,
// descriptor and mapping that they held, and another client gets the same results as without the
// killed clients.
//
// KVD_TEST_SEED replays a run, as far as scheduling allows; KVD_TEST_SCALE multiplies the rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "base/unique_fd.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

int RoundCount() { return test::Scaled(60, 5); }

// ------------------------------------------------------------------------------ killed clients

constexpr std::size_t kSequencesHeld = 5;
constexpr std::int32_t kCellsHeld = 150;  // about the most cells of one sequence

// Performs random operations on its sequences until its process is killed. The operations ignore
// errors.
class Victim {
 public:
  Victim(Client client, std::uint64_t seed) : client_(std::move(client)), random_(seed) {}

  void DoSomething() {
    if (sequences_.empty()) return Create();
    // An operation is chosen more often if a kill during it is more likely to reveal a bug.
    switch (random_() % 16) {
      case 0: return Create();
      case 1:
      case 2: return Fork();
      case 3:
      case 4:
      case 5: return Decode();
      case 6:
      case 7:
      case 8:
      case 9: return Generate();
      case 10:
      case 11: return Publish();
      case 12: return Edit();
      case 13: return (void)Any().Divide({.begin = Pos{0}}, 2);
      case 14: return (void)client_.Tokenize(std::string(4000, 'x'), 0);
      default: return (void)sequences_.erase(sequences_.begin());
    }
  }

 private:
  Sequence& Any() { return sequences_[random_() % sequences_.size()]; }
  void Take(Result<Sequence> sequence) {
    if (sequences_.size() >= kSequencesHeld) sequences_.erase(sequences_.begin());
    if (sequence) sequences_.push_back(std::move(*sequence));
  }
  void Create() { Take(client_.NewSequence()); }
  void Fork() { Take(Any().Fork()); }

  std::vector<TokenId> Tokens(std::size_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(3 + random_() % 200);
    return tokens;
  }
  std::optional<Pos> NextPosWithRoom(Sequence& sequence) {
    const auto entry = sequence.Query();
    if (!entry) return std::nullopt;
    if (entry->cell_count < kCellsHeld) return Pos{entry->next_pos};
    (void)sequence.Clear();
    return Pos{0};
  }
  void Decode() {
    Sequence& sequence = Any();
    const auto pos = NextPosWithRoom(sequence);
    if (!pos) return;
    const auto wanted = static_cast<wire::LogitsWanted>(random_() % 3);
    auto decoding = sequence.StartDecode(Tokens(1 + random_() % 100), *pos, wanted);
    // One of four decodes is detached: the client neither waits for it nor releases its rows.
    if (!decoding) return;
    if (random_() % 4 == 0) return (void)decoding->Detach();
    (void)decoding->Next();
  }
  void Generate() {
    Sequence& sequence = Any();
    if (!NextPosWithRoom(sequence)) return;
    const std::vector<TokenId> prompt = Tokens(1 + random_() % 20);
    auto generation =
        sequence.Generate({.tokens = prompt, .predict_max = 40, .flags = wire::kIgnoreEos});
    if (!generation) return;
    // The generation has about 40 pieces. The generation is cancelled if the client reads fewer
    // pieces.
    const std::uint64_t pieces_max = random_() % 60;
    for (std::uint64_t piece = 0; piece < pieces_max; ++piece) {
      const auto next = generation->Next();
      if (!next || !*next) return;
    }
  }
  void Publish() {
    const std::string name = "victim-" + std::to_string(::getpid());
    const bool is_public = random_() % 2 == 0;
    (void)Any().Publish(
        name, static_cast<std::uint16_t>(wire::kFlagForce | FlagIf(is_public, wire::kFlagPublic)));
    if (random_() % 2 == 0) Take(client_.AttachSnapshot(name));
    (void)client_.Unpublish(name);
  }
  void Edit() {
    Sequence& sequence = Any();
    const Pos begin{static_cast<std::int32_t>(random_() % 50)};
    (void)sequence.RemoveRange({.begin = begin, .end = Pos{begin.value + 10}});
    (void)sequence.Add({.begin = begin}, 7);
  }

  Client client_;
  std::mt19937_64 random_;
  std::vector<Sequence> sequences_;
};

// A process that runs a Victim until it is killed, and writes one byte after each operation.
struct VictimProcess {
  pid_t pid = -1;
  UniqueFd steps;

  static VictimProcess Start(const std::string& socket_path, std::uint64_t seed) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    VictimProcess process;
    process.steps = UniqueFd(ends[0]);
    const UniqueFd written(ends[1]);
    process.pid = ::fork();
    if (process.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)::fcntl(written.get(), F_SETFL, O_NONBLOCK);
      auto client = Client::Connect({.socket_path = socket_path, .client_name = "victim"});
      if (!client) ::_exit(1);
      for (Victim victim(*client, seed);;) {
        (void)!::write(written.get(), "s", 1);
        victim.DoSomething();
      }
    }
    return process;
  }
  // Waits until the process has performed `count` operations.
  void WaitForSteps(std::uint64_t count) const {
    const auto deadline = steady_clock::now() + test::kPatience;
    for (std::uint64_t done = 0; done < count; ++done) {
      char step = 0;
      pollfd readable{.fd = steps.get(), .events = POLLIN, .revents = 0};
      while (::poll(&readable, 1, 1000) == 0) {
        ASSERT_LT(steady_clock::now(), deadline) << "the victim does nothing";
      }
      ASSERT_EQ(::read(steps.get(), &step, 1), 1) << "the victim ended by itself";
    }
  }
  void Kill() const {
    int status = 0;
    ::kill(pid, SIGKILL);
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
};

// ------------------------------------------------------------------------------ held resources

// The daemon's resources that clients hold and that must be free after the clients are killed.
struct Holdings {
  std::uint64_t free_or_reclaimable_cells = 0;
  std::uint64_t live_cells = 0;
  std::uint32_t sequences = 0;
  std::uint32_t sessions = 0;
  std::uint32_t descriptors = 0;
  std::uint32_t mappings = 0;
  friend bool operator==(const Holdings&, const Holdings&) = default;
  // The daemon's workers start threads on demand and keep them: at most one thread for each session
  // that exists at the same time. Each thread has a stack, its guard, and a heap of two mappings. A
  // leaked client would cost two mappings in each round.
  static constexpr std::uint32_t kThreadMappings = 4 * 4;
  bool IsWithin(Holdings other) const {
    const bool is_mapped_alike = mappings <= other.mappings + kThreadMappings &&
                                 other.mappings <= mappings + kThreadMappings;
    other.mappings = mappings;
    return is_mapped_alike && *this == other;
  }
};

std::ostream& operator<<(std::ostream& out, const Holdings& held) {
  return out << "free or reclaimable cells " << held.free_or_reclaimable_cells << ", live cells "
             << held.live_cells << ", sequences " << held.sequences << ", sessions "
             << held.sessions << ", descriptors " << held.descriptors << ", mappings "
             << held.mappings;
}

Holdings HoldingsOf(const Client& client) {
  // Sequences of killed clients stay as retained prefixes until they are evicted or dropped.
  EXPECT_TRUE(client.Call(wire::DropRetainedArgs{}));
  const auto info = client.Info();
  EXPECT_TRUE(info) << info.error().message;
  if (!info) return {};
  return {.free_or_reclaimable_cells = info->free_cells + info->reclaimable_cells,
          .live_cells = info->live_cells,
          .sequences = info->sequences_live,
          .sessions = info->sessions,
          .descriptors = info->descriptors,
          .mappings = info->mappings};
}

// The exact result of a greedy generation.
struct Said {
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // the logits after the prompt's last token
  friend bool operator==(const Said&, const Said&) = default;
};

class ClientKillTest : public test::ServedDaemonTest {
 protected:
  ClientKillTest() : ServedDaemonTest({"-c", "8192"}) {}

  // Forks `prefix`, decodes a question and generates a greedy answer. Calls `meanwhile` between the
  // answer's pieces.
  template <class Meanwhile>
  static void Say(const Sequence& prefix, std::int32_t prefix_cells, Said* said,
                  Meanwhile meanwhile) {
    auto fork = prefix.Fork();
    ASSERT_TRUE(fork) << fork.error().message;
    const std::vector<TokenId> question = {11, 12, 13};
    {
      const auto logits = fork->Decode(question, Pos{prefix_cells});
      ASSERT_TRUE(logits) << logits.error().message;
      said->logits.assign(logits->values().begin(), logits->values().end());
    }
    auto generation = fork->Generate({.tokens = question,
                                      .predict_max = 24,
                                      .sampling = DefaultSamplingAt(0.0f),
                                      .flags = wire::kIgnoreEos});
    ASSERT_TRUE(generation) << generation.error().message;
    for (;;) {
      meanwhile();
      auto piece = generation->Next();
      ASSERT_TRUE(piece) << piece.error().message;
      if (!*piece) return;
      said->tokens.insert(said->tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    }
  }

  // Removes the victims' snapshots: a snapshot outlives the client that has published it.
  static void UnpublishWhatStayed(const Client& client) {
    const auto snapshots = client.Snapshots();
    ASSERT_TRUE(snapshots);
    for (const Snapshot& snapshot : *snapshots) {
      if (snapshot.name.starts_with("victim-")) {
        EXPECT_TRUE(client.Unpublish(snapshot.name)) << snapshot.name;
      }
    }
  }
};

TEST_F(ClientKillTest, ResourcesOfKilledClientsAreFreedWhileAnotherGetsTheSameBits) {
  const std::uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  const Client witness = Connect();
  auto prefix = witness.NewSequence();
  ASSERT_TRUE(prefix);
  constexpr std::int32_t kPrefixCells = 100;
  ASSERT_TRUE(prefix->Decode(std::vector<TokenId>(kPrefixCells, 9), Pos{0}));
  Said right;
  Say(*prefix, kPrefixCells, &right, [] {});
  ASSERT_EQ(right.tokens.size(), 24u);

  std::optional<Holdings> before;
  const int rounds = RoundCount();
  // During the first rounds the daemon allocates memory that it keeps, such as the heaps of its
  // threads.
  constexpr int kWarmRounds = 3;
  for (int round = -kWarmRounds; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", KVD_TEST_SEED=" + std::to_string(seed));
    std::vector<VictimProcess> victims;
    for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
      victims.push_back(VictimProcess::Start(socket_path(), random()));
    }
    if (random() % 4 != 0) victims.front().WaitForSteps(random() % 20);
    // The clients are killed one after the other while the witness receives its tokens.
    Said said;
    Say(*prefix, kPrefixCells, &said, [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
      if (victims.empty() || random() % 6 != 0) return;
      victims.back().Kill();
      victims.pop_back();
    });
    for (const VictimProcess& victim : victims) victim.Kill();
    ASSERT_EQ(said, right) << "bit for bit";

    // The daemon notices the end of a killed client after a short time. The test waits for the
    // daemon at most kPatience.
    const auto deadline = steady_clock::now() + test::kPatience;
    Holdings now;
    int alike = 0;
    for (Holdings last; steady_clock::now() < deadline; last = now) {
      UnpublishWhatStayed(witness);
      now = HoldingsOf(witness);
      if (before && now.IsWithin(*before)) break;
      alike = now == last && now.sessions == 1 ? alike + 1 : 0;
      if (!before && alike == 20) break;
      std::this_thread::sleep_for(milliseconds(5));
    }
    if (round == -1) before = now;
    if (before) {
      ASSERT_TRUE(now.IsWithin(*before)) << now << "\nbefore: " << *before;
    }
  }
  Said said;
  Say(*prefix, kPrefixCells, &said, [] {});
  EXPECT_EQ(said, right);
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
