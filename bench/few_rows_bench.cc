// Measures products of few rows of x with quantised weights in memory, on two threads, against the
// lower of two limits of the same run, by kernel table, weight type, form and number of rows:
//
//   * the bytes of the weights at the rate at which two threads read the same mapping;
//   * the products at the rate of the table's integer instructions (form `bf16`: of its tile
//     instructions) on registers.
//
// `of_limit` is the measured rate divided by that limit; a step of a model is limited by the same
// two. The weights are random blocks in a file in /dev/shm that is mapped as a model's file is,
// with pages of 4 KiB. `limit_GB/s` and `limit_GMAC/s` are the two limits, for both threads.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/random_blocks.h"
#include "kernels/amx/tiles.h"
#include "kernels/kernel_table.h"
#include "kernels/panels.h"
#include "kernels/product_choice.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels {
namespace {

using Clock = std::chrono::steady_clock;
using bench::AlignedBuffer;
using bench::Buffer;

constexpr std::size_t kInFeatures = 2048, kOutFeatures = 5632;
constexpr std::size_t kThreads = 2;
// The two threads share a matrix. A thread takes about so many outputs at a time as in the engine
// (engine/forward/compute/linear.cc).
constexpr std::size_t kWideRows = 5;
constexpr std::size_t UnitOut(std::size_t row_count) { return row_count < kWideRows ? 96 : 352; }
// More than the processor's caches, so that each product reads its matrix from memory.
constexpr std::size_t kMatricesBytes = std::size_t{192} << 20;

// A file of random blocks of one type in /dev/shm, mapped read-only.
class MappedMatrices {
 public:
  explicit MappedMatrices(DataType type)
      : matrix_bytes_(kOutFeatures * RowBytes(type, kInFeatures)),
        count_(kMatricesBytes / matrix_bytes_ + 1) {
    const int file = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes())) != 0) Fail("/dev/shm");
    const Buffer<std::uint8_t> matrix = AlignedBuffer<std::uint8_t>(matrix_bytes_);
    bench::FillBlocks(type, matrix.get(), matrix_bytes_);
    for (std::size_t m = 0; m < count_; ++m) {
      if (::pwrite(file, matrix.get(), matrix_bytes_, static_cast<off_t>(m * matrix_bytes_)) !=
          static_cast<ssize_t>(matrix_bytes_)) {
        Fail("/dev/shm");
      }
    }
    void* const mapped = ::mmap(nullptr, bytes(), PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (mapped == MAP_FAILED) Fail("mmap");
    ::close(file);
    mapped_ = static_cast<const std::uint8_t*>(mapped);
  }
  MappedMatrices(const MappedMatrices&) = delete;
  MappedMatrices& operator=(const MappedMatrices&) = delete;
  ~MappedMatrices() { ::munmap(const_cast<std::uint8_t*>(mapped_), bytes()); }

  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * matrix_bytes_; }
  std::size_t matrix_bytes() const { return matrix_bytes_; }
  const std::uint8_t* matrix(std::size_t i) const { return mapped_ + i * matrix_bytes_; }

 private:
  [[noreturn]] static void Fail(const char* what) {
    std::perror(what);
    std::exit(1);
  }

  const std::size_t matrix_bytes_;
  const std::size_t count_;
  const std::uint8_t* mapped_ = nullptr;
};

// Calls work(thread) on two threads, and returns the seconds until both have ended.
template <class Work>
double SecondsOnBoth(const Work& work) {
  std::atomic<int> ready = 0;
  Clock::time_point start;
  const auto run = [&](std::size_t thread) {
    ++ready;
    while (ready.load() < static_cast<int>(kThreads)) _mm_pause();
    if (thread == 0) start = Clock::now();
    work(thread);
  };
  std::thread second([&] { run(1); });
  run(0);
  second.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Work>
double BestSecondsOnBoth(const Work& work) {
  const double first = SecondsOnBoth(work);
  return std::min(first, SecondsOnBoth(work));
}

// Prefetches as the products do (docs/decisions/0014).
__attribute__((target("avx2"))) void ReadAll(const std::uint8_t* from, std::size_t bytes) {
  __m256i sums[4] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    constexpr std::size_t kFar = 16384, kNear = 4096, kPage = 4096;
    if (i % kPage == 0) __builtin_prefetch(from + i + kFar);
    __builtin_prefetch(from + i + kFar, 0, 2);
    __builtin_prefetch(from + i + kFar + 64, 0, 2);
    __builtin_prefetch(from + i + kNear);
    __builtin_prefetch(from + i + kNear + 64);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 4; ++k) {
      const auto* at = reinterpret_cast<const __m256i*>(from + i + 32 * k);
      sums[k] = _mm256_xor_si256(sums[k], _mm256_load_si256(at));
    }
  }
  for (__m256i& sum : sums) benchmark::DoNotOptimize(sum);
}

