// Generations of one client over a pool that lacks a tenth of the cells of their answers, beside
// the same over a pool that fits: tokens per second of all answers together, and the tokens that
// are computed twice because their cells were given back.
//
// The pools are those of two daemons, which are measured by turns. `ratio` is the median of the
// ratios of the pairs, small pool to large pool. `--model FILE` serves another model than the
// bundled one.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench_model.h"
#include "bench/must.h"
#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairs = 9;
constexpr std::size_t kContextTokens = 64;
constexpr std::int32_t kAnswerTokens = 320;
constexpr std::size_t kBlockCells = 32;

std::string model_path;

double Quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

// A daemon with a context that the generations fork.
class Pool {
 public:
  explicit Pool(std::size_t cells)
      : daemon_(Start(cells)),
        client_(Must(
            Client::Connect({.socket_path = daemon_.socket_path(), .client_name = "herd-bench"}))),
        context_(Must(client_.NewSequence())) {
    std::vector<TokenId> tokens(kContextTokens);
    for (std::size_t at = 0; at < tokens.size(); ++at) tokens[at] = static_cast<TokenId>(5 + at);
    Must(context_.Decode(tokens, Pos{0}));
  }

  struct Herd {
    double seconds = 0;
    std::uint64_t computed = 0;  // tokens
  };
  // Generates an answer in each of `count` forks of the context. Each fork is dropped when its
  // answer has ended.
  Herd Generate(std::size_t count) {
    const std::uint64_t before = Must(client_.Info()).tokens_computed;
    const auto start = Clock::now();
    {
      std::vector<std::jthread> threads;
      for (std::size_t at = 0; at < count; ++at) {
        threads.emplace_back([this, at] { GenerateOne(static_cast<TokenId>(10 + at)); });
      }
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    return {.seconds = took.count(), .computed = Must(client_.Info()).tokens_computed - before};
  }

 private:
  static DaemonProcess Start(std::size_t cells) {
    std::vector<std::string> arguments = {"-c", std::to_string(cells)};
    if (!model_path.empty()) arguments.insert(arguments.end(), {"-m", model_path});
    return Must(DaemonProcess::Start(
        {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(arguments)}));
  }
  void GenerateOne(TokenId first) const {
    const Sequence fork = Must(context_.Fork());
    Generation generation = Must(fork.Generate({.tokens = {&first, 1},
                                                .predict_max = kAnswerTokens,
                                                .sampling = DefaultSamplingAt(0.0f),
                                                .flags = wire::kIgnoreEos | wire::kNoText}));
    while (Must(generation.Next())) {
    }
  }

  DaemonProcess daemon_;
  Client client_;
  Sequence context_;
};

void BM_HerdGenerate(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  // An answer's prompt has one token; the last block of each answer is full.
  const std::size_t answers = count * kAnswerTokens / kBlockCells;
  const std::size_t fits = kContextTokens / kBlockCells + answers + 2 * count;
  const std::size_t lacks = kContextTokens / kBlockCells + answers - answers / 10;
  Pool large(fits * kBlockCells);
  Pool small(lacks * kBlockCells);
  (void)large.Generate(count);
  (void)small.Generate(count);
  std::vector<double> of_large, of_small, ratios, twice;
  const double tokens = static_cast<double>(count) * kAnswerTokens;
  for (auto _ : state) {
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      const Pool::Herd in_large = large.Generate(count);
      const Pool::Herd in_small = small.Generate(count);
      of_large.push_back(tokens / in_large.seconds);
      of_small.push_back(tokens / in_small.seconds);
      ratios.push_back(of_small.back() / of_large.back());
      twice.push_back(static_cast<double>(in_small.computed) -
                      static_cast<double>(in_large.computed));
    }
  }
  state.counters["fits_tokens/s"] = Quantile(of_large, 0.5);
  state.counters["lacks_tokens/s"] = Quantile(of_small, 0.5);
  state.counters["ratio"] = Quantile(ratios, 0.5);
  state.counters["ratio_min"] = Quantile(ratios, 0.0);
  state.counters["ratio_max"] = Quantile(ratios, 1.0);
  state.counters["computed_twice"] = Quantile(twice, 0.5);
}
BENCHMARK(BM_HerdGenerate)
    ->ArgName("generations")
    ->Arg(8)
    ->Arg(16)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  return kvd::bench::RunBenches(argument_count, arguments, kvd::bench::model_path);
}
