// Measures the engine without a daemon: prefill and decode in tokens/s, and decode for several
// depths, numbers of forks, and numbers of distinct position deltas of a sequence. `--model FILE`
// uses another model than the bundled one.
//
// The decode figures have a limit: the bytes of weights and cells that a step must read, divided by
// the bandwidth of a plain sum over a large array in the same run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/bench_model.h"
#include "engine/engine.h"
#include "engine/model/model_config.h"

namespace kvd::bench {
namespace {

std::string model_path;

Engine& TheEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    auto made = Engine::Create({.model_path = model_path, .cells = 16384});
    if (!made) {
      std::fprintf(stderr, "engine: %s\n", made.error().message.c_str());
      std::exit(1);
    }
    return std::move(*made);
  }();
  return *engine;
}

TokenId TokenAt(std::size_t i) {
  return static_cast<TokenId>((i * 7919 + 13) % TheEngine().config().vocab_size);
}

void Check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

// Appends tokens to `sequence`, and computes the logits of the last token if `logits` is given.
void Append(SequenceHandle sequence, std::size_t first_pos, std::size_t token_count,
            float* logits) {
  Engine& engine = TheEngine();
  std::vector<TokenId> tokens(token_count);
  for (std::size_t i = 0; i < token_count; ++i) tokens[i] = TokenAt(first_pos + i);
  for (std::size_t done = 0; done < token_count;) {
    const std::size_t take =
        std::min<std::size_t>(engine.options().ubatch_tokens, token_count - done);
    const bool last = done + take == token_count && logits != nullptr;
    StepItem item{.sequence = sequence,
                  .pos = Pos{static_cast<std::int32_t>(first_pos + done)},
                  .tokens = std::span(tokens).subspan(done, take),
                  .first_logits_row = last ? take - 1 : take,
                  .logits = logits};
    engine.Step({&item, 1});
    Check(item.status);
    done += take;
  }
}

SequenceHandle Prefilled(std::size_t token_count) {
  const SequenceHandle sequence = *TheEngine().memory().sequences().Create({});
  if (token_count != 0) Append(sequence, 0, token_count, nullptr);
  return sequence;
}

void CutBack(SequenceHandle sequence, std::size_t length) {
  const auto removed = TheEngine().memory().sequences().RemoveRange(
      sequence, {.begin = Pos{static_cast<std::int32_t>(length)}, .end = kPosEnd});
  if (!removed) Check(std::unexpected(removed.error()));
}

void SetDecodeCounters(benchmark::State& state, std::size_t depth, std::size_t sequences) {
  const double read =
      static_cast<double>(TheEngine().weight_bytes() + TheEngine().cell_bytes() * depth);
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(sequences) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["read_GB/s"] = benchmark::Counter(
      read * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

void BM_MemoryRead(benchmark::State& state) {
  std::vector<double> data((256u << 20) / sizeof(double), 1.0);
  for (auto _ : state) {
    double sums[8] = {};
    for (std::size_t i = 0; i + 8 <= data.size(); i += 8) {
      for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += data[i + lane];
    }
    benchmark::DoNotOptimize(std::accumulate(sums, sums + 8, 0.0));
  }
  state.counters["read_GB/s"] =
      benchmark::Counter(static_cast<double>(data.size() * sizeof(double)) *
                             static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(BM_MemoryRead);

void BM_EnginePrefill(benchmark::State& state) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    const SequenceHandle sequence = Prefilled(tokens);
    Check(TheEngine().memory().sequences().Drop(sequence));
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(BM_EnginePrefill)
    ->ArgName("tokens")
    ->Arg(64)
    ->Arg(512)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond);

void BM_EngineDecode(benchmark::State& state) {
  const auto depth = static_cast<std::size_t>(state.range(0));
  const SequenceHandle sequence = Prefilled(depth);
  std::vector<float> logits(TheEngine().config().vocab_size);
  for (auto _ : state) {
    Append(sequence, depth, 1, logits.data());
    CutBack(sequence, depth);
  }
  SetDecodeCounters(state, depth, 1);
  Check(TheEngine().memory().sequences().Drop(sequence));
}
BENCHMARK(BM_EngineDecode)
    ->ArgName("depth")
    ->Arg(0)
    ->Arg(512)
    ->Arg(2048)
    ->Unit(benchmark::kMicrosecond);

void BM_EngineDecodeForks(benchmark::State& state) {
  constexpr std::size_t kDepth = 2048;
  const auto fork_count = static_cast<std::size_t>(state.range(0));
  Engine& engine = TheEngine();
  const SequenceHandle base = Prefilled(kDepth);
  std::vector<SequenceHandle> forks(fork_count);
  Check(engine.memory().sequences().Fork(base, {}, forks));
  std::vector<float> logits(engine.config().vocab_size * fork_count);
  std::vector<StepItem> items(fork_count);
  std::vector<TokenId> tokens(fork_count);
  for (auto _ : state) {
    for (std::size_t i = 0; i < fork_count; ++i) {
      tokens[i] = TokenAt(i);
      items[i] = {.sequence = forks[i],
                  .pos = Pos{kDepth},
                  .tokens = {&tokens[i], 1},
                  .first_logits_row = 0,
                  .logits = logits.data() + i * engine.config().vocab_size};
    }
    engine.Step(items);
    for (const StepItem& item : items) Check(item.status);
    for (const SequenceHandle fork : forks) CutBack(fork, kDepth);
  }
  SetDecodeCounters(state, kDepth, fork_count);
  Check(engine.memory().sequences().DropAll(forks));
  Check(engine.memory().sequences().Drop(base));
}
BENCHMARK(BM_EngineDecodeForks)->ArgName("forks")->Arg(1)->Arg(8)->Unit(benchmark::kMicrosecond);

// Decodes after a sequence of 2,048 cells in runs of equal length with `deltas` distinct position
// deltas, as in a rolling context.
void BM_EngineDecodeDeltas(benchmark::State& state) {
  constexpr std::int32_t kCells = 2048;
  const auto deltas = static_cast<std::int32_t>(state.range(0));
  Memory& memory = TheEngine().memory();
  // The prompt has one additional cell for each shift. The loop below removes the additional cell
  // to make room for the shift.
  const SequenceHandle sequence = Prefilled(static_cast<std::size_t>(kCells + deltas - 1));
  for (std::int32_t i = 1; i < deltas; ++i) {
    const std::int32_t at = kCells / deltas * i;
    const auto removed =
        memory.sequences().RemoveRange(sequence, {.begin = Pos{at}, .end = Pos{at + 1}});
    if (!removed) Check(std::unexpected(removed.error()));
    Check(memory.sequences().AddPositions(sequence, {.begin = Pos{at + 1}, .end = kPosEnd}, -1));
  }
  std::vector<float> logits(TheEngine().config().vocab_size);
  for (auto _ : state) {
    Append(sequence, kCells, 1, logits.data());
    CutBack(sequence, kCells);
  }
  state.counters["deltas"] = memory.sequences().QueryUse(sequence)->delta_count;
  SetDecodeCounters(state, kCells, 1);
  Check(memory.sequences().Drop(sequence));
}
BENCHMARK(BM_EngineDecodeDeltas)
    ->ArgName("deltas")
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(8)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  return kvd::bench::RunBenches(argument_count, arguments, kvd::bench::model_path);
}