// Bytes per second that two threads read; each matrix is divided as products divide it.
double ReadRate(const MappedMatrices& matrices) {
  const std::size_t half = matrices.matrix_bytes() / kThreads / 128 * 128;
  const double seconds = BestSecondsOnBoth([&](std::size_t thread) {
    for (std::size_t m = 0; m < matrices.count(); ++m) {
      ReadAll(matrices.matrix(m) + thread * half, half);
    }
  });
  return static_cast<double>(matrices.count() * half * kThreads) / seconds;
}

// Independent integer multiply-adds on registers: 64 or 32 products of bytes in an instruction or a
// sequence, with sums enough to hide its latency.
__attribute__((target("avx512f,avx512vnni"))) void MultiplyBytes512(std::size_t count) {
  __m512i s[12] = {};
  const __m512i a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(2);
  for (std::size_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : s) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
      __asm__ volatile("" : "+v"(sum));
    }
  }
}
__attribute__((target("avx2"))) void MultiplyBytes256(std::size_t count) {
  __m256i s[12] = {};
  __m256i a = _mm256_set1_epi8(1);
  const __m256i b = _mm256_set1_epi8(2), ones = _mm256_set1_epi16(1);
  for (std::size_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : s) {
      __asm__ volatile("" : "+x"(a));
      const __m256i pairs = _mm256_maddubs_epi16(a, b);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
      __asm__ volatile("" : "+x"(sum));
    }
  }
}

// Products of bf16 on tiles: 16 x 16 x 32 in an instruction, with four sums.
void MultiplyTiles(std::size_t count) {
  amx::TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.Set(tile, amx::kTileRows, amx::kTileRowBytes);
  amx::Tiles::Configure(shapes);
  StaticFor<8>([](auto tile) { amx::Tiles::Zero<tile.value>(); });
  for (std::size_t i = 0; i < count; ++i) {
    StaticFor<4>([](auto sum) { amx::Tiles::AddHalfProducts<sum.value, 4, 5>(); });
  }
  amx::Tiles::Release();
}

// Products per second of two threads.
double ProductRate(const KernelTable& table, WideForm form) {
  if (form == WideForm::kBf16) {
    constexpr std::size_t kTileCount = std::size_t{1} << 16;
    const double seconds = BestSecondsOnBoth([](std::size_t) { MultiplyTiles(kTileCount); });
    return static_cast<double>(kThreads * kTileCount * 4 * 16 * 16 * 32) / seconds;
  }
  constexpr std::size_t kCount = std::size_t{1} << 21;
  const bool is_wide = std::strcmp(table.name, "avx2") != 0;
  const double seconds = BestSecondsOnBoth([&](std::size_t) {
    if (is_wide) {
      MultiplyBytes512(kCount);
    } else {
      MultiplyBytes256(kCount);
    }
  });
  return static_cast<double>(kThreads * kCount * 12 * (is_wide ? 64 : 32)) / seconds;
}

