// Saving and loading one sequence, beside a memcpy of the same bytes and the bare file calls, in one
// run. Files lie in /dev/shm, so that no disk is measured; KVD_BENCH_DIR names another directory.
//
// The sequence has the rows of a real one of the bundled model, each scaled by a factor of its own so
// that none repeats: 1 KiB a cell in f16.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/bench_model.h"
#include "engine/model_config.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/save_sequences.h"
#include "engine/saved_state/sequence_import.h"

namespace {

using namespace kvd;

constexpr std::uint32_t kRealCells = 1024;
constexpr std::uint32_t kCells = 46'000;
constexpr unsigned kThreads = 2;

std::string model_path;

void Check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "state_bench: %s\n", status.error().message.c_str());
  std::exit(1);
}
template <class T>
T Must(Result<T> result) {
  if (!result) Check(std::unexpected(result.error()));
  return std::move(*result);
}

class Subject {
 public:
  Subject() {
    engine_ =
        Must(Engine::Create({.model_path = model_path, .cells = 3 * kCells, .threads = kThreads}));
    const SequenceHandle real = Must(engine_->memory().Create({}));
    std::mt19937 random(1);
    std::vector<TokenId> tokens(kRealCells);
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random() % engine_->config().vocab_size);
    }
    for (std::size_t at = 0; at < kRealCells; at += 256) {
      StepItem item{.sequence = real,
                    .pos = Pos{static_cast<std::int32_t>(at)},
                    .tokens = std::span(tokens).subspan(at, 256),
                    .first_logits_row = 256};
      engine_->Step({&item, 1});
      Check(item.status);
    }
    sequence_ = Must(engine_->memory().Create({}));
    Spread(real);
    const char* wanted = std::getenv("KVD_BENCH_DIR");
    std::string pattern = std::string(wanted != nullptr ? wanted : "/dev/shm") + "/kvd-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    directory_ = UniqueFd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Save("plain", false);
    Save("packed", true);
  }
  ~Subject() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // What a daemon's save does: from the handle to a synced file under its name.
  SaveReport Save(const std::string& name, bool packed) {
    const SequenceExport from = Must(SequenceExport::Open(*engine_, sequence_));
    const SaveItem item{.sequence = &from};
    const SaveProfile profile{.packed = packed};
    const SaveReport report = Must(SaveSequences(
        *engine_, {&item, 1}, profile, Must(PlanSections({&item, 1}, profile)),
        {.directory = directory_.get(), .name = name, .replace = true}, kThreads, nullptr));
    raw_bytes_ = report.raw_bytes;
    return report;
  }
  void Load(const std::string& name) {
    const StateFileReader file = Must(StateFileReader::Open(
        UniqueFd(::openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC))));
    const SequenceHandle handle = Must(engine_->memory().Create({}));
    (void)Must(LoadSequence(*engine_, file, 0, handle, kThreads, nullptr));
    Check(engine_->memory().Drop(handle));
  }
  std::uint64_t raw_bytes() const { return raw_bytes_; }
  int directory() const { return directory_.get(); }

 private:
  void Spread(SequenceHandle real) {
    const SequenceExport from = Must(SequenceExport::Open(*engine_, real));
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    for (std::uint32_t at = 0; at < kCells; ++at) {
      tokens.push_back(from.tokens()[at % kRealCells]);
      positions.push_back(Pos{static_cast<std::int32_t>(at)});
    }
    auto import = Must(SequenceImport::Begin(
        *engine_,
        {.handle = sequence_, .tokens = tokens, .positions = positions, .pristine_cells = kCells}));
    std::mt19937 random(2);
    std::uniform_real_distribution<float> factor(0.6f, 1.4f);
    for (std::size_t p = 0; p < from.planes().size(); ++p) {
      const CachePlane& plane = from.planes()[p];
      const RowPlacement placement = CellMajor(plane, kernels::DataType::kF32);
      std::vector<float> rows(std::size_t{kRealCells} * plane.head_count * plane.dim);
      Check(from.ReadRows(plane, 0, kRealCells, kernels::DataType::kF32, placement,
                          reinterpret_cast<std::byte*>(rows.data())));
      std::vector<float> scaled(std::size_t{plane.head_count} * plane.dim);
      for (std::uint32_t at = 0; at < kCells; ++at) {
        const float* row = rows.data() + (at % kRealCells) * scaled.size();
        const float by = factor(random);
        for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = row[i] * by;
        Check(import->FeedRows(p, at, at + 1, kernels::DataType::kF32, placement,
                               reinterpret_cast<const std::byte*>(scaled.data())));
      }
    }
    Check(import->Commit());
  }

  std::unique_ptr<Engine> engine_;
  SequenceHandle sequence_{};
  std::string folder_;
  UniqueFd directory_;
  std::uint64_t raw_bytes_ = 0;
};

Subject& TheSubject() {
  static Subject subject;
  return subject;
}

void Report(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(TheSubject().raw_bytes()));
  state.counters["state_MB"] = static_cast<double>(TheSubject().raw_bytes()) / 1e6;
}

void BM_StateMemcpy(benchmark::State& state) {
  std::vector<std::byte> from(TheSubject().raw_bytes(), std::byte{1}), to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  Report(state);
}

// The same bytes written a section's worth at a time, synced, renamed.
void BM_StateFileWrite(benchmark::State& state) {
  const std::vector<std::byte> piece(1 << 20, std::byte{1});
  const int directory = TheSubject().directory();
  for (auto _ : state) {
    const UniqueFd file(
        ::openat(directory, "bare.tmp", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    for (std::uint64_t at = 0; at < TheSubject().raw_bytes(); at += piece.size()) {
      if (::pwrite(file.get(), piece.data(), piece.size(), static_cast<off_t>(at)) < 0)
        std::exit(1);
    }
    if (::fsync(file.get()) != 0 || ::renameat(directory, "bare.tmp", directory, "bare") != 0 ||
        ::fsync(directory) != 0) {
      std::exit(1);
    }
  }
  Report(state);
}

void BM_StateFileRead(benchmark::State& state) {
  std::vector<std::byte> piece(1 << 20);
  for (auto _ : state) {
    const UniqueFd file(::openat(TheSubject().directory(), "plain", O_RDONLY | O_CLOEXEC));
    for (std::uint64_t at = 0; at < TheSubject().raw_bytes(); at += piece.size()) {
      if (::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(at)) < 0) std::exit(1);
    }
  }
  Report(state);
}

void BM_StateSave(benchmark::State& state) {
  const bool packed = state.range(0) != 0;
  SaveReport report;
  for (auto _ : state) report = TheSubject().Save(packed ? "packed" : "plain", packed);
  Report(state);
  state.counters["file_MB"] = static_cast<double>(report.file_bytes) / 1e6;
  state.counters["ratio"] =
      static_cast<double>(report.file_bytes) / static_cast<double>(report.raw_bytes);
}

void BM_StateLoad(benchmark::State& state) {
  for (auto _ : state) TheSubject().Load(state.range(0) != 0 ? "packed" : "plain");
  Report(state);
}

BENCHMARK(BM_StateMemcpy)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_StateFileWrite)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_StateFileRead)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_StateSave)
    ->ArgName("packed")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(BM_StateLoad)
    ->ArgName("packed")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

int main(int argument_count, char** arguments) {
  model_path = kvd::bench::TakeModelFlag(&argument_count, arguments);
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
