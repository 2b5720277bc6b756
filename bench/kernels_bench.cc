// Measures products, the conversion of quantised rows to floats, and attention for each table of
// kernels, and the limits of the machine in the same run.
//
// BM_Machine*: the rates at which one core reads from memory (stream), copies, and multiplies and
// adds. Compare `GB/s` of a narrow product with BM_MachineReads, and `GFLOP/s` of a wide one with
// BM_MachineMultiplyAdds.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if KVD_BENCH_OPENBLAS
#include <cblas.h>
#endif

#include "bench/random_blocks.h"
#include "kernels/data_type.h"
#include "kernels/kernel_table.h"
#include "kernels/panels.h"
#include "kernels/product_choice.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels {
namespace {

using bench::AlignedBuffer;
using bench::Buffer;
using bench::FillBlocks;
using bench::FillFloats;

constexpr std::size_t kInFeatures = 2048, kOutFeatures = 5632;
// The total size of the matrices that narrow products use in turn. It exceeds the processor's
// caches, so that each product reads its matrix from memory.
constexpr std::size_t kStreamBytes = std::size_t{192} << 20;

double RateOf(double per_iteration, const benchmark::State& state) {
  return per_iteration * static_cast<double>(state.iterations());
}

benchmark::Counter PerSecond(double amount) {
  return benchmark::Counter(amount * 1e-9, benchmark::Counter::kIsRate);
}

// ---- the machine

__attribute__((target("avx2"))) void ReadAll(const std::uint8_t* from, std::size_t bytes) {
  __m256i sums[4] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    __builtin_prefetch(from + i + 8192);
    __builtin_prefetch(from + i + 8256);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 4; ++k) {
      const auto* at = reinterpret_cast<const __m256i*>(from + i + 32 * k);
      sums[k] = _mm256_xor_si256(sums[k], _mm256_load_si256(at));
    }
  }
  for (__m256i& sum : sums) benchmark::DoNotOptimize(sum);
}

void BM_MachineReads(benchmark::State& state) {
  const Buffer<std::uint8_t> data = AlignedBuffer<std::uint8_t>(kStreamBytes);
  for (auto _ : state) ReadAll(data.get(), kStreamBytes);
  state.counters["GB/s"] = PerSecond(RateOf(static_cast<double>(kStreamBytes), state));
}
BENCHMARK(BM_MachineReads)->Unit(benchmark::kMillisecond);

void BM_MachineCopies(benchmark::State& state) {
  const Buffer<std::uint8_t> from = AlignedBuffer<std::uint8_t>(kStreamBytes);
  const Buffer<std::uint8_t> to = AlignedBuffer<std::uint8_t>(kStreamBytes);
  for (auto _ : state) {
    std::memcpy(to.get(), from.get(), kStreamBytes);
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = PerSecond(RateOf(2.0 * static_cast<double>(kStreamBytes), state));
}
BENCHMARK(BM_MachineCopies)->Unit(benchmark::kMillisecond);

// Computes independent fused multiply-adds on registers only, with 12 sums to hide the latency of
// an operation.
__attribute__((target("avx512f"))) void MultiplyAdds512(std::size_t count) {
  __m512 s[12];
  for (__m512& sum : s) sum = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (std::size_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : s) {
      sum = _mm512_fmadd_ps(sum, a, b);
      __asm__ volatile("" : "+v"(sum));
    }
  }
}
__attribute__((target("avx2,fma"))) void MultiplyAdds256(std::size_t count) {
  __m256 s[12];
  for (__m256& sum : s) sum = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (std::size_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : s) {
      sum = _mm256_fmadd_ps(sum, a, b);
      __asm__ volatile("" : "+x"(sum));
    }
  }
}

void BM_MachineMultiplyAdds(benchmark::State& state) {
  const bool wide = state.range(0) == 512;
  if (wide ? Avx512Table() == nullptr : Avx2Table() == nullptr) {
    state.SkipWithError("the machine lacks the instructions");
    return;
  }
  constexpr std::size_t kCount = 1 << 20;
  for (auto _ : state) {
    if (wide) {
      MultiplyAdds512(kCount);
    } else {
      MultiplyAdds256(kCount);
    }
  }
  const double lanes = wide ? 16.0 : 8.0;
  state.counters["GFLOP/s"] = PerSecond(RateOf(2.0 * 12 * kCount * lanes, state));
}
BENCHMARK(BM_MachineMultiplyAdds)->ArgName("bits")->Arg(256)->Arg(512);

// ---- products

