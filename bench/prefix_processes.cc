// Measures prefix sharing between processes, through the sockets of a real daemon: a prompt that
// another process has computed, against one decode step; eight processes with one cold prompt,
// against eight processes without sharing; a retained prompt after a restart, against an empty
// daemon.
//
// `--model FILE` serves another model than the bundled one. A measured time and the time that it is
// compared with come from the same run; `of_limit` is the ratio of the two times.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/bench_model.h"
#include "bench/must.h"
#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::string model_path;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<std::string> Arguments() {
  std::vector<std::string> arguments = {"-c", "65536"};
  if (!model_path.empty()) arguments.insert(arguments.end(), {"-m", model_path});
  return arguments;
}

DaemonProcess StartDaemon() {
  return Must(
      DaemonProcess::Start({.kvd_path = BinaryFolder() + "/kvd", .arguments = Arguments()}));
}

Client ConnectTo(const DaemonProcess& daemon) {
  return Must(
      Client::Connect({.socket_path = daemon.socket_path(), .client_name = "prefix-bench"}));
}

// Prompts of different seeds have no common prefix.
std::vector<TokenId> Prompt(const Client& client, std::size_t token_count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(token_count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % client.session().vocab_size);
  }
  return tokens;
}

// Returns the seconds until the first token after the prompt, in a new sequence that is then
// dropped.
double FirstToken(const Client& client, std::span<const TokenId> prompt,
                  bool shares_prefix = true) {
  const auto start = Clock::now();
  const Sequence sequence = Must(client.NewSequence());
  Generation generation = Must(sequence.Generate({.tokens = prompt,
                                                  .predict_max = 1,
                                                  .sampling = DefaultSamplingAt(0.0f),
                                                  .flags = wire::kIgnoreEos | wire::kNoText,
                                                  .shares_prefix = shares_prefix}));
  if (!Must(generation.Next())) std::exit(1);
  const auto end = Clock::now();
  while (Must(generation.Next())) {
  }
  return Seconds(end - start);
}

// Returns the seconds of one decode step after the prompt.
double DecodeStep(const Client& client, std::span<const TokenId> prompt) {
  constexpr int kSteps = 100;
  const Sequence sequence = Must(client.NewSequence());
  Generation generation = Must(sequence.Generate({.tokens = prompt,
                                                  .predict_max = kSteps + 1,
                                                  .sampling = DefaultSamplingAt(0.0f),
                                                  .flags = wire::kIgnoreEos | wire::kNoText}));
  if (!Must(generation.Next())) std::exit(1);
  const auto start = Clock::now();
  while (Must(generation.Next())) {
  }
  return Seconds(Clock::now() - start) / kSteps;
}

