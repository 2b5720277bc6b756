// Measures a bf16 product of the shape of kernels_bench by oneDNN on one thread, the limit of
// products in bf16. oneDNN chooses the layout of the weights; they are written once before.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstring>
#include <dnnl.hpp>

namespace kvd::kernels {
namespace {

constexpr int kInFeatures = 2048, kOutFeatures = 5632;

void BM_OnednnMultiplies(benchmark::State& state) {
  using dnnl::memory;
  omp_set_num_threads(1);
  const auto row_count = static_cast<memory::dim>(state.range(0));
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    constexpr auto kBf16 = memory::data_type::bf16, kF32 = memory::data_type::f32;
    const memory::desc x({row_count, kInFeatures}, kBf16, memory::format_tag::ab);
    const memory::desc weights({kInFeatures, kOutFeatures}, kBf16, memory::format_tag::any);
    const memory::desc y({row_count, kOutFeatures}, kF32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc shape(dnnl::matmul::desc(x, weights, y), engine);
    const memory in(x, engine), held(shape.weights_desc(), engine), out(y, engine);
    std::memset(in.get_data_handle(), 0x3f, x.get_size());  // elements of 0.747
    std::memset(held.get_data_handle(), 0x3f, shape.weights_desc().get_size());
    const dnnl::matmul product(shape);
    for (auto _ : state) {
      product.execute(stream, {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, held}, {DNNL_ARG_DST, out}});
      stream.wait();
    }
  } catch (const dnnl::error& error) {
    state.SkipWithError(error.what());
    return;
  }
  const double flops = 2.0 * static_cast<double>(row_count) * kInFeatures * kOutFeatures;
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_OnednnMultiplies)->ArgName("rows")->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvd::kernels
