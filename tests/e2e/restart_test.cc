// Tests daemons that are killed or stopped under load and started again over the same state: with
// several client processes that have many requests in flight, with prompts that share a prefix with
// other sequences, and with verbs that change files.
//
// KVD_RESTARTS: the least number of restarts of the client processes' daemon (default 10).
// KVD_TEST_SEED: the seed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include "tests/e2e/support/client_work.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using std::chrono::microseconds;
using test::HeldBy;
using test::Seen;

class RestartTest : public test::ServedDaemonTest {
 protected:
  explicit RestartTest(std::vector<std::string> arguments = {"-c", "32768", "--deterministic"})
      : ServedDaemonTest(std::move(arguments)) {}

  enum class End { kKilled, kStopped };
  void Restart(End end) {
    if (end == End::kKilled) {
      daemon_->Kill();
    } else {
      const Status stopped = daemon_->Stop();
      ASSERT_TRUE(stopped) << stopped.error().message;
    }
    const Status again = daemon_->StartAgain();
    ASSERT_TRUE(again) << again.error().message;
  }
  static std::vector<TokenId> Prompt() {
    std::vector<TokenId> prompt;
    for (TokenId i = 0; i < 300; ++i) prompt.push_back(10 + i * 7 % 500);
    return prompt;
  }

  struct Answer {
    std::vector<TokenId> tokens;
    std::vector<TokenId> held;
    std::vector<float> logits;  // the logits after one more token
  };
  // Runs a generation and calls `meanwhile` after `pieces` pieces of it.
  Answer Generate(const Client& client, std::size_t pieces,
                  const std::function<void()>& meanwhile = {}) {
    Answer answer;
    const auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    const std::vector<TokenId> prompt = Prompt();
    SamplingParams sampling = DefaultSamplingAt(3.0f);
    sampling.repeat_penalty = 1.1f;
    auto generation = sequence->Generate({.tokens = prompt,
                                          .predict_max = 150,
                                          .sampling = sampling,
                                          .seed = 5,
                                          .flags = wire::kIgnoreEos});
    EXPECT_TRUE(generation) << generation.error().message;
    for (std::size_t count = 0;; ++count) {
      if (count == pieces && meanwhile) meanwhile();
      auto piece = generation->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece || !*piece) break;
      answer.tokens.insert(answer.tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    }
    const auto entry = sequence->Query();
    EXPECT_TRUE(entry) << entry.error().message;
    const auto logits = sequence->Decode(std::vector<TokenId>{7}, Pos{entry->next_pos});
    EXPECT_TRUE(logits) << logits.error().message;
    if (logits) answer.logits.assign(logits->values().begin(), logits->values().end());
    answer.held = HeldBy(client, sequence->handle());
    return answer;
  }
  // `first_flags`: GenerateFlags of the generation that is resumed later.
  void ExpectTheSamplerGoesOn(const SamplingParams& sampling, std::uint32_t first_flags);
  std::uint64_t PrefixHits(const Client& client) { return client.Info()->prefix_hits; }
};

TEST_F(RestartTest, AGenerationWithASharedPrefixContinuesWithTheSameBits) {
  const Client other = Connect();
  const auto source = other.NewSequence();
  ASSERT_TRUE(source);
  ASSERT_TRUE(source->Decode(Prompt(), Pos{0}));
  const Client client = Connect();
  const std::uint64_t hits = PrefixHits(client);
  const Answer right = Generate(client, 0);
  EXPECT_EQ(PrefixHits(client), hits + 1);
  ASSERT_EQ(right.tokens.size(), 150u);
  for (const End end : {End::kKilled, End::kStopped}) {
    for (const std::size_t pieces : {0u, 1u, 2u, 40u}) {
      std::uint64_t hits_before = 0;
      const Answer answer = Generate(client, pieces, [&] {
        // When the first piece arrives, the prompt has taken its prefix from the other sequence.
        hits_before = PrefixHits(other);
        Restart(end);
      });
      if (pieces > 0) {
        EXPECT_GT(hits_before, 0u);
      }
      EXPECT_EQ(answer.tokens, right.tokens);
      EXPECT_EQ(answer.held, right.held);
      EXPECT_EQ(answer.logits, right.logits);
    }
  }
}

