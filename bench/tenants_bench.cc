// Measures whether one tenant learns from the time to the first token that another tenant has
// computed the same prompt.
//
// Each round makes three prompts of random tokens and measures the time from a generate request to
// its first token, in an order that changes with the round:
//   elsewhere  another tenant has computed the prompt, and its cells are retained in the pool
//   fresh      no tenant has computed the prompt
//   own        the tenant itself has computed the prompt; the difference that sharing makes
// The difference of the medians of the first two is compared with their quartiles.
//
// `--model FILE` serves another model than the bundled one; `--tokens N` [256], `--rounds N` [101].
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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
using Prompt = std::vector<TokenId>;

struct Times {
  double lower = 0;  // quartile
  double median = 0;
  double upper = 0;  // quartile
};

Times TimesOf(std::vector<double> all) {
  std::ranges::sort(all);
  return {all[all.size() / 4], all[all.size() / 2], all[all.size() * 3 / 4]};
}

// Returns the milliseconds until the first token. The sequence is dropped afterwards, or retained.
double TimeFirstToken(const Client& client, const Prompt& prompt, bool retains) {
  const SequenceHandle sequence = Must(client.Create());
  GenerateOptions options;
  options.tokens = prompt;
  options.predict_max = 1;
  const auto start = Clock::now();
  Generation generation = Must(client.StartGenerate(sequence, options));
  (void)Must(generation.Next());
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  while (Must(generation.Next())) {
  }
  if (retains) {
    (void)Must(client.Retain(sequence));
  } else if (const Status dropped = client.Drop(sequence); !dropped) {
    std::fprintf(stderr, "tenants_bench: %s\n", dropped.error().message.c_str());
    std::exit(1);
  }
  return took.count();
}

std::size_t NumberAfter(int argument_count, char** arguments, const char* flag,
                        std::size_t otherwise) {
  for (int i = 1; i + 1 < argument_count; ++i) {
    if (std::string(arguments[i]) == flag) {
      return std::max<std::size_t>(2, std::strtoull(arguments[i + 1], nullptr, 10));
    }
  }
  return otherwise;
}

int Run(int argument_count, char** arguments) {
  const std::string model = TakeModelFlag(&argument_count, arguments);
  const std::size_t tokens = NumberAfter(argument_count, arguments, "--tokens", 256);
  const std::size_t rounds = NumberAfter(argument_count, arguments, "--rounds", 101);
  std::vector<std::string> daemon_arguments = {"--other-pool-share", "0.45"};
  if (!model.empty()) daemon_arguments.insert(daemon_arguments.end(), {"-m", model});
  const DaemonProcess daemon = Must(DaemonProcess::Start(
      {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(daemon_arguments)}));
  const Client first = Must(Client::Connect({.socket_path = daemon.socket_path(), .tenant = {1}}));
  const Client second = Must(Client::Connect({.socket_path = daemon.socket_path(), .tenant = {2}}));
  std::mt19937 random(7);
  const auto next_prompt = [&] {
    Prompt prompt(tokens);
    for (TokenId& token : prompt) {
      token = static_cast<TokenId>(random() % first.session().vocab_size);
    }
    return prompt;
  };
  enum Kind : std::uint8_t { kElsewhere, kNew, kOwn };
  std::array<std::vector<double>, 3> times;
  (void)TimeFirstToken(second, next_prompt(), false);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::array<Prompt, 3> prompts = {next_prompt(), next_prompt(), next_prompt()};
    (void)TimeFirstToken(first, prompts[kElsewhere], true);
    (void)TimeFirstToken(second, prompts[kOwn], true);
    for (std::size_t at = 0; at < prompts.size(); ++at) {
      const std::size_t kind = (at + round) % prompts.size();
      times[kind].push_back(TimeFirstToken(second, prompts[kind], false));
    }
    (void)Must(first.Call(wire::DropRetainedArgs{}));
    (void)Must(second.Call(wire::DropRetainedArgs{}));
  }
  constexpr std::array kNames = {"elsewhere", "fresh", "own"};
  std::printf(
      "time to the first token, %zu tokens, %zu rounds, ms: lower quartile, median, upper "
      "quartile\n",
      tokens, rounds);
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    const Times of = TimesOf(times[kind]);
    std::printf("%-10s %8.3f %8.3f %8.3f\n", kNames[kind], of.lower, of.median, of.upper);
  }
  const Times elsewhere = TimesOf(times[kElsewhere]);
  const Times fresh = TimesOf(times[kNew]);
  std::printf("elsewhere - fresh: %.3f ms; the larger distance of the quartiles: %.3f ms\n",
              elsewhere.median - fresh.median,
              std::max(elsewhere.upper - elsewhere.lower, fresh.upper - fresh.lower));
  return 0;
}

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  return kvd::bench::Run(argument_count, arguments);
}
