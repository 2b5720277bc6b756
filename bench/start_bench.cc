// Measures how soon a daemon serves: from exec of kvd to the answer of an empty request, and to the
// first token after a prompt of one token.
//
// BM_StartFromCache: the model file is in the page cache. BM_StartFromDisk: it is not; the bench
// then also measures the rate at which the daemon brings the file in, and the rate at which a
// program that only reads the file can (the limit). `--model FILE` starts another model than the
// bundled one; BM_StartFromDisk needs it. The state is in /dev/shm.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "bench/bench_model.h"
#include "bench/must.h"
#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::string model_path;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

UniqueFd OpenModel() {
  UniqueFd file(::open(model_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) Must(FailErrno(model_path));
  return file;
}

// Reads the file from its first byte to its last.
void ReadModel() {
  const UniqueFd file = OpenModel();
  std::vector<char> bytes(std::size_t{1} << 20);
  while (::read(file.get(), bytes.data(), bytes.size()) > 0) {
  }
}

// Removes the file's pages from the page cache.
void ForgetModel() {
  const UniqueFd file = OpenModel();
  (void)::fdatasync(file.get());
  (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

struct StartTimes {
  double ready = 0.0;        // seconds from before fork and exec to the answer of an empty request
  double first_token = 0.0;  // seconds to the first token
};

StartTimes TimeStart(const Client& client, Clock::time_point start) {
  StartTimes times;
  Must(client.Ping());
  times.ready = SecondsSince(start);
  const TokenId token = 1;
  const Sequence sequence = Must(client.NewSequence());
  Generation generation = Must(sequence.Generate({.tokens = {&token, 1},
                                                  .predict_max = 1,
                                                  .sampling = DefaultSamplingAt(0.0f),
                                                  .flags = wire::kIgnoreEos | wire::kNoText}));
  if (!Must(generation.Next())) std::exit(1);
  times.first_token = SecondsSince(start);
  while (Must(generation.Next())) {
  }
  return times;
}

DaemonProcess StartDaemon() {
  std::vector<std::string> arguments;
  if (!model_path.empty()) arguments = {"-m", model_path};
  return Must(DaemonProcess::Start(
      {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(arguments)}));
}

Client ConnectTo(const DaemonProcess& daemon) {
  return Must(Client::Connect({.socket_path = daemon.socket_path(), .client_name = "start-bench"}));
}

void Report(benchmark::State& state, const std::vector<StartTimes>& starts) {
  std::vector<double> ready, first_token;
  for (const StartTimes& times : starts) {
    ready.push_back(times.ready * 1e3);
    first_token.push_back(times.first_token * 1e3);
  }
  state.counters["ready_ms"] = Median(ready);
  state.counters["first_token_ms"] = Median(first_token);
  state.counters["first_token_ms_max"] = *std::ranges::max_element(first_token);
}

void BM_StartFromCache(benchmark::State& state) {
  if (!model_path.empty()) ReadModel();
  std::vector<StartTimes> starts;
  for (auto _ : state) {
    const auto start = Clock::now();
    const DaemonProcess daemon = StartDaemon();
    const Client client = ConnectTo(daemon);
    starts.push_back(TimeStart(client, start));
    state.SetIterationTime(starts.back().first_token);
  }
  Report(state, starts);
}
BENCHMARK(BM_StartFromCache)->UseManualTime()->Iterations(10)->Unit(benchmark::kMillisecond);

// The time ends when the daemon has read the whole file. The first token comes earlier: its step
// reads the weights, too.
void BM_StartFromDisk(benchmark::State& state) {
  if (model_path.empty()) {
    state.SkipWithError("needs --model");
    return;
  }
  std::vector<StartTimes> starts;
  std::vector<double> rates, plain_rates;
  for (auto _ : state) {
    ForgetModel();
    const auto plain_start = Clock::now();
    ReadModel();
    const double plain_seconds = SecondsSince(plain_start);
    ForgetModel();
    const auto start = Clock::now();
    const DaemonProcess daemon = StartDaemon();
    const Client client = ConnectTo(daemon);
    starts.push_back(TimeStart(client, start));
    wire::InfoReply info = Must(client.Info());
    if (info.weight_bytes_to_read == 0) {
      state.SkipWithError("the daemon reads no weights: not enough free memory");
      return;
    }
    while (info.weight_bytes_read < info.weight_bytes_to_read) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      info = Must(client.Info());
    }
    const double seconds = SecondsSince(start);
    const auto megabytes = static_cast<double>(info.weight_bytes_to_read) * 1e-6;
    rates.push_back(megabytes / seconds);
    plain_rates.push_back(megabytes / plain_seconds);
    state.SetIterationTime(seconds);
  }
  Report(state, starts);
  state.counters["read_MB/s"] = Median(rates);
  state.counters["plain_read_MB/s"] = Median(plain_rates);
}
BENCHMARK(BM_StartFromDisk)->UseManualTime()->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  (void)::setenv("TMPDIR", "/dev/shm", 0);  // the daemon's private directory
  return kvd::bench::RunBenches(argument_count, arguments, kvd::bench::model_path);
}