// Samplers whose draws depend on the seed alone, on the tokens before, and on the draws before.
std::vector<SamplingParams> SamplersWithState() {
  const SamplingParams plain = DefaultSamplingAt(3.0f);
  SamplingParams dry = plain;
  dry.dry_multiplier = 2;
  dry.dry_allowed_length = 1;
  dry.dry_penalty_last = -1;
  dry.xtc_probability = 0.5f;
  SamplingParams mirostat = plain;
  mirostat.mirostat = 2;
  mirostat.mirostat_tau = 4;
  mirostat.mirostat_eta = 0.5f;
  SamplingParams adaptive = plain;
  adaptive.adaptive_target = 0.2f;
  adaptive.chain = *ParseSamplerNames("top_k;temperature;adaptive_p");
  return {plain, dry, mirostat, adaptive};
}

TEST_F(RestartTest, AGenerationContinuesWithItsSamplerAfterARestart) {
  for (const SamplingParams& sampling : SamplersWithState()) ExpectTheSamplerGoesOn(sampling, 0);
}

TEST_F(RestartTest, AGenerationContinuesWithTheDrawsOfLlamaCppAfterARestart) {
  for (const SamplingParams& sampling : SamplersWithState())
    ExpectTheSamplerGoesOn(sampling, wire::kLlamaDraws);
}

void RestartTest::ExpectTheSamplerGoesOn(const SamplingParams& sampling,
                                         std::uint32_t first_flags) {
  const Client client = Connect();
  const auto draw = [&](const Sequence& sequence, std::span<const TokenId> prompt,
                        std::int32_t count, const std::function<void()>& meanwhile) {
    std::vector<TokenId> tokens;
    const std::uint32_t flags =
        prompt.empty() ? wire::kContinue | wire::kResumeSampler : first_flags;
    auto generation = sequence.Generate({.tokens = prompt,
                                         .predict_max = count,
                                         .sampling = sampling,
                                         .seed = 5,
                                         .flags = wire::kIgnoreEos | flags});
    EXPECT_TRUE(generation) << generation.error().message;
    while (generation) {
      auto piece = generation->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece || !*piece) break;
      tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
      if (tokens.size() == 5 && meanwhile) meanwhile();
    }
    return tokens;
  };
  const auto whole = client.NewSequence();
  ASSERT_TRUE(whole);
  const std::vector<TokenId> right = draw(*whole, Prompt(), 60, {});
  ASSERT_EQ(right.size(), 60u);
  const std::vector<TokenId> rest(right.begin() + 20, right.end());
  for (const End end : {End::kKilled, End::kStopped}) {
    const auto sequence = client.NewSequence();
    ASSERT_TRUE(sequence);
    (void)draw(*sequence, Prompt(), 20, {});
    const auto fork = sequence->Fork();
    ASSERT_TRUE(fork) << fork.error().message;
    Restart(end);
    EXPECT_EQ(draw(*sequence, {}, 40, [&] { Restart(end); }), rest);
    EXPECT_EQ(draw(*fork, {}, 40, {}), rest);
  }
}

// Formats the results of a client's work as text with one line per list. The client's process
// writes the text to a pipe.
std::string Told(const Seen& seen) {
  std::string text = std::to_string(seen.forks) + "\n";
  for (const auto* lists : {&seen.generated, &seen.held}) {
    for (const auto& list : *lists) {
      for (const TokenId token : list) text += std::to_string(token) + " ";
      text += "\n";
    }
  }
  for (const float value : seen.logits) text += std::to_string(std::bit_cast<int>(value)) + " ";
  return text;
}