void MultiplyRows(benchmark::State& state, const KernelTable& table, DataType type, WideForm form,
                  std::size_t row_count) {
  const bool in_bf16 = form == WideForm::kBf16;
  const std::size_t matrix_bytes = kOutFeatures * RowBytes(type, kInFeatures);
  // A narrow product (few rows) reads each matrix once, as decoding does, and uses several matrices
  // in turn, so that no matrix is in the processor's caches. The matrix of a wide product (many
  // rows) stays in the caches.
  const std::size_t matrix_count = row_count <= 16 ? kStreamBytes / matrix_bytes + 1 : 1;
  const Buffer<std::uint8_t> weights = AlignedBuffer<std::uint8_t>(matrix_count * matrix_bytes);
  FillBlocks(type, weights.get(), matrix_bytes);
  for (std::size_t m = 1; m < matrix_count; ++m) {
    std::memcpy(weights.get() + m * matrix_bytes, weights.get(), matrix_bytes);
  }
  const Buffer<float> x = AlignedBuffer<float>(row_count * kInFeatures);
  FillFloats(x.get(), row_count * kInFeatures);
  const Buffer<float> y = AlignedBuffer<float>(row_count * kOutFeatures);
  std::vector<float*> rows(row_count);
  for (std::size_t r = 0; r < row_count; ++r) rows[r] = y.get() + r * kOutFeatures;
  const Buffer<float> workspace =
      AlignedBuffer<float>(MatmulWorkspaceFloats(kInFeatures, row_count));
  const Buffer<std::uint8_t> quantized =
      AlignedBuffer<std::uint8_t>(row_count * QuantizedRowBytes(kInFeatures));
  const Buffer<std::uint8_t> rounded =
      AlignedBuffer<std::uint8_t>(row_count * Bf16RowBytes(kInFeatures));
  std::size_t m = 0;
  for (auto _ : state) {
    if (in_bf16) {
      table.round_rows(x.get(), kInFeatures, row_count, kInFeatures, rounded.get());
    }
    if (IsQuantized(type) && !in_bf16) {
      table.quantize_rows(x.get(), kInFeatures, row_count, kInFeatures, quantized.get());
    }
    table.matmul({.weight_type = type,
                  .weights = weights.get() + m * matrix_bytes,
                  .in_features = kInFeatures,
                  .x = x.get(),
                  .x_stride = kInFeatures,
                  .quantized_x = quantized.get(),
                  .bf16_x = in_bf16 ? rounded.get() : nullptr,
                  .row_count = row_count,
                  .y = rows.data(),
                  .first_out = 0,
                  .last_out = kOutFeatures,
                  .workspace = workspace.get(),
                  .outer_products = form == WideForm::kOuter});
    benchmark::ClobberMemory();
    m = (m + 1) % matrix_count;
  }
  const double flops = 2.0 * static_cast<double>(row_count * kInFeatures * kOutFeatures);
  state.counters["GB/s"] = PerSecond(RateOf(static_cast<double>(matrix_bytes), state));
  state.counters["GFLOP/s"] = PerSecond(RateOf(flops, state));
}

void RegisterProducts(const KernelTable& table) {
  for (const DataType type : kDataTypes) {
    for (const std::size_t rows : {1u, 4u, 8u, 16u, 64u, 512u}) {
      for (const WideForm form : {WideForm::kAsNarrow, WideForm::kBf16, WideForm::kOuter}) {
        if (!Supports(table, type, form)) continue;
        const std::string name = std::string("BM_MatmulRuns/table:") + table.name +
                                 "/type:" + DataTypeName(type) + "/rows:" + std::to_string(rows) +
                                 (form == WideForm::kAsNarrow ? "" : "/") +
                                 (form == WideForm::kAsNarrow ? "" : WideFormName(form));
        benchmark::RegisterBenchmark(name.c_str(), [&table, type, form,
                                                    rows](benchmark::State& state) {
          MultiplyRows(state, table, type, form, rows);
        })->Unit(benchmark::kMillisecond);
      }
    }
  }
}

#if KVD_BENCH_OPENBLAS
// Measures an f32 product of the same shape by OpenBLAS on one thread, with the kernels that
// OpenBLAS chooses (OPENBLAS_CORETYPE overrides the choice).
void BM_OpenblasMultiplies(benchmark::State& state) {
  openblas_set_num_threads(1);
  const auto row_count = static_cast<std::size_t>(state.range(0));
  const Buffer<float> weights = AlignedBuffer<float>(kOutFeatures * kInFeatures);
  const Buffer<float> x = AlignedBuffer<float>(row_count * kInFeatures);
  const Buffer<float> y = AlignedBuffer<float>(row_count * kOutFeatures);
  FillFloats(weights.get(), kOutFeatures * kInFeatures);
  FillFloats(x.get(), row_count * kInFeatures);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(row_count),
                kOutFeatures, kInFeatures, 1.0f, x.get(), kInFeatures, weights.get(), kInFeatures,
                0.0f, y.get(), kOutFeatures);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * static_cast<double>(row_count * kInFeatures * kOutFeatures);
  state.counters["GFLOP/s"] = PerSecond(RateOf(flops, state));
}
BENCHMARK(BM_OpenblasMultiplies)->ArgName("rows")->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
#endif

