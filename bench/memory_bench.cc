// Measures the metadata verbs in an otherwise idle memory, against memcpy of the extents that they
// copy.
//
// The argument `tokens` is the length of the sequence. Every verb is measured on a sequence of
// whole blocks, and its effect is undone outside of the measured time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/must.h"
#include "engine/memory/memory.h"
#include "engine/memory/rebuild.h"

namespace {

using namespace kvd;
using bench::Must;

constexpr SequenceOwner kOwner{OwnerId{1000}, SessionId{1}, 0};

// Returns a memory of 131,072 cells whose cells are tiny, because the measured verbs never access
// the pool.
std::unique_ptr<Memory> MakeMemory() {
  MemoryOptions options;
  options.groups = {{.cells = 131072, .layers = {{1, 2, 2}}}};
  options.sequence_capacity = 4096;
  return Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)))));
}

void Append(Memory& memory, SequenceHandle handle, std::size_t token_count) {
  const std::vector<TokenId> tokens(token_count, 7);
  StepPlan plan;
  const AppendRequest request{handle, Must(memory.sequences().Query(handle)).next_pos, tokens};
  Must(memory.steps().Reserve({&request, 1}, plan));
  Must(memory.steps().Commit(plan, 0));
  memory.steps().EndStep(plan);
}

SequenceHandle MakeSequence(Memory& memory, std::size_t token_count) {
  const SequenceHandle handle = Must(memory.sequences().Create(kOwner));
  // Appends the tokens in chunks, as when a prompt is computed.
  for (std::size_t done = 0; done < token_count; done += 512) {
    Append(memory, handle, std::min<std::size_t>(512, token_count - done));
  }
  return handle;
}

SequenceHandle ForkOf(Memory& memory, SequenceHandle source) {
  SequenceHandle fork = SequenceHandle::kNone;
  Must(memory.sequences().Fork(source, kOwner, {&fork, 1}, std::nullopt));
  return fork;
}

std::size_t TokensOf(const benchmark::State& state) {
  return static_cast<std::size_t>(state.range(0));
}

void BM_SequenceFork(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  for (auto _ : state) {
    const SequenceHandle fork = ForkOf(*memory, source);
    state.PauseTiming();
    Must(memory->sequences().Drop(fork));
    state.ResumeTiming();
  }
}

void BM_SequenceForkThousand(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  std::vector<SequenceHandle> forks(1000);
  for (auto _ : state) {
    Must(memory->sequences().Fork(source, kOwner, forks, std::nullopt));
    state.PauseTiming();
    Must(memory->sequences().DropAll(forks));
    state.ResumeTiming();
  }
}

void BM_SequenceForkAndDrop(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  for (auto _ : state) Must(memory->sequences().Drop(ForkOf(*memory, source)));
}

// Measures a memcpy of the bytes of a fork's list, for comparison with a fork.
void BM_ExtentsMemcpy(benchmark::State& state) {
  const std::size_t bytes = TokensOf(state) / layout::kBlockCells * sizeof(layout::Extent);
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) *
                          static_cast<std::int64_t>(state.iterations()));
}

void BM_RangeCopy(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  const SequenceHandle destination = Must(memory->sequences().Create(kOwner));
  const PosRange range{Pos{0}, Pos{static_cast<std::int32_t>(TokensOf(state) / 2 + 5)}};
  for (auto _ : state) {
    Must(memory->sequences().CopyRange(source, destination, range));
    state.PauseTiming();
    Must(memory->sequences().Clear(destination));
    state.ResumeTiming();
  }
}

void BM_RangeRemoveMiddle(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  const auto quarter = static_cast<std::int32_t>(TokensOf(state) / 4);
  for (auto _ : state) {
    state.PauseTiming();
    const SequenceHandle fork = ForkOf(*memory, source);
    state.ResumeTiming();
    Must(memory->sequences().RemoveRange(fork, {Pos{quarter + 5}, Pos{2 * quarter + 5}}));
    state.PauseTiming();
    Must(memory->sequences().Drop(fork));
    state.ResumeTiming();
  }
}