class Worker {
 public:
  explicit Worker(const std::string& socket_path) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      auto client = Client::Connect(
          {.socket_path = socket_path, .reconnect_timeout = std::chrono::seconds(60)});
      bool is_told = ::write(ends[1], "", 1) == 1;
      const std::string text = client ? Told(test::Work(*client)) : client.error().message;
      is_told = is_told && ::write(ends[1], text.data(), text.size()) == std::ssize(text);
      ::_exit(is_told && !testing::Test::HasFailure() ? 0 : 1);
    }
    ::close(ends[1]);
    // A client reconnects only to a daemon that has welcomed it, so wait until it is connected.
    char connected = 0;
    EXPECT_EQ(::read(ends[0], &connected, 1), 1);
    reader_ = std::thread([this, end = ends[0]] {
      char bytes[4096];
      for (ssize_t got = 0; (got = ::read(end, bytes, sizeof bytes)) > 0;) {
        told_.append(bytes, static_cast<std::size_t>(got));
      }
      ::close(end);
      is_over_ = true;
    });
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (reader_.joinable()) (void)Finish();
  }

  bool is_over() const { return is_over_; }
  // Waits for the end of the process and returns the text that it has written. The test fails if
  // the process has failed.
  std::string Finish() {
    reader_.join();
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << told_.substr(0, 200);
    return told_;
  }

 private:
  pid_t pid_ = -1;
  std::string told_;
  std::atomic<bool> is_over_ = false;
  std::thread reader_;
};

int RestartsMin() {
  const char* const restarts = std::getenv("KVD_RESTARTS");
  return restarts == nullptr ? 10 / static_cast<int>(test::Stride(2)) : std::atoi(restarts);
}

// A random time before the next restart. The largest possible time doubles every 16 restarts, up to
// 256 times the given time, and begins with four times the given time in sanitizer builds, so that
// the work also ends in slow builds, where reconnecting takes long.
microseconds Pause(std::mt19937_64* random, std::uint64_t microseconds_max, int restarts) {
  microseconds_max *= test::Stride(4);
  return microseconds((*random)() % (microseconds_max << std::min(restarts / 16, 8)));
}

TEST_F(RestartTest, ProcessesGetTheSameResultsUnderKills) {
  constexpr std::size_t kWorkers = 3;
  const std::string right = Worker(socket_path()).Finish();
  ASSERT_TRUE(right.starts_with("120\n")) << right.substr(0, 200);
  std::mt19937_64 random(test::Seed());
  const auto is_over = [](const auto& worker) { return worker->is_over(); };
  int restarts = 0;
  while (restarts < RestartsMin() && !HasFailure()) {
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      workers.push_back(std::make_unique<Worker>(socket_path()));
    }
    for (int now = 0; !std::ranges::all_of(workers, is_over); ++now, ++restarts) {
      // The restart happens at any moment, also while clients reconnect.
      std::this_thread::sleep_for(Pause(&random, 100'000, now));
      ASSERT_NO_FATAL_FAILURE(Restart(random() % 4 == 0 ? End::kStopped : End::kKilled));
    }
    for (const auto& worker : workers) {
      const std::string told = worker->Finish();
      const auto differs = std::ranges::mismatch(told, right).in1 - told.begin();
      EXPECT_TRUE(told == right) << "from character " << differs << " of " << right.size()
                                 << " on: " << told.substr(static_cast<std::size_t>(differs), 200);
    }
  }
  std::printf("%d restarts\n", restarts);
  ExpectServesOthers();
}

class SmallRestartTest : public RestartTest {
 protected:
  SmallRestartTest() : RestartTest({"-c", "1024"}) {}
};

TEST_F(SmallRestartTest, PromptsOfADeadClientAreReusableAndEvictableAtOnce) {
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 900; ++i) prompt.push_back(10 + i % 700);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto client = Client::Connect({.socket_path = socket_path()});
    const auto sequence = client->NewSequence();
    const bool is_computed = sequence && sequence->Decode(prompt, Pos{0}).has_value();
    if (is_computed && ::write(ends[1], "", 1) == 1) ::pause();
    ::_exit(1);
  }
  ::close(ends[1]);
  char computed = 1;
  ASSERT_EQ(::read(ends[0], &computed, 1), 1);
  ::close(ends[0]);
  daemon_->Kill();
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const Status again = daemon_->StartAgain();
  ASSERT_TRUE(again) << again.error().message;

  const Client client = Connect();
  const auto same = client.NewSequence();
  ASSERT_TRUE(same);
  ASSERT_TRUE(same->Decode(prompt, Pos{0}));
  EXPECT_EQ(PrefixHits(client), 1u);
  ASSERT_TRUE(client.Drop(same->handle()));
  const auto other = client.NewSequence();
  ASSERT_TRUE(other);
  const std::vector<TokenId> more(1000, 800);
  const auto decoded = other->Decode(more, Pos{0});
  EXPECT_TRUE(decoded) << decoded.error().message;
}

