// Measurements through the socket: the empty round trip against a bare blocking Unix-socket
// ping-pong with the same pinning, forks while the daemon is idle and while another client decodes,
// the zero-copy shift, and the memory of one more client.
//
// `--model FILE` serves another model than the bundled one (the figures under load need a large
// one). The bench runs on the first processor; its peer (an echo process or kvd) runs on the second
// processor, or on all processors if the peer computes.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "bench/bench_model.h"
#include "bench/must.h"
#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::bench {
namespace {

std::string model_path;

void PinTo(int first, int last) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = first; cpu <= last; ++cpu) CPU_SET(static_cast<std::size_t>(cpu), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

int LastCpu() { return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)) - 1; }

// Starts a daemon on processors [first, last]; the bench process itself returns to processor 0.
DaemonProcess StartDaemon(int first, int last, std::vector<std::string> arguments) {
  if (!model_path.empty()) arguments.insert(arguments.end(), {"-m", model_path});
  PinTo(first, last);
  DaemonProcess daemon = Must(DaemonProcess::Start(
      {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(arguments)}));
  PinTo(0, 0);
  return daemon;
}

Client ConnectTo(const DaemonProcess& daemon) {
  return Must(Client::Connect({.socket_path = daemon.socket_path(), .client_name = "ipc-bench"}));
}

// Measures each call separately and reports median and 99th percentile in microseconds.
void TimeCalls(
    benchmark::State& state, const std::function<void()>& call,
    const std::function<void()>& clean_up = [] {}) {
  std::vector<double> micros;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count());
    micros.push_back(took.count() * 1e6);
    clean_up();
  }
  std::sort(micros.begin(), micros.end());
  state.counters["median_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
}

// Makes a sequence of `token_count` tokens. LongSequence computes 512 tokens and then doubles the
// length of the sequence repeatedly by shifted copies of its cells, which is faster than computing
// all tokens with a large model. The list of the returned sequence is as long as the list of a
// sequence whose tokens were all computed.
SequenceHandle LongSequence(const Client& client, std::int32_t token_count) {
  constexpr std::int32_t kComputed = 512;
  const SequenceHandle sequence = Must(client.Create());
  std::vector<TokenId> tokens(kComputed);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<TokenId>(i % client.session().vocab_size);
  Must(Must(client.StartDecode(sequence, tokens, Pos{0}, wire::LogitsWanted::kNone,
                               wire::kFlagNoPrefix))
           .Next());
  for (std::int32_t held = kComputed; held < token_count; held *= 2) {
    const SequenceHandle copy = Must(client.Fork(sequence, -1, 1)).front();
    Must(client.Add(copy, {}, held));
    Must(client.CopyRange(copy, sequence, {}));
    Must(client.Drop(copy));
  }
  return sequence;
}

void BM_UnixSocketPingPong(benchmark::State& state) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::exit(1);
  PinTo(0, 0);
  const pid_t child = ::fork();
  char bytes[64] = {};
  if (child == 0) {
    PinTo(LastCpu(), LastCpu());
    while (::recv(ends[1], bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes)
      (void)!::send(ends[1], bytes, sizeof bytes, 0);
    ::_exit(0);
  }
  TimeCalls(state, [&] {
    (void)!::send(ends[0], bytes, sizeof bytes, 0);
    (void)!::recv(ends[0], bytes, sizeof bytes, MSG_WAITALL);
  });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}
BENCHMARK(BM_UnixSocketPingPong)->UseManualTime()->Iterations(20000)->Unit(benchmark::kMicrosecond);

void BM_ClientPing(benchmark::State& state) {
  DaemonProcess daemon = StartDaemon(LastCpu(), LastCpu(), {"-t", "1", "-c", "4096"});
  {
    const Client client = ConnectTo(daemon);
    TimeCalls(state, [&] { Must(client.Ping()); });
  }
}
BENCHMARK(BM_ClientPing)->UseManualTime()->Iterations(20000)->Unit(benchmark::kMicrosecond);

