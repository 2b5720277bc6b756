// Several client processes send requests to one daemon simultaneously, through real sockets. The
// clients' prompts have a common prefix and different ends. In the round "cold" the common prefix
// has not been computed before. In the round "warm" an earlier round has computed the common
// prefix. In the round "apart" no prompt reuses a prefix, as if each client had its own engine.
//
//   clients_bench [--model FILE] [--threads N] [--deterministic] [--clients N] [--common TOKENS]
//                 [--own TOKENS] [--answer TOKENS] [--rounds cold,warm,apart] [--json]
//
// Prints for each round: wall time from the start signal to the end of the last answer, tokens/s of
// the answers, prompt tokens computed and shared, time to first token, and time between tokens
// (median and 99th percentile); at the end the daemon's resident memory. --json: prints these
// figures as one JSON object.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/must.h"
#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  std::uint32_t threads = 0;
  bool is_deterministic = false;
  std::size_t clients = 8;
  std::size_t common = 512;
  std::size_t own = 16;
  std::int32_t answer = 32;
  std::vector<std::string> rounds{"cold", "warm", "apart"};
  bool is_json = false;
};

// The report that a client process writes to its pipe after its request; in the pipe, the report is
// followed by the times between the answer's tokens.
struct Told {
  double first_seconds = 0;  // time from the start signal to the first token
  double end_seconds = 0;    // time from the start signal to the end of the answer
  std::uint64_t computed = 0;
  std::uint64_t shared = 0;
  std::uint64_t gap_count = 0;
};

struct Round {
  std::string name;
  double seconds = 0;
  std::uint64_t computed = 0;
  std::uint64_t shared = 0;
  std::uint64_t answered = 0;
  std::vector<double> first{};  // seconds, sorted
  std::vector<double> gaps{};   // seconds, sorted
};

double Percentile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0.0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void WriteAll(int fd, const void* data, std::size_t size) {
  if (::write(fd, data, size) != static_cast<ssize_t>(size)) ::_exit(1);
}

void ReadAll(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::read(fd, at, size);
    if (got <= 0) {
      std::fprintf(stderr, "clients_bench: a client ended without a report\n");
      std::exit(1);
    }
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

// Runs in a child process: connects to the daemon, reports that the child is ready, waits for the
// start signal, sends one request and reports the result.
[[noreturn]] void RunClient(const Options& options, const std::string& socket, std::size_t number,
                            std::size_t round, bool shares, int go, int told) {
  const Client client = Must(Client::Connect({.socket_path = socket, .client_name = "bench"}));
  const std::size_t vocab_size = client.session().vocab_size;
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < options.common; ++i) {
    prompt.push_back(static_cast<TokenId>((i * 7919 + 13) % vocab_size));
  }
  for (std::size_t i = 0; i < options.own; ++i) {
    prompt.push_back(static_cast<TokenId>((i * 104729 + number * 31 + round * 977) % vocab_size));
  }
  const Sequence sequence = Must(client.NewSequence());
  char word = 1;
  WriteAll(told, &word, 1);
  ReadAll(go, &word, 1);
  const auto begin = Clock::now();
  Generation generation = Must(sequence.Generate({.tokens = prompt,
                                                  .predict_max = options.answer,
                                                  .sampling = DefaultSamplingAt(0.0f),
                                                  .flags = wire::kIgnoreEos | wire::kNoText,
                                                  .shares_prefix = shares}));
  Told told_here;
  std::vector<double> gaps;
  auto last = begin;
  while (const auto piece = Must(generation.Next())) {
    const auto now = Clock::now();
    const std::chrono::duration<double> since = now - last;
    if (last == begin) {
      told_here.first_seconds = since.count();
    } else {
      // The tokens of one piece arrive together, so the times between these tokens are 0.
      gaps.push_back(since.count());
      gaps.resize(gaps.size() + piece->tokens.size() -
                  std::min<std::size_t>(1, piece->tokens.size()));
    }
    last = now;
  }
  const std::chrono::duration<double> all = Clock::now() - begin;
  told_here.end_seconds = all.count();
  told_here.computed = generation.result().prompt_computed;
  told_here.shared = generation.result().prompt_shared;
  told_here.gap_count = gaps.size();
  WriteAll(told, &told_here, sizeof told_here);
  WriteAll(told, gaps.data(), gaps.size() * sizeof(double));
  ::_exit(0);  // _exit skips the destructors of objects that the parent process owns
}

struct Child {
  pid_t pid;
  int told;
};