class StoredRestartTest : public RestartTest {
 protected:
  StoredRestartTest() : RestartTest({"-c", "16384", "--store", Folder()}) {}
  ~StoredRestartTest() override { std::filesystem::remove_all(Folder()); }
  static std::string Folder() {
    return (std::filesystem::temp_directory_path() / ("kvd-restart-" + std::to_string(::getpid())))
        .string();
  }
};

TEST_F(StoredRestartTest, ChangesOfFilesAndPrefixesAreAppliedOnce) {
  const int rounds = 25 / static_cast<int>(test::Stride(4));
  const auto pinned_count = static_cast<std::size_t>((rounds + 1) / 2);
  const auto retained_count = static_cast<std::size_t>(rounds / 2);
  const Client client = Connect();
  std::atomic<bool> is_done = false;
  std::jthread work([&] {
    for (int round = 0; round < rounds; ++round) {
      const std::string name = "round-" + std::to_string(round);
      const auto sequence = client.Create();
      ASSERT_TRUE(sequence) << sequence.error().message;
      std::vector<TokenId> tokens(100, 5);
      tokens[0] = 10 + round;
      auto decoding = client.StartDecode(*sequence, tokens, Pos{0}, wire::LogitsWanted::kNone);
      ASSERT_TRUE(decoding) << decoding.error().message;
      ASSERT_TRUE(decoding->Next());
      const auto saved = client.Save(*sequence, name);
      ASSERT_TRUE(saved) << saved.error().message;
      const auto loaded = client.Load(name);
      ASSERT_TRUE(loaded) << loaded.error().message;
      const auto file = client.ExportLlama(std::array{*sequence});
      ASSERT_TRUE(file) << file.error().message;
      const auto imported = client.ImportLlama(*file);
      ASSERT_TRUE(imported) << imported.error().message;
      const Status removed = client.RemoveSaved(name);
      ASSERT_TRUE(removed) << removed.error().message;
      if (round % 2 == 0) {
        const auto pinned = client.Call(wire::PinArgs{*sequence, true});
        ASSERT_TRUE(pinned) << pinned.error().message;
      }
      const auto stays = client.Retain(*sequence);
      ASSERT_TRUE(stays) << stays.error().message;
      EXPECT_TRUE(*stays);
    }
    is_done = true;
  });
  std::mt19937_64 random(test::Seed());
  for (int restarts = 0; !is_done && !HasFailure(); ++restarts) {
    std::this_thread::sleep_for(Pause(&random, 30'000, restarts));
    Restart(End::kKilled);
  }
  work.join();
  const auto info = client.Info();
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->sequences_live, 3 * (pinned_count + retained_count));
  EXPECT_EQ(info->sequences_retained, retained_count) << "without the pinned ones";
  EXPECT_TRUE(client.Saved()->empty());
  const auto dropped = client.Call(wire::DropRetainedArgs{});
  ASSERT_TRUE(dropped) << dropped.error().message;
  EXPECT_EQ(dropped->count, retained_count);
  const auto pinned = client.Call(wire::DropRetainedArgs{}, {}, wire::kFlagForce);
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_EQ(pinned->count, pinned_count);
}

}  // namespace
}  // namespace kvd
