// Measures the packing of a pool whose blocks are mostly empty, against memcpy of the same runs
// between the same blocks; and the memory that packing returns to the system.
//
// The argument `run` is the number of live cells in each block of 32 cells; the live cells of a
// block are contiguous. The arguments layers, heads and dim are the shape of the model's K: 22 x 4
// x 64 is the shape of a model with 1.1 billion parameters. The measured time does not include the
// return of memory to the system, which giving_back_ms shows, because memcpy returns no memory. The
// measured time includes no settling, because no cell is shifted (shift_bench measures the
// rewriting of shifted keys).
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/must.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "engine/work/pool_cells.h"

namespace {

using namespace kvd;
using bench::Must;

constexpr std::uint32_t kBlocks = 256;
constexpr std::uint32_t kCells = kBlocks * layout::kBlockCells;
constexpr std::uint32_t kSliceCells = 1024;

std::uint64_t SharedResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  unsigned long long kib = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "RssShmem: %llu", &kib) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return kib * 1024;
}

// A pool that was full and of which sequences were then removed: the first half is free, and each
// block of the other half has only its first `run` cells. Packing therefore usually writes to
// memory that the system has already provided, as in a real daemon.
struct SparsePool {
  SparsePool(std::uint32_t run, std::uint32_t layer_count, std::uint32_t heads, std::uint32_t dim) {
    const MemoryOptions options{
        .groups = {{.cells = 2 * kCells,
                    .layers = std::vector<LayerShape>(
                        layer_count, {.kv_head_count = heads, .k_dim = dim, .v_dim = dim})}},
        .sequence_capacity = 16};
    memory =
        Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)), {})));
    cells.layers = memory->geometry().groups[0].layers;
    cells.groups.assign(layer_count, 0);
    const SequenceHandle sequence = Must(memory->sequences().Create(SequenceOwner{}));
    const std::vector<TokenId> tokens(2 * kCells, 7);
    StepPlan plan;
    const AppendRequest request{sequence, Pos{0}, tokens};
    Must(memory->steps().Reserve({&request, 1}, plan));
    for (const layout::Extent& extent : plan.sequences[0].groups[0].extents) {
      std::memset(memory->BlockBytes(0, BlockId{extent.block}), 1,
                  memory->geometry().groups[0].block_bytes);
    }
    Must(memory->steps().Commit(plan, 0));
    memory->steps().EndStep(plan);
    constexpr auto kBlockEnd = static_cast<std::int32_t>(layout::kBlockCells);
    for (std::int32_t block = 2 * kBlocks - 1; block >= static_cast<std::int32_t>(kBlocks);
         --block) {
      const std::int32_t first = block * kBlockEnd;
      Must(memory->sequences().RemoveRange(
          sequence, {Pos{first + static_cast<std::int32_t>(run)}, Pos{first + kBlockEnd}}));
    }
    Must(memory->sequences().RemoveRange(sequence,
                                         {Pos{0}, Pos{static_cast<std::int32_t>(kCells)}}));
  }

  CellLayout cells;
  std::unique_ptr<Memory> memory;
};

std::uint64_t BytesOf(const benchmark::State& state) {
  return std::uint64_t{kBlocks} * static_cast<std::uint64_t>(state.range(0)) *
         static_cast<std::uint64_t>(state.range(1) * state.range(2) * state.range(3)) * 2 *
         sizeof(std::uint16_t);
}

SparsePool MakePool(const benchmark::State& state) {
  return {static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)),
          static_cast<std::uint32_t>(state.range(2)), static_cast<std::uint32_t>(state.range(3))};
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BM_Defragment(benchmark::State& state) {
  double given_back = 0;
  for (auto _ : state) {
    SparsePool pool = MakePool(state);
    PoolCellMover mover(pool.cells, *pool.memory);
    const std::uint64_t before = SharedResidentBytes();
    const auto start = std::chrono::steady_clock::now();
    double returning = 0;
    for (DefragSlice slice; !slice.is_done;) {
      slice = Must(pool.memory->block_packer().Advance(kSliceCells, mover));
      returning += std::chrono::duration<double>(slice.returning).count();
    }
    state.SetIterationTime(SecondsSince(start) - returning);
    state.counters["giving_back_ms"] = returning * 1e3;
    given_back = static_cast<double>(before) - static_cast<double>(SharedResidentBytes());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(BytesOf(state)) * state.iterations());
  state.counters["given_back_mib"] = given_back / (1 << 20);
}

// Copies each run of cells of each plane to its new place, as packing does, and does nothing else.
void BM_RunsMemcpy(benchmark::State& state) {
  const auto run = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    SparsePool pool = MakePool(state);
    Memory& memory = *pool.memory;
    std::vector<std::byte*> from(kBlocks), to(kBlocks);
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      from[b] = memory.BlockBytes(0, BlockId{kBlocks + b});
      to[b] = memory.BlockBytes(0, BlockId{b});
    }
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      const std::uint32_t cell = b * run % layout::kBlockCells;
      std::byte* const target = to[b * run / layout::kBlockCells];
      for (std::size_t layer = 0; layer < pool.cells.layers.size(); ++layer) {
        const LayerLayout& at = pool.cells.layers[layer];
        for (std::uint32_t head = 0; head < at.kv_head_count; ++head) {
          std::memcpy(target + pool.cells.KRow(layer, head, cell),
                      from[b] + pool.cells.KRow(layer, head, 0), std::size_t{run} * at.k_row_bytes);
          std::memcpy(target + pool.cells.VRow(layer, head, cell),
                      from[b] + pool.cells.VRow(layer, head, 0), std::size_t{run} * at.v_row_bytes);
        }
      }
    }
    benchmark::ClobberMemory();
    state.SetIterationTime(SecondsSince(start));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(BytesOf(state)) * state.iterations());
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"run", "layers", "heads", "dim"})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(9);
  for (const int run : {8, 16}) {
    bench->Args({run, 4, 2, 32})->Args({run, 22, 4, 64});
  }
}

}  // namespace

BENCHMARK(BM_Defragment)->Apply(Shapes);
BENCHMARK(BM_RunsMemcpy)->Apply(Shapes);