// A child process that runs `work` and sends its result to this process.
class Child {
 public:
  explicit Child(const std::function<std::vector<double>()>& work) {
    if (::pipe(ends_) != 0) std::exit(1);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(ends_[1]);
      return;
    }
    const std::vector<double> values = work();
    const std::size_t bytes = values.size() * sizeof(double);
    ::_exit(::write(ends_[1], values.data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1);
  }
  std::vector<double> Wait() {
    std::vector<double> values(64);
    const ssize_t bytes = ::read(ends_[0], values.data(), values.size() * sizeof(double));
    ::close(ends_[0]);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    if (bytes <= 0 || status != 0) {
      std::fprintf(stderr, "prefix_bench: a process failed\n");
      std::exit(1);
    }
    values.resize(static_cast<std::size_t>(bytes) / sizeof(double));
    return values;
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

// Computes the prompt in a process, whose sequence is retained after the process has ended. Returns
// the seconds that computing the prompt took.
double ComputeAndLeave(const DaemonProcess& daemon, std::size_t token_count) {
  return Child([&] {
           const Client client = ConnectTo(daemon);
           const std::vector<TokenId> prompt = Prompt(client, token_count, 1);
           const auto start = Clock::now();
           const SequenceHandle handle = Must(client.Create());
           Decoding decoding =
               Must(client.StartDecode(handle, prompt, Pos{0}, wire::LogitsWanted::kLast));
           Must(decoding.Next());
           return std::vector{Seconds(Clock::now() - start)};
         })
      .Wait()[0];
}

void BM_SamePromptFromAnotherProcess(benchmark::State& state) {
  const DaemonProcess daemon = StartDaemon();
  const auto token_count = static_cast<std::size_t>(state.range(0));
  const double cold = ComputeAndLeave(daemon, token_count);
  std::vector<double> firsts, steps;
  for (auto _ : state) {
    const std::vector<double> found = Child([&] {
                                        const Client client = ConnectTo(daemon);
                                        const std::vector<TokenId> prompt =
                                            Prompt(client, token_count, 1);
                                        const double first = FirstToken(client, prompt);
                                        return std::vector{first, DecodeStep(client, prompt)};
                                      }).Wait();
    firsts.push_back(found[0]);
    steps.push_back(found[1]);
    state.SetIterationTime(found[0]);
  }
  const double limit = Median(steps) + 2e-3;
  state.counters["cold_ms"] = cold * 1e3;
  state.counters["first_token_ms"] = Median(firsts) * 1e3;
  state.counters["decode_step_ms"] = Median(steps) * 1e3;
  state.counters["of_limit"] = Median(firsts) / limit;
}
BENCHMARK(BM_SamePromptFromAnotherProcess)
    ->ArgName("tokens")
    ->Arg(2048)
    ->Arg(16384)
    ->UseManualTime()
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);

// Starts eight processes simultaneously and returns the seconds until each of them has its first
// token.
double Eight(const DaemonProcess& daemon, std::uint64_t seed, bool shares_prefix) {
  constexpr std::size_t kTokens = 2048;
  int start_line[2], ready[2];
  if (::pipe(start_line) != 0 || ::pipe(ready) != 0) std::exit(1);
  std::vector<Child> children;
  for (int i = 0; i < 8; ++i) {
    children.emplace_back([&] {
      const Client client = ConnectTo(daemon);
      const std::vector<TokenId> prompt = Prompt(client, kTokens, seed);
      ::close(start_line[1]);
      char byte = 1;
      if (::write(ready[1], &byte, 1) != 1) std::exit(1);
      // The read returns when the parent process closes the pipe.
      (void)!::read(start_line[0], &byte, 1);
      return std::vector{FirstToken(client, prompt, shares_prefix)};
    });
  }
  char byte = 0;
  for (int i = 0; i < 8; ++i) {
    if (::read(ready[0], &byte, 1) != 1) std::exit(1);
  }
  const auto start = Clock::now();
  for (const int end : {start_line[0], start_line[1], ready[0], ready[1]}) ::close(end);
  for (Child& child : children) (void)child.Wait();
  return Seconds(Clock::now() - start);
}

void BM_EightProcessesOneColdPrefix(benchmark::State& state) {
  const DaemonProcess daemon = StartDaemon();
  const Client observer = ConnectTo(daemon);
  const auto computed = [&] { return Must(observer.Info()).tokens_computed; };
  std::vector<double> shared, apart, tokens;
  std::uint64_t seed = 100;
  for (auto _ : state) {
    const std::uint64_t before = computed();
    shared.push_back(Eight(daemon, ++seed, true));
    tokens.push_back(static_cast<double>(computed() - before));
    apart.push_back(Eight(daemon, ++seed, false));
    state.SetIterationTime(shared.back());
  }
  // The number of computed tokens, of 8 * 2048 prompt tokens.
  state.counters["tokens_computed"] = Median(tokens);
  state.counters["apart_ms"] = Median(apart) * 1e3;
  state.counters["of_apart"] = Median(shared) / Median(apart);
  state.counters["of_limit"] = 6 * Median(shared) / Median(apart);
}
BENCHMARK(BM_EightProcessesOneColdPrefix)
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

// Returns the seconds from the start of the daemon's process to the first token after a prompt of
// `token_count` tokens.
double StartToFirstToken(DaemonProcess& daemon, std::size_t token_count) {
  daemon.Kill();
  const auto start = Clock::now();
  Must(daemon.StartAgain());
  const Client client = ConnectTo(daemon);
  (void)FirstToken(client, Prompt(client, token_count, 1));
  return Seconds(Clock::now() - start);
}

void BM_RetainedPromptAfterRestart(benchmark::State& state) {
  constexpr std::size_t kTokens = 2048;
  std::vector<double> warm, empty;
  double reused = 0;
  for (auto _ : state) {
    DaemonProcess daemon = StartDaemon();
    (void)ComputeAndLeave(daemon, kTokens);
    warm.push_back(StartToFirstToken(daemon, kTokens));
    const Client client = ConnectTo(daemon);
    const auto info = Must(client.Info());
    for (const std::uint64_t tokens : info.prefix_tokens_reused) {
      reused += static_cast<double>(tokens);
    }
    DaemonProcess other = StartDaemon();
    empty.push_back(StartToFirstToken(other, 1));
    state.SetIterationTime(warm.back());
  }
  const double added = Median(warm) - Median(empty);
  state.counters["tokens_reused"] = reused / static_cast<double>(state.iterations());
  state.counters["empty_ms"] = Median(empty) * 1e3;
  state.counters["added_ms"] = added * 1e3;
  state.counters["of_limit"] = added / 0.2;
}
BENCHMARK(BM_RetainedPromptAfterRestart)
    ->UseManualTime()
    ->Iterations(7)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  return kvd::bench::RunBenches(argument_count, arguments, kvd::bench::model_path);
}