void DecodeRows(benchmark::State& state, const KernelTable& table, DataType type) {
  constexpr std::size_t kElements = 8192;
  const Buffer<std::uint8_t> source = AlignedBuffer<std::uint8_t>(RowBytes(type, kElements));
  FillBlocks(type, source.get(), RowBytes(type, kElements));
  const Buffer<float> decoded = AlignedBuffer<float>(kElements);
  for (auto _ : state) {
    table.decode_row(type, source.get(), decoded.get(), kElements);
    benchmark::ClobberMemory();
  }
  state.counters["Gelements/s"] = PerSecond(RateOf(kElements, state));
}

// ---- attention

// Measures attention in one layer of a grouped-query model: 4 query heads per key head of 128,
// `rows` tokens against `depth` cells.
void Attend(benchmark::State& state, const KernelTable& table, DataType type, std::size_t depth,
            std::size_t rows) {
  constexpr std::size_t kDim = 128, kKeyHeads = 8;
  const std::size_t query_rows = 4 * rows;
  const std::size_t cells_bytes = RowBytes(type, kDim) * depth;
  const Buffer<std::uint8_t> k = AlignedBuffer<std::uint8_t>(kKeyHeads * cells_bytes);
  const Buffer<std::uint8_t> v = AlignedBuffer<std::uint8_t>(kKeyHeads * cells_bytes);
  std::vector<float> row(kDim);
  for (std::size_t c = 0; c < kKeyHeads * depth; ++c) {
    FillFloats(row.data(), kDim);
    table.encode_row(type, row.data(), k.get() + c * RowBytes(type, kDim), kDim);
    table.encode_row(type, row.data(), v.get() + c * RowBytes(type, kDim), kDim);
  }
  const Buffer<float> q = AlignedBuffer<float>(query_rows * kDim);
  FillFloats(q.get(), query_rows * kDim);
  const Buffer<float> values = AlignedBuffer<float>(query_rows * kDim);
  const Buffer<float> panel = AlignedBuffer<float>(KeyPanelFloats(kDim));
  std::vector<float> scores(query_rows * kRunCells), rescales(query_rows);
  std::vector<SoftmaxState> states(query_rows);
  for (auto _ : state) {
    for (std::size_t h = 0; h < kKeyHeads; ++h) {
      for (SoftmaxState& softmax : states) softmax = {-INFINITY, 0.0f};
      for (std::size_t c = 0; c < depth; c += kRunCells) {
        const std::size_t at = h * cells_bytes + c * RowBytes(type, kDim);
        table.key_panel(type, k.get() + at, kRunCells, kDim, panel.get());
        table.scores(panel.get(), kRunCells, kDim, q.get(), kDim, query_rows, 0.088f, scores.data(),
                     kRunCells);
        table.softmax_rows(scores.data(), kRunCells, query_rows, kRunCells, states.data(),
                           rescales.data());
        table.add_values(type, v.get() + at, kernels::RowBytes(type, kDim), kRunCells, kDim,
                         scores.data(), kRunCells, rescales.data(), query_rows, values.get(), kDim);
      }
    }
    benchmark::ClobberMemory();
  }
  const double flops = 4.0 * static_cast<double>(kKeyHeads * query_rows * depth * kDim);
  state.counters["GB/s"] =
      PerSecond(RateOf(2.0 * static_cast<double>(kKeyHeads * cells_bytes), state));
  state.counters["GFLOP/s"] = PerSecond(RateOf(flops, state));
}

void RegisterOthers(const KernelTable& table) {
  for (const DataType type : kDataTypes) {
    const std::string name =
        std::string("BM_RowDecodes/table:") + table.name + "/type:" + DataTypeName(type);
    benchmark::RegisterBenchmark(
        name.c_str(), [&table, type](benchmark::State& state) { DecodeRows(state, table, type); });
  }
  for (const DataType type : kCellTypes) {
    for (const std::size_t rows : {1u, 32u}) {
      for (const std::size_t depth : {512u, 4096u, 32768u}) {
        if (rows > 1 && depth > 4096) continue;
        const std::string name = std::string("BM_AttentionRuns/table:") + table.name +
                                 "/type:" + DataTypeName(type) + "/rows:" + std::to_string(rows) +
                                 "/depth:" + std::to_string(depth);
        benchmark::RegisterBenchmark(name.c_str(), [&table, type, depth,
                                                    rows](benchmark::State& state) {
          Attend(state, table, type, depth, rows);
        })->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace
}  // namespace kvd::kernels

int main(int argc, char** argv) {
  for (const kvd::kernels::KernelTable* table :
       {kvd::kernels::AmxTable(), kvd::kernels::Avx512Table(), kvd::kernels::Avx2Table()}) {
    if (table == nullptr) continue;
    kvd::kernels::RegisterProducts(*table);
    kvd::kernels::RegisterOthers(*table);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