void BM_RangeRemoveTail(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  const auto half = static_cast<std::int32_t>(TokensOf(state) / 2);
  for (auto _ : state) {
    state.PauseTiming();
    const SequenceHandle fork = ForkOf(*memory, source);
    state.ResumeTiming();
    Must(memory->sequences().RemoveRange(fork, {Pos{half + 5}, kPosEnd}));
    state.PauseTiming();
    Must(memory->sequences().Drop(fork));
    state.ResumeTiming();
  }
}

// Measures a position shift of all tokens after the first 32, and the shift back.
void BM_PositionsShift(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle handle = MakeSequence(*memory, TokensOf(state) + 32);
  std::int32_t delta = 16;
  for (auto _ : state) {
    Must(memory->sequences().AddPositions(handle, {Pos{32}, kPosEnd}, delta));
    delta = -delta;
  }
}

// Measures Memory's functions Reserve, Commit and EndStep for a step of one token.
void BM_StepAppend(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle handle = MakeSequence(*memory, TokensOf(state));
  const TokenId token = 7;
  StepPlan plan;
  auto next_pos = static_cast<std::int32_t>(TokensOf(state));
  const std::int32_t first_pos = next_pos;
  for (auto _ : state) {
    const AppendRequest request{handle, Pos{next_pos++}, {&token, 1}};
    Must(memory->steps().Reserve({&request, 1}, plan));
    Must(memory->steps().Commit(plan, 0));
    memory->steps().EndStep(plan);
    if (next_pos == first_pos + 4096) {
      state.PauseTiming();
      Must(memory->sequences().RemoveRange(handle, {Pos{first_pos}, kPosEnd}));
      next_pos = first_pos;
      state.ResumeTiming();
    }
  }
}

// Forks a sequence of 4,096 tokens with a recurrent state of the given size in MiB: the fork refers
// to the state and does not copy it.
void BM_RecurrentFork(benchmark::State& state) {
  MemoryOptions options;
  options.groups = {{.cells = 8192, .layers = {}}};
  options.sequence_capacity = 64;
  options.state_bytes = static_cast<std::uint64_t>(state.range(0)) << 20;
  options.state_slots = 4;
  options.checkpoint_slots = 2;
  const auto memory =
      Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)))));
  const SequenceHandle source = MakeSequence(*memory, 4096);
  for (auto _ : state) {
    const SequenceHandle fork = ForkOf(*memory, source);
    state.PauseTiming();
    Must(memory->sequences().Drop(fork));
    state.ResumeTiming();
  }
}

double MedianUs(std::vector<double> seconds) {
  std::ranges::nth_element(seconds,
                           seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return seconds[seconds.size() / 2] * 1e6;
}

// Makes 10,000 live forks of one prefix of 4,096 tokens, and then appends one token to each.
// The figure `bytes` is the size of a fork's record and list units; `bytes_with_token` is the same
// size after the fork has a token of its own.
void BM_TenThousandForks(benchmark::State& state) {
  constexpr std::size_t kForks = 10000, kTokens = 4096, kEnd = 100;
  MemoryOptions options;
  options.groups = {{.cells = kTokens + kForks * layout::kBlockCells, .layers = {{1, 2, 2}}}};
  const auto memory =
      Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)))));
  for (auto _ : state) {
    const SequenceHandle source = MakeSequence(*memory, kTokens);
    const PoolUsage before = memory->Usage();
    std::vector<SequenceHandle> forks;
    std::vector<double> seconds;
    for (std::size_t fork = 0; fork < kForks; ++fork) {
      const auto start = std::chrono::steady_clock::now();
      forks.push_back(ForkOf(*memory, source));
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const PoolUsage forked = memory->Usage();
    for (const SequenceHandle fork : forks) Append(*memory, fork, 1);
    const PoolUsage appended = memory->Usage();
    const auto bytes = [&](const PoolUsage& now) {
      return static_cast<double>(sizeof(layout::SequenceRecord)) +
             static_cast<double>((before.list_units_free - now.list_units_free) *
                                 layout::kListUnitBytes) /
                 kForks;
    };
    state.counters["first_us"] = MedianUs({seconds.begin(), seconds.begin() + kEnd});
    state.counters["last_us"] = MedianUs({seconds.end() - kEnd, seconds.end()});
    state.counters["bytes"] = bytes(forked);
    state.counters["bytes_with_token"] = bytes(appended);
    state.counters["blocks_with_token"] =
        static_cast<double>(forked.free_blocks - appended.free_blocks) / kForks;
    Must(memory->sequences().DropAll(forks));
    Must(memory->sequences().Drop(source));
  }
}