Round RunRound(const Options& options, const std::string& socket, const std::string& name,
               std::size_t number) {
  std::array<int, 2> go{};
  if (::pipe(go.data()) != 0) std::exit(1);
  std::vector<Child> children;
  for (std::size_t i = 0; i < options.clients; ++i) {
    std::array<int, 2> told{};
    if (::pipe(told.data()) != 0) std::exit(1);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(go[1]);
      RunClient(options, socket, i, number, name != "apart", go[0], told[1]);
    }
    ::close(told[1]);
    children.push_back({pid, told[0]});
  }
  char word = 1;
  for (const Child& child : children) ReadAll(child.told, &word, 1);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < options.clients; ++i) WriteAll(go[1], &word, 1);
  Round round;
  round.name = name;
  for (const Child& child : children) {
    Told told;
    ReadAll(child.told, &told, sizeof told);
    std::vector<double> gaps(told.gap_count);
    ReadAll(child.told, gaps.data(), gaps.size() * sizeof(double));
    round.computed += told.computed;
    round.shared += told.shared;
    round.answered += told.gap_count + 1;
    round.first.push_back(told.first_seconds);
    round.gaps.insert(round.gaps.end(), gaps.begin(), gaps.end());
  }
  round.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (const Child& child : children) {
    ::waitpid(child.pid, nullptr, 0);
    ::close(child.told);
  }
  ::close(go[0]);
  ::close(go[1]);
  std::ranges::sort(round.first);
  std::ranges::sort(round.gaps);
  return round;
}

void Print(const Options& options, const std::vector<Round>& rounds, double resident_mb) {
  if (!options.is_json) {
    std::printf("%zu clients, %zu common and %zu own tokens, %d answered each\n", options.clients,
                options.common, options.own, options.answer);
    for (const Round& round : rounds) {
      std::printf(
          "  %-5s %7.2f s  %7.1f tokens/s  prompt tokens: %llu computed, %llu shared\n"
          "        first token %.1f ms (p99 %.1f), between tokens %.2f ms (p99 %.2f)\n",
          round.name.c_str(), round.seconds, static_cast<double>(round.answered) / round.seconds,
          static_cast<unsigned long long>(round.computed),
          static_cast<unsigned long long>(round.shared), 1e3 * Percentile(round.first, 0.5),
          1e3 * Percentile(round.first, 0.99), 1e3 * Percentile(round.gaps, 0.5),
          1e3 * Percentile(round.gaps, 0.99));
    }
    std::printf("  resident in kvd without the model file: %.1f MB\n", resident_mb);
    return;
  }
  std::printf("{\"resident_mb\": %.1f", resident_mb);
  for (const Round& round : rounds) {
    std::printf(
        ", \"%s\": {\"seconds\": %.4f, \"computed\": %llu, \"shared\": %llu, "
        "\"first_p50\": %.5f, \"first_p99\": %.5f, \"gap_p50\": %.6f, \"gap_p99\": %.6f}",
        round.name.c_str(), round.seconds, static_cast<unsigned long long>(round.computed),
        static_cast<unsigned long long>(round.shared), Percentile(round.first, 0.5),
        Percentile(round.first, 0.99), Percentile(round.gaps, 0.5), Percentile(round.gaps, 0.99));
  }
  std::printf("}\n");
}

void Run(const Options& options) {
  const std::size_t cells =
      (options.rounds.size() * options.clients + 1) *
      (options.common + options.own + static_cast<std::size_t>(options.answer) + 64);
  std::vector<std::string> arguments = {"-c", std::to_string(std::max<std::size_t>(cells, 4096)),
                                        "-t", std::to_string(options.threads)};
  if (options.threads == 0) arguments.resize(2);
  if (!options.model.empty()) arguments.insert(arguments.end(), {"-m", options.model});
  if (options.is_deterministic) arguments.emplace_back("--deterministic");
  const DaemonProcess daemon = Must(DaemonProcess::Start(
      {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(arguments)}));
  std::vector<Round> rounds;
  for (std::size_t i = 0; i < options.rounds.size(); ++i) {
    rounds.push_back(RunRound(options, daemon.socket_path(), options.rounds[i], i));
  }
  // This client connects last, so that the clients are forked from a process with one thread.
  const Client observer = Must(Client::Connect({.socket_path = daemon.socket_path()}));
  const auto info = Must(observer.Info());
  Print(options, rounds,
        static_cast<double>(info.resident_anonymous_bytes + info.resident_shared_bytes) / 1e6);
}

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  CLI::App app("Client processes that send requests to one daemon simultaneously");
  kvd::bench::Options options;
  app.add_option("--model", options.model, "GGUF file; default: the bundled model");
  app.add_option("--threads", options.threads, "compute threads of kvd; 0: one for each core");
  app.add_flag("--deterministic", options.is_deterministic, "run kvd with --deterministic");
  app.add_option("--clients", options.clients)->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--common", options.common, "tokens of the common prefix")->capture_default_str();
  app.add_option("--own", options.own, "further prompt tokens of each client")
      ->check(CLI::Range(1, 65536));
  app.add_option("--answer", options.answer, "tokens generated for each client")
      ->check(CLI::Range(2, 65536));
  app.add_option("--rounds", options.rounds, "rounds in this order, with one daemon")
      ->delimiter(',')
      ->check(CLI::IsMember({"cold", "warm", "apart"}));
  app.add_flag("--json", options.is_json);
  CLI11_PARSE(app, argument_count, arguments);
  kvd::bench::Run(options);
  return 0;
}
