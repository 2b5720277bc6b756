// Measures a daemon on a machine that other programs use: with a busy loop on every processor, a
// decode step, an empty request and a fork, beside the same without busy loops.
//
// Quiet and busy measurements alternate. `ratio` is the median of the ratios of the pairs. With
// fair shares a program has half of each processor, so a step takes twice as long. `--model FILE`
// serves another model than the bundled one. The bench must not run at real-time priority, which
// the busy loops and the daemon would inherit.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_model.h"
#include "bench/must.h"
#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairs = 7;

std::string model_path;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

// A process for each processor that only computes, from the construction to the destruction.
class BusyLoops {
 public:
  BusyLoops() {
    const auto count = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    for (int cpu = 0; cpu < count; ++cpu) {
      const pid_t child = ::fork();
      if (child != 0) {
        children_.push_back(child);
        continue;
      }
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<std::size_t>(cpu), &set);
      (void)::sched_setaffinity(0, sizeof set, &set);
      for (std::uint64_t i = 0;; ++i) benchmark::DoNotOptimize(i);
    }
    ::usleep(50'000);  // until the scheduler has given the loops their shares
  }
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;
  ~BusyLoops() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

DaemonProcess StartDaemon() {
  std::vector<std::string> arguments = {"-c", "8192"};
  if (!model_path.empty()) arguments.insert(arguments.end(), {"-m", model_path});
  return Must(DaemonProcess::Start(
      {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(arguments)}));
}

Client ConnectTo(const DaemonProcess& daemon) {
  return Must(
      Client::Connect({.socket_path = daemon.socket_path(), .client_name = "loaded-bench"}));
}

// Returns the mean duration of 32 decode steps in seconds.
double DecodeStep(const Client& client) {
  constexpr std::uint32_t kSteps = 32;
  const TokenId token = 1;
  const Sequence sequence = Must(client.NewSequence());
  Generation generation = Must(sequence.Generate({.tokens = {&token, 1},
                                                  .predict_max = kSteps + 1,
                                                  .sampling = DefaultSamplingAt(0.0f),
                                                  .flags = wire::kIgnoreEos | wire::kNoText}));
  if (!Must(generation.Next())) std::exit(1);
  const auto start = Clock::now();
  while (Must(generation.Next())) {
  }
  return SecondsSince(start) / kSteps;
}

void BM_LoadedDecode(benchmark::State& state) {
  const DaemonProcess daemon = StartDaemon();
  const Client client = ConnectTo(daemon);
  (void)DecodeStep(client);
  std::vector<double> quiet, busy, ratios;
  for (auto _ : state) {
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      quiet.push_back(DecodeStep(client));
      const BusyLoops loops;
      busy.push_back(DecodeStep(client));
      ratios.push_back(busy.back() / quiet.back());
    }
  }
  state.counters["quiet_ms"] = Quantile(quiet, 0.5) * 1e3;
  state.counters["busy_ms"] = Quantile(busy, 0.5) * 1e3;
  state.counters["ratio"] = Quantile(ratios, 0.5);
  state.counters["ratio_min"] = Quantile(ratios, 0.0);
  state.counters["ratio_max"] = Quantile(ratios, 1.0);
}
BENCHMARK(BM_LoadedDecode)->Iterations(1)->Unit(benchmark::kSecond);

// Measures calls of the idle daemon, with pauses in which the daemon's threads fall asleep.
void TimeCalls(benchmark::State& state, const std::function<void()>& call,
               const std::function<void()>& clean_up) {
  constexpr int kCalls = 300;
  std::vector<double> quiet, busy;
  const auto measure = [&](std::vector<double>& micros) {
    for (int i = 0; i < kCalls; ++i) {
      const auto start = Clock::now();
      call();
      micros.push_back(SecondsSince(start) * 1e6);
      clean_up();
      ::usleep(2000);
    }
  };
  for (auto _ : state) {
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      measure(quiet);
      const BusyLoops loops;
      measure(busy);
    }
  }
  state.counters["quiet_us"] = Quantile(quiet, 0.5);
  state.counters["quiet_p99_us"] = Quantile(quiet, 0.99);
  state.counters["busy_us"] = Quantile(busy, 0.5);
  state.counters["busy_p99_us"] = Quantile(busy, 0.99);
}

void BM_LoadedPing(benchmark::State& state) {
  const DaemonProcess daemon = StartDaemon();
  const Client client = ConnectTo(daemon);
  TimeCalls(state, [&] { Must(client.Ping()); }, [] {});
}
BENCHMARK(BM_LoadedPing)->Iterations(1)->Unit(benchmark::kSecond);

void BM_LoadedFork(benchmark::State& state) {
  const DaemonProcess daemon = StartDaemon();
  const Client client = ConnectTo(daemon);
  const Sequence sequence = Must(client.NewSequence());
  const std::vector<TokenId> tokens(256, 1);
  Must(sequence.Decode(tokens, Pos{0}));
  std::vector<SequenceHandle> fork;
  TimeCalls(
      state, [&] { fork = Must(client.Fork(sequence.handle(), -1, 1)); },
      [&] { Must(client.Drop(fork.front())); });
}
BENCHMARK(BM_LoadedFork)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  (void)::setenv("TMPDIR", "/dev/shm", 0);  // the daemon's private directory
  return kvd::bench::RunBenches(argument_count, arguments, kvd::bench::model_path);
}
