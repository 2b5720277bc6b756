// Measures the cost of prefix sharing in the engine (prefix_processes.cc measures prefix sharing
// between processes): a look-up among 10,000 retained sequences (target: at most 50 us), a hit on
// 16,384 tokens (target: at most 1 ms), and appending a token to a short and to a long sequence.
//
// The retained sequences are in groups of a hundred; the sequences of a group have the same first
// 1,024 tokens and differ after these tokens.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/must.h"
#include "engine/memory/memory.h"

namespace {

using namespace kvd;
using bench::Must;

constexpr SequenceOwner kOwner{OwnerId{1000}, SessionId{1}, 0};

std::unique_ptr<Memory> MakeMemory(std::uint64_t cells) {
  MemoryOptions options;
  options.groups = {{.cells = cells, .layers = {{1, 2, 2}}}};
  options.sequence_capacity = 16384;
  return Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)))));
}

void Append(Memory& memory, SequenceHandle handle, std::span<const TokenId> tokens) {
  StepPlan plan;
  const AppendRequest request{handle, Must(memory.sequences().Query(handle)).next_pos, tokens};
  Must(memory.steps().Reserve({&request, 1}, plan));
  Must(memory.steps().Commit(plan, 0));
  memory.steps().EndStep(plan);
}

std::vector<TokenId> Prompt(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

constexpr int kRetained = 10'000;
constexpr int kAlike = 100;

std::vector<TokenId> RetainedPrompt(int number) {
  std::vector<TokenId> tokens = Prompt(1'000'000 * (1 + number / kAlike), 1024);
  const std::vector<TokenId> own = Prompt(500'000'000 + number * 1000, 64);
  tokens.insert(tokens.end(), own.begin(), own.end());
  return tokens;
}

Memory& FullMemory() {
  static const std::unique_ptr<Memory> memory = [] {
    auto made = MakeMemory(1u << 20);
    for (int number = 0; number < kRetained; ++number) {
      const std::vector<TokenId> tokens = RetainedPrompt(number);
      const SequenceHandle handle = Must(made->sequences().Create(kOwner));
      const PrefixTaken taken =
          Must(made->prefixes().Take({.destination = handle, .tokens = tokens}));
      Append(*made, handle, std::span(tokens).subspan(taken.cells));
      if (!Must(made->prefixes().Retain(handle))) std::abort();
    }
    if (made->Usage().retained_sequences != kRetained) std::abort();
    return made;
  }();
  return *memory;
}

void BM_LookUpAmong10000(benchmark::State& state) {
  const Memory& memory = FullMemory();
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < 64; ++i) {
    prompts.push_back(RetainedPrompt(i * 151 % kRetained));
    prompts.back().resize(1024 + 40);
    const auto rest = Prompt(900'000'000, 1000);
    prompts.back().insert(prompts.back().end(), rest.begin(), rest.end());
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const PrefixTaken found = memory.prefixes().Find(kOwner, prompts[next++ % prompts.size()]);
    if (found.cells != 1064) state.SkipWithError("not found");
  }
}
BENCHMARK(BM_LookUpAmong10000)->Unit(benchmark::kMicrosecond);

void BM_MissAmong10000(benchmark::State& state) {
  const Memory& memory = FullMemory();
  const std::vector<TokenId> prompt = Prompt(900'000'000, 2048);
  for (auto _ : state) benchmark::DoNotOptimize(memory.prefixes().Find(kOwner, prompt));
}
BENCHMARK(BM_MissAmong10000)->Unit(benchmark::kMicrosecond);

// Measures a complete hit: a new sequence that takes its prefix from a retained one.
void BM_TakePrefix(benchmark::State& state) {
  const auto memory = MakeMemory(1u << 17);
  const std::vector<TokenId> prompt = Prompt(1, static_cast<std::size_t>(state.range(0)) + 1);
  const SequenceHandle source = Must(memory->sequences().Create(kOwner));
  for (std::size_t done = 0; done < prompt.size(); done += 512) {
    const auto rest = std::span(prompt).subspan(done);
    Append(*memory, source, rest.first(std::min<std::size_t>(512, rest.size())));
  }
  for (auto _ : state) {
    const SequenceHandle handle = Must(memory->sequences().Create(kOwner));
    const auto begin = std::chrono::steady_clock::now();
    const PrefixTaken taken =
        Must(memory->prefixes().Take({.destination = handle, .tokens = prompt}));
    const auto end = std::chrono::steady_clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
    if (taken.cells + 1 != prompt.size()) state.SkipWithError("not taken");
    Must(memory->sequences().Drop(handle));
  }
}
BENCHMARK(BM_TakePrefix)->Arg(2048)->Arg(16384)->UseManualTime()->Unit(benchmark::kMicrosecond);

// Measures Reserve and Commit of one token.
void BM_AppendToken(benchmark::State& state) {
  const auto memory = MakeMemory(1u << 17);
  const SequenceHandle source = Must(memory->sequences().Create(kOwner));
  Append(*memory, source, Prompt(1, static_cast<std::size_t>(state.range(0))));
  TokenId token = 0;
  for (auto _ : state) {
    const TokenId next = 1000 + token++ % 1000;
    Append(*memory, source, {&next, 1});
    if (token % 4096 == 0) {
      state.PauseTiming();
      Must(memory->sequences().RemoveRange(
          source, {Pos{static_cast<std::int32_t>(state.range(0))}, kPosEnd}));
      state.ResumeTiming();
    }
  }
}
BENCHMARK(BM_AppendToken)->Arg(512)->Arg(32768)->Unit(benchmark::kMicrosecond);

// Measures the eviction of one of 10,000 sequences.
void BM_Evict(benchmark::State& state) {
  Memory& memory = FullMemory();
  std::uint32_t left = kRetained;
  for (auto _ : state) {
    if (memory.prefixes().LimitRetained(--left) != 1) state.SkipWithError("nothing went");
  }
}
BENCHMARK(BM_Evict)->Iterations(50)->Unit(benchmark::kMicrosecond);

}  // namespace
