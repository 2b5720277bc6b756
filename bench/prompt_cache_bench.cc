// Measures reading a prefix from the prompt cache against computing the same tokens, in one run.
// The default of the daemon's flag --cache-min-tokens is based on the figures of
// prompt_cache_bench. Entries are in /dev/shm, so that no disk is measured; KVD_BENCH_DIR names
// another directory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_model.h"
#include "engine/model/model_config.h"
#include "engine/saved_state/prompt_store.h"

namespace {

using namespace kvd;

constexpr SequenceOwner kOwner{.id = OwnerId{1000}};
constexpr std::uint32_t kCells = 16384;

std::string model_path;

void Check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "prompt_cache_bench: %s\n", status.error().message.c_str());
  std::exit(1);
}
template <class T>
T Must(Result<T> result) {
  if (!result) Check(std::unexpected(result.error()));
  return std::move(*result);
}

class Subject {
 public:
  Subject() : engine_(Must(Engine::Create({.model_path = model_path, .cells = kCells}))) {
    const char* wanted = std::getenv("KVD_BENCH_DIR");
    std::string pattern = std::string(wanted != nullptr ? wanted : "/dev/shm") + "/kvd-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    store_ = OpenStore();
  }
  ~Subject() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Engine& engine() { return *engine_; }
  PromptStore& store() { return *store_; }
  std::unique_ptr<PromptStore> OpenStore() {
    return Must(PromptStore::Open(
        *engine_, {.path = folder_, .bytes_max = std::uint64_t{1} << 32, .on_damaged = {}}));
  }
  // Returns a text of `count` tokens whose beginning differs from the beginnings of all other
  // texts.
  std::vector<TokenId> NextText(std::size_t count) {
    std::vector<TokenId> tokens(count);
    std::uint32_t random = ++texts_ * 0x9e3779b9u;
    for (TokenId& token : tokens) {
      random = random * 1664525u + 1013904223u;
      token = static_cast<TokenId>((random >> 8) % engine_->config().vocab_size);
    }
    return tokens;
  }
  SequenceHandle Compute(const std::vector<TokenId>& tokens) {
    const SequenceHandle handle = Must(engine_->memory().sequences().Create(kOwner));
    const std::span<const TokenId> all(tokens);
    for (std::size_t done = 0; done < all.size();) {
      const std::size_t count = std::min<std::size_t>(256, all.size() - done);
      StepItem item{.sequence = handle,
                    .pos = Pos{static_cast<std::int32_t>(done)},
                    .tokens = all.subspan(done, count),
                    .first_logits_row = count};
      engine_->Step({&item, 1});
      Check(item.status);
      done += count;
    }
    return handle;
  }
  std::uint64_t Write(SequenceHandle handle) {
    SequenceExport from = Must(SequenceExport::OpenPaused(*engine_, handle));
    return Must(store_->Write(from, nullptr));
  }
  void Drop(SequenceHandle handle) { Check(engine_->memory().sequences().Drop(handle)); }

 private:
  std::unique_ptr<Engine> engine_;
  std::string folder_;
  std::unique_ptr<PromptStore> store_;
  std::uint32_t texts_ = 0;
};

Subject& TheSubject() {
  static Subject subject;
  return subject;
}

void BM_PromptComputed(benchmark::State& state) {
  Subject& subject = TheSubject();
  const std::vector<TokenId> text = subject.NextText(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) subject.Drop(subject.Compute(text));
}

void BM_PromptReadFromDisk(benchmark::State& state) {
  Subject& subject = TheSubject();
  std::vector<TokenId> text = subject.NextText(static_cast<std::size_t>(state.range(0)));
  const SequenceHandle computed = subject.Compute(text);
  const std::uint64_t bytes = subject.Write(computed);
  subject.Drop(computed);
  text.push_back(1);
  for (auto _ : state) {
    const auto found = subject.store().Find(kOwner.id, kOwner.namespace_salt, text, 0);
    if (!found || found->cells + 1 != text.size()) return state.SkipWithError("not found");
    subject.Drop(Must(subject.store().Load(*found, kOwner, text, nullptr)));
  }
  state.counters["file_bytes"] = static_cast<double>(bytes);
}

// Measures writing an entry, including its fsync.
void BM_PromptWritten(benchmark::State& state) {
  Subject& subject = TheSubject();
  for (auto _ : state) {
    state.PauseTiming();
    const auto handle = subject.Compute(subject.NextText(static_cast<std::size_t>(state.range(0))));
    state.ResumeTiming();
    benchmark::DoNotOptimize(subject.Write(handle));
    state.PauseTiming();
    subject.Drop(handle);
    state.ResumeTiming();
  }
}

// Measures rebuilding the cache's index from the entries that the previous benches have written.
void BM_CacheOpened(benchmark::State& state) {
  Subject& subject = TheSubject();
  for (int i = 0; i < 200; ++i) {
    const SequenceHandle handle = subject.Compute(subject.NextText(64));
    (void)subject.Write(handle);
    subject.Drop(handle);
  }
  std::uint64_t entries = 0;
  for (auto _ : state) entries = subject.OpenStore()->counts().entries;
  state.counters["entries"] = static_cast<double>(entries);
}

BENCHMARK(BM_PromptComputed)->Arg(32)->Arg(64)->Arg(256)->Arg(2048)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_PromptReadFromDisk)
    ->Arg(32)
    ->Arg(64)
    ->Arg(256)
    ->Arg(2048)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_PromptWritten)->Arg(64)->Arg(2048)->Iterations(20)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CacheOpened)->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argument_count, char** arguments) {
  return kvd::bench::RunBenches(argument_count, arguments, model_path);
}
