// Measures how long the samplers take for one token, by vocabulary: the default chain, each further
// sampler added to it, and mirostat and adaptive-p. The limit is one pass over the row that finds
// its largest logit (BM_RowRead).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/forward/compute/portable_math.h"
#include "engine/sampling/sampler.h"

namespace {

using namespace kvd;

// Logits as a model's: a few large ones, most far below. The history has repetitions.
std::vector<float> Row(std::size_t vocab_size) {
  std::vector<float> logits(vocab_size);
  std::uint64_t x = 42;
  for (float& logit : logits) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    const double uniform = (static_cast<double>(x >> 11) + 1) * 0x1p-53;
    logit = static_cast<float>(-3 * std::log(uniform) - 6);
  }
  return logits;
}

constexpr int kHistoryTokens = 4096;

void Measure(benchmark::State& state, const SamplingParams& params, bool llama_draws) {
  const auto vocab_size = static_cast<std::uint32_t>(state.range(0));
  const std::vector<float> logits = Row(vocab_size);
  auto sampler = Sampler::Create(
      {.sampling = params, .seed = 7, .biases = {}, .llama_draws = llama_draws}, vocab_size, {});
  if (!sampler) {
    std::fprintf(stderr, "sampling_bench: %s\n", sampler.error().message.c_str());
    std::abort();
  }
  for (int i = 0; i < kHistoryTokens; ++i) sampler->Accept(i % 97 + i % 13);
  for (auto _ : state) benchmark::DoNotOptimize(sampler->Sample(logits));
  state.counters["ns/logit"] = benchmark::Counter(
      static_cast<double>(vocab_size) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_RowRead(benchmark::State& state) {
  const std::vector<float> logits = Row(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(MaxOrNan(logits));
}

template <class Change>
void Add(const char* name, SamplingParams params, const Change& change, bool llama_draws = false) {
  change(params);
  benchmark::RegisterBenchmark(
      name, [=](benchmark::State& state) { Measure(state, params, llama_draws); })
      ->ArgName("vocabulary")
      ->Arg(32'000)
      ->Arg(150'000);
}

void AddAll() {
  benchmark::RegisterBenchmark("BM_RowRead", BM_RowRead)
      ->ArgName("vocabulary")
      ->Arg(32'000)
      ->Arg(150'000);
  Add("BM_SampleDefault", kDefaultSampling, [](SamplingParams&) {});
  Add("BM_SampleLlamaDraws", kDefaultSampling, [](SamplingParams&) {}, true);
  Add("BM_SampleLlamaDrawsPlain", kPlainSampling, [](SamplingParams&) {}, true);
  Add("BM_SampleGreedy", kDefaultSampling, [](SamplingParams& p) { p.temperature = 0; });
  Add("BM_SamplePlain", kPlainSampling, [](SamplingParams&) {});
  Add("BM_SamplePenalties", kDefaultSampling, [](SamplingParams& p) { p.repeat_penalty = 1.1f; });
  Add("BM_SampleDry", kDefaultSampling, [](SamplingParams& p) { p.dry_multiplier = 0.8f; });
  Add("BM_SampleDryOfAllTokens", kDefaultSampling, [](SamplingParams& p) {
    p.dry_multiplier = 0.8f;
    p.dry_penalty_last = -1;
  });
  Add("BM_SampleTopNSigma", kDefaultSampling, [](SamplingParams& p) { p.top_n_sigma = 1; });
  Add("BM_SampleXtc", kDefaultSampling, [](SamplingParams& p) { p.xtc_probability = 0.5f; });
  Add("BM_SampleDynamicTemperature", kDefaultSampling,
      [](SamplingParams& p) { p.dynatemp_range = 0.5f; });
  Add("BM_SampleMirostat1", kDefaultSampling, [](SamplingParams& p) { p.mirostat = 1; });
  Add("BM_SampleMirostat2", kDefaultSampling, [](SamplingParams& p) { p.mirostat = 2; });
  Add("BM_SampleAdaptiveP", kDefaultSampling, [](SamplingParams& p) {
    p.adaptive_target = 0.3f;
    p.chain = *ParseSamplerNames("top_k;min_p;temperature;adaptive_p");
  });
}

}  // namespace

int main(int argument_count, char** arguments) {
  AddAll();
  benchmark::Initialize(&argument_count, arguments);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