// Reads 10,000 forks of 4,096 tokens as the publisher of the live map does. Measures the time of
// the whole pass, and the longest time for which one call of the pass may delay a verb.
void BM_MapPass(benchmark::State& state) {
  constexpr std::size_t kForks = 10000, kTokens = 4096, kCallExtents = 1024;
  MemoryOptions options;
  options.groups = {{.cells = kTokens + kForks * layout::kBlockCells, .layers = {{1, 2, 2}}}};
  const auto memory =
      Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)))));
  const SequenceHandle source = MakeSequence(*memory, kTokens);
  for (std::size_t fork = 0; fork < kForks; ++fork) ForkOf(*memory, source);
  class Counter : public SequenceVisitor {
   public:
    void Visit(const SequenceInfo&, std::uint32_t shared_cells, std::uint32_t,
               std::span<const layout::Extent>) override {
      cells += shared_cells;
    }
    std::uint64_t cells = 0;
  };
  Counter counter;
  std::vector<double> seconds;
  const std::uint32_t capacity = memory->Usage().sequence_capacity;
  for (auto _ : state) {
    for (std::uint32_t index = 0; index < capacity;) {
      const auto start = std::chrono::steady_clock::now();
      index = memory->sequences().Visit(index, capacity, kCallExtents, counter);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  benchmark::DoNotOptimize(counter.cells);
  std::ranges::sort(seconds);
  state.counters["call_p50_us"] = seconds[seconds.size() / 2] * 1e6;
  state.counters["call_p99_us"] = seconds[seconds.size() * 99 / 100] * 1e6;
}

void BM_TablesRebuild(benchmark::State& state) {
  const auto memory = MakeMemory();
  const SequenceHandle source = MakeSequence(*memory, TokensOf(state));
  for (int fork = 0; fork < 15; ++fork) ForkOf(*memory, source);
  for (auto _ : state) benchmark::DoNotOptimize(Must(RebuildTables(memory->meta_bytes())));
  state.counters["cells"] = static_cast<double>(TokensOf(state) * 16);
}

}  // namespace

BENCHMARK(BM_SequenceFork)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_ExtentsMemcpy)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_SequenceForkAndDrop)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_SequenceForkThousand)
    ->ArgName("tokens")
    ->Arg(4096)
    ->Arg(32768)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_RangeCopy)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_RangeRemoveMiddle)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_RangeRemoveTail)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_PositionsShift)->ArgName("tokens")->Arg(16384)->Arg(32768);
BENCHMARK(BM_StepAppend)->ArgName("tokens")->Arg(4096)->Arg(32768);
BENCHMARK(BM_RecurrentFork)->ArgName("state_mib")->Arg(1)->Arg(16)->Arg(128);
BENCHMARK(BM_TenThousandForks)->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MapPass)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TablesRebuild)
    ->ArgName("tokens")
    ->Arg(4096)
    ->Arg(32768)
    ->Unit(benchmark::kMicrosecond);

BENCHMARK_MAIN();
