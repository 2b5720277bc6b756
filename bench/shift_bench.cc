// Measures a position shift, against the work that the shift avoids: rotating the keys of the same
// cells again with kvd's kernels (decode, rotate, encode), which caches do that rewrite K.
//
// The arguments layers, heads and dim are the shape of a model's K: 4 x 2 x 32 is the shape of the
// bundled model, 22 x 4 x 64 that of a model with 1.1 billion parameters. The rotation is measured
// under the best conditions: one thread's kernels at full width, angles computed once, keys in
// place.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "bench/must.h"
#include "engine/memory/memory.h"
#include "engine/model/rope_table.h"
#include "kernels/kernel_table.h"

namespace {

using namespace kvd;
using bench::Must;

// Number of cells before the shifted cells, as in a rolling context.
constexpr std::uint32_t kKeptCells = 32;

// A memory with one sequence of kKeptCells + `tokens` cells and its keys in the pool.
struct FilledMemory {
  FilledMemory(const benchmark::State& state, kernels::DataType type)
      : k_type(type),
        token_count(static_cast<std::uint32_t>(state.range(0))),
        dim(static_cast<std::uint32_t>(state.range(3))) {
    const auto heads = static_cast<std::uint32_t>(state.range(2));
    const MemoryOptions options{
        .groups = {{.cells = token_count + kKeptCells,
                    .layers = std::vector<LayerShape>(
                        static_cast<std::size_t>(state.range(1)),
                        {.kv_head_count = heads, .k_dim = dim, .v_dim = dim})}},
        .k_type = type,
        .v_type = type,
        .sequence_capacity = 16};
    memory = Memory::Create(Must(MemorySegments::CreateAnonymous(Must(ComputeGeometry(options)))));
    sequence = Must(memory->sequences().Create(SequenceOwner{}));
    const std::vector<TokenId> tokens(options.groups[0].cells, 7);
    StepPlan plan;
    const AppendRequest request{sequence, Pos{0}, tokens};
    Must(memory->steps().Reserve({&request, 1}, plan));
    for (const layout::Extent& extent : plan.sequences[0].groups[0].extents) {
      blocks.push_back(memory->BlockBytes(0, BlockId{extent.block}));
    }
    FillKeys();
    Must(memory->steps().Commit(plan, 0));
    memory->steps().EndStep(plan);
  }

  // Visits the keys of each head of each block: kBlockCells rows of `dim`.
  template <class Visit>
  void ForEachPlane(std::size_t first_block, Visit visit) const {
    for (std::size_t b = first_block; b < blocks.size(); ++b) {
      for (const LayerLayout& layer : memory->geometry().groups[0].layers) {
        for (std::uint32_t head = 0; head < layer.kv_head_count; ++head) {
          visit(blocks[b] + layer.k_offset + head * layer.k_head_bytes);
        }
      }
    }
  }

  void FillKeys() {
    std::vector<float> keys(std::size_t{layout::kBlockCells} * dim);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = static_cast<float>(i * 37 % 101) / 50.0f - 1.0f;
    }
    ForEachPlane(
        0, [&](std::byte* plane) { table->encode_row(k_type, keys.data(), plane, keys.size()); });
  }

  const kernels::KernelTable* table = kernels::SelectKernels(nullptr).table;
  kernels::DataType k_type;
  std::uint32_t token_count;
  std::uint32_t dim;
  std::unique_ptr<Memory> memory;
  SequenceHandle sequence = SequenceHandle::kNone;
  std::vector<std::byte*> blocks;
};

void BM_KeysShift(benchmark::State& state, kernels::DataType k_type) {
  const FilledMemory filled(state, k_type);
  std::int32_t delta = 16;
  for (auto _ : state) {
    Must(filled.memory->sequences().AddPositions(filled.sequence, {Pos{kKeptCells}, kPosEnd},
                                                 delta));
    delta = -delta;
  }
}

void BM_KeysRotate(benchmark::State& state, kernels::DataType k_type) {
  const FilledMemory filled(state, k_type);
  const std::size_t count = std::size_t{layout::kBlockCells} * filled.dim;
  const RopeTable rope({.rotated_dim = filled.dim}, nullptr);
  std::vector<float> keys(count), cosine(rope.pair_count()), sine(rope.pair_count());
  std::int32_t delta = 16;
  for (auto _ : state) {
    rope.FillDifference(rope, Pos{0}, Pos{delta}, cosine.data(), sine.data());
    filled.ForEachPlane(kKeptCells / layout::kBlockCells, [&](std::byte* plane) {
      filled.table->decode_row(k_type, plane, keys.data(), count);
      filled.table->rope(keys.data(), layout::kBlockCells, filled.dim, filled.dim, true,
                         cosine.data(), sine.data());
      benchmark::DoNotOptimize(filled.table->encode_row(k_type, keys.data(), plane, count));
    });
    delta = -delta;
  }
  const LayerLayout& layer = filled.memory->geometry().groups[0].layers[0];
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * filled.token_count *
                          state.range(1) * layer.kv_head_count * layer.k_row_bytes);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "layers", "heads", "dim"})->Unit(benchmark::kMicrosecond);
  bench->Args({16384, 4, 2, 32})->Args({16384, 22, 4, 64});
}

}  // namespace

BENCHMARK_CAPTURE(BM_KeysShift, f16, kvd::kernels::DataType::kF16)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_KeysRotate, f16, kvd::kernels::DataType::kF16)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_KeysShift, q8_0, kvd::kernels::DataType::kQ8_0)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_KeysRotate, q8_0, kvd::kernels::DataType::kQ8_0)->Apply(Shapes);