void MultiplyFewRows(benchmark::State& state, const KernelTable& table, DataType type,
                     WideForm form, std::size_t row_count) {
  const MappedMatrices matrices(type);
  const Buffer<float> x = AlignedBuffer<float>(row_count * kInFeatures);
  bench::FillFloats(x.get(), row_count * kInFeatures);
  const Buffer<float> y = AlignedBuffer<float>(row_count * kOutFeatures);
  std::vector<float*> rows(row_count);
  for (std::size_t r = 0; r < row_count; ++r) rows[r] = y.get() + r * kOutFeatures;
  std::vector<Buffer<float>> workspaces;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    workspaces.push_back(AlignedBuffer<float>(MatmulWorkspaceFloats(kInFeatures, row_count)));
  }
  const Buffer<std::uint8_t> quantized =
      AlignedBuffer<std::uint8_t>(row_count * QuantizedRowBytes(kInFeatures));
  table.quantize_rows(x.get(), kInFeatures, row_count, kInFeatures, quantized.get());
  const Buffer<std::uint8_t> rounded =
      AlignedBuffer<std::uint8_t>(row_count * Bf16RowBytes(kInFeatures));
  if (form == WideForm::kBf16) {
    table.round_rows(x.get(), kInFeatures, row_count, kInFeatures, rounded.get());
  }
  const std::size_t unit_out = UnitOut(form == WideForm::kBf16 ? kWideRows : row_count);
  const auto multiply = [&](std::size_t thread) {
    const std::size_t first = thread * kOutFeatures / kThreads;
    const std::size_t last = (thread + 1) * kOutFeatures / kThreads;
    for (std::size_t m = 0; m < matrices.count(); ++m) {
      for (std::size_t out = first; out < last; out += unit_out) {
        table.matmul({.weight_type = type,
                      .weights = matrices.matrix(m),
                      .in_features = kInFeatures,
                      .x = x.get(),
                      .x_stride = kInFeatures,
                      .quantized_x = quantized.get(),
                      .bf16_x = form == WideForm::kBf16 ? rounded.get() : nullptr,
                      .row_count = row_count,
                      .y = rows.data(),
                      .first_out = out,
                      .last_out = std::min(out + unit_out, last),
                      .workspace = workspaces[thread].get()});
      }
    }
  };
  double best_ratio = 0.0, best_rate = 0.0, read_rate = 0.0, product_rate = 0.0;
  for (auto _ : state) {
    // The limits of the same moment: the bandwidth changes with the machine's other load.
    read_rate = std::max(read_rate, ReadRate(matrices));
    product_rate = std::max(product_rate, ProductRate(table, form));
    const double seconds = BestSecondsOnBoth(multiply);
    state.SetIterationTime(seconds);
    const double bytes = static_cast<double>(matrices.bytes());
    const double products = static_cast<double>(matrices.count() * row_count) *
                            static_cast<double>(kInFeatures * kOutFeatures);
    const double at_limit = std::max(bytes / read_rate, products / product_rate);
    best_ratio = std::max(best_ratio, at_limit / seconds);
    best_rate = std::max(best_rate, bytes / seconds);
  }
  state.counters["of_limit"] = best_ratio;
  state.counters["GB/s"] = best_rate * 1e-9;
  state.counters["limit_GB/s"] = read_rate * 1e-9;
  state.counters["limit_GMAC/s"] = product_rate * 1e-9;
}

void RegisterTable(const KernelTable& table) {
  for (const DataType type : kDataTypes) {
    if (!IsQuantized(type)) continue;
    for (const WideForm form : {WideForm::kAsNarrow, WideForm::kBf16}) {
      if (!Supports(table, type, form)) continue;
      const bool has_tiles = table.bf16_quant_rows_min != 0;
      for (const std::size_t rows : {1u, 2u, 4u, 8u, 16u, 32u}) {
        if (rows > 8 && !has_tiles) continue;
        const std::string name = std::string("BM_FewRows/table:") + table.name +
                                 "/type:" + DataTypeName(type) +
                                 (form == WideForm::kBf16 ? "/form:bf16" : "/form:integer") +
                                 "/rows:" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&table, type, form, rows](benchmark::State& state) {
                                       MultiplyFewRows(state, table, type, form, rows);
                                     })
            ->UseManualTime()
            ->Iterations(2)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace
}  // namespace kvd::kernels

int main(int argument_count, char** arguments) {
  for (const char* const name : {"avx2", "avx512", "amx"}) {
    const kvd::kernels::KernelChoice choice = kvd::kernels::SelectKernels(name);
    if (choice.table != nullptr) kvd::kernels::RegisterTable(*choice.table);
  }
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