void BM_ClientForkIdle(benchmark::State& state) {
  DaemonProcess daemon = StartDaemon(LastCpu(), LastCpu(), {"-t", "1", "-c", "40960"});
  {
    const Client client = ConnectTo(daemon);
    const SequenceHandle sequence = LongSequence(client, static_cast<std::int32_t>(state.range(0)));
    std::vector<SequenceHandle> fork;
    std::uint64_t engine_ns = 0;
    TimeCalls(
        state,
        [&] {
          ForkInfo info;
          fork = Must(client.Fork(sequence, -1, 1, &info));
          engine_ns += info.engine_ns;
        },
        [&] { Must(client.Drop(fork.front())); });
    state.counters["engine_us"] =
        static_cast<double>(engine_ns) / 1e3 / static_cast<double>(state.iterations());
    state.counters["extents"] = Must(client.Query(sequence)).extent_count;
  }
}
BENCHMARK(BM_ClientForkIdle)
    ->ArgName("tokens")
    ->Arg(4096)
    ->Arg(32768)
    ->UseManualTime()
    ->Iterations(5000)
    ->Unit(benchmark::kMicrosecond);

void BM_ClientShiftIdle(benchmark::State& state) {
  DaemonProcess daemon = StartDaemon(LastCpu(), LastCpu(), {"-t", "1", "-c", "40960"});
  {
    const Client client = ConnectTo(daemon);
    const SequenceHandle sequence = LongSequence(client, static_cast<std::int32_t>(state.range(0)));
    std::int32_t delta = 1;
    TimeCalls(state, [&] {
      Must(client.Add(sequence, {}, delta));
      delta = -delta;
    });
  }
}
BENCHMARK(BM_ClientShiftIdle)
    ->ArgName("tokens")
    ->Arg(32768)
    ->UseManualTime()
    ->Iterations(5000)
    ->Unit(benchmark::kMicrosecond);

// Measures the requests for forks by the bench process while another process generates tokens
// without end.
void BM_ClientForkWhileDecoding(benchmark::State& state) {
  DaemonProcess daemon = StartDaemon(0, LastCpu(), {"-c", "40960"});
  const pid_t child = ::fork();
  if (child == 0) {
    const Client client = ConnectTo(daemon);
    const Sequence sequence = Must(client.NewSequence());
    const TokenId token = 1;
    Generation generation = Must(sequence.Generate(
        {.tokens = {&token, 1}, .predict_max = 30000, .flags = wire::kIgnoreEos | wire::kNoText}));
    while (Must(generation.Next())) {
    }
    ::_exit(0);
  }
  {
    PinTo(0, LastCpu());
    const Client client = ConnectTo(daemon);
    const SequenceHandle sequence = LongSequence(client, static_cast<std::int32_t>(state.range(0)));
    const auto before = Must(client.Info());
    std::vector<SequenceHandle> fork;
    TimeCalls(
        state, [&] { fork = Must(client.Fork(sequence, -1, 1)); },
        [&] {
          Must(client.Drop(fork.front()));
          ::usleep(2000);
        });
    const auto after = Must(client.Info());
    state.counters["steps_meanwhile"] = static_cast<double>(after.steps - before.steps);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}
BENCHMARK(BM_ClientForkWhileDecoding)
    ->ArgName("tokens")
    ->Arg(32768)
    ->UseManualTime()
    ->Iterations(2000)
    ->Unit(benchmark::kMicrosecond);

// Measures the memory that one more client costs the daemon: anonymous and shared resident bytes
// after the client has pinged, forked and decoded.
void BM_ClientResident(benchmark::State& state) {
  constexpr std::size_t kClients = 32;
  DaemonProcess daemon = StartDaemon(0, LastCpu(), {"-c", "4096"});
  {
    const Client observer = ConnectTo(daemon);
    const auto resident = [&] {
      const auto info = Must(observer.Info());
      return static_cast<double>(info.resident_anonymous_bytes + info.resident_shared_bytes);
    };
    const auto use = [](const Client& client) {
      Must(client.Ping());
      const Sequence sequence = Must(client.NewSequence());
      const TokenId token = 1;
      Must(sequence.Decode({&token, 1}, Pos{0}));
    };
    use(observer);
    for (auto _ : state) {
      const double before = resident();
      std::vector<Client> clients;
      for (std::size_t i = 0; i < kClients; ++i) {
        clients.push_back(ConnectTo(daemon));
        use(clients.back());
      }
      state.counters["bytes_each"] = (resident() - before) / kClients;
      state.SetIterationTime(1e-3);
    }
  }
}
BENCHMARK(BM_ClientResident)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  return kvd::bench::RunBenches(argument_count, arguments, kvd::bench::model_path);
}
