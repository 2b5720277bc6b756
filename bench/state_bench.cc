// Measures saving and loading one sequence, against memcpy of the same bytes and the bare file
// calls, in one run. Files are in /dev/shm, so that no disk is measured; KVD_BENCH_DIR names
// another directory.
//
// The sequence has the rows that the bundled model computes for 46 texts of 1,000 tokens. Tokens
// are drawn with the frequencies of words (the k-th most frequent with a probability proportional
// to 1/k). A cell has 1 KiB in f16. "cpu_ms" is the CPU time of all threads, which matters most on
// a machine with other work.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/bench_model.h"
#include "engine/model/model_config.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/save_sequences.h"
#include "engine/saved_state/sequence_import.h"

namespace {

using namespace kvd;

constexpr std::uint32_t kTextCells = 1000;
constexpr std::uint32_t kCells = 46 * kTextCells;
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
    sequence_ = Must(engine_->memory().sequences().Create({}));
    Fill();
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

  // Saves the sequence as the daemon does: the function starts with the sequence's handle and ends
  // with a synced file under the final name.
  SaveReport Save(const std::string& name, bool packed) {
    const SequenceExport from = Must(SequenceExport::Open(*engine_, sequence_));
    const SaveItem item{.sequence = &from};
    const SaveProfile profile{.packed = packed};
    const SaveReport report = Must(
        SaveSequences(*engine_, {&item, 1}, profile, Must(PlanSections({&item, 1}, profile)),
                      {.directory = directory_.get(), .name = name, .replace = true}, kThreads));
    raw_bytes_ = report.raw_bytes;
    return report;
  }
  void Load(const std::string& name) {
    const StateFileReader file = Must(StateFileReader::Open(
        UniqueFd(::openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC))));
    const SequenceHandle handle = Must(engine_->memory().sequences().Create({}));
    (void)Must(LoadSequence(*engine_, file, 0, handle, kThreads));
    Check(engine_->memory().sequences().Drop(handle));
  }
  std::uint64_t raw_bytes() const { return raw_bytes_; }
  int directory() const { return directory_.get(); }

 private:
  void Fill() {
    std::mt19937 random(1);
    const double log_vocabulary = std::log(engine_->config().vocab_size);
    std::uniform_real_distribution<double> share(0, log_vocabulary);
    std::vector<TokenId> tokens(kCells);
    for (TokenId& token : tokens) token = static_cast<TokenId>(std::exp(share(random))) - 1;
    std::vector<Pos> positions(kCells);
    for (std::uint32_t at = 0; at < kCells; ++at) {
      positions[at] = Pos{static_cast<std::int32_t>(at)};
    }
    auto import = Must(SequenceImport::Begin(
        *engine_,
        {.handle = sequence_, .tokens = tokens, .positions = positions, .pristine_cells = kCells}));
    std::vector<std::byte> rows;
    for (std::uint32_t at = 0; at < kCells; at += kTextCells) {
      const SequenceHandle text = Compute(std::span(tokens).subspan(at, kTextCells));
      const SequenceExport from = Must(SequenceExport::Open(*engine_, text));
      for (std::size_t p = 0; p < from.planes().size(); ++p) {
        const CachePlane& plane = from.planes()[p];
        const RowPlacement placement = HeadMajor(plane, plane.type, kTextCells);
        rows.resize(kTextCells * plane.cell_bytes(plane.type));
        Check(from.ReadRows(plane, 0, kTextCells, plane.type, placement, rows.data()));
        Check(import->FeedRows(p, at, at + kTextCells, plane.type, placement, rows.data()));
      }
      Check(engine_->memory().sequences().Drop(text));
    }
    Check(import->Commit());
  }
  SequenceHandle Compute(std::span<const TokenId> tokens) {
    const SequenceHandle sequence = Must(engine_->memory().sequences().Create({}));
    for (std::size_t at = 0; at < tokens.size(); at += 250) {
      StepItem item{.sequence = sequence,
                    .pos = Pos{static_cast<std::int32_t>(at)},
                    .tokens = tokens.subspan(at, 250),
                    .first_logits_row = 250};
      engine_->Step({&item, 1});
      Check(item.status);
    }
    return sequence;
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

double ProcessSeconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Runs `once` repeatedly and reports the times.
template <class Once>
void Measure(benchmark::State& state, const Once& once) {
  // The call also creates the measured sequence, outside of the measured time.
  const std::uint64_t raw_bytes = TheSubject().raw_bytes();
  const double begin = ProcessSeconds();
  for (auto _ : state) once();
  const double spent = ProcessSeconds() - begin;
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(raw_bytes));
  state.counters["state_MB"] = static_cast<double>(raw_bytes) / 1e6;
  state.counters["cpu_ms"] = spent * 1e3 / static_cast<double>(state.iterations());
}

void BM_StateMemcpy(benchmark::State& state) {
  std::vector<std::byte> from(TheSubject().raw_bytes(), std::byte{1}), to(from.size());
  Measure(state, [&] {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  });
}

// Measures writing the bytes of the saved state in pieces of a section's size, syncing the file and
// renaming it.
void BM_StateFileWrite(benchmark::State& state) {
  const std::vector<std::byte> piece(1 << 20, std::byte{1});
  const int directory = TheSubject().directory();
  Measure(state, [&] {
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
  });
}

void BM_StateFileRead(benchmark::State& state) {
  std::vector<std::byte> piece(1 << 20);
  Measure(state, [&] {
    const UniqueFd file(::openat(TheSubject().directory(), "plain", O_RDONLY | O_CLOEXEC));
    for (std::uint64_t at = 0; at < TheSubject().raw_bytes(); at += piece.size()) {
      if (::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(at)) < 0) std::exit(1);
    }
  });
}

void BM_StateSave(benchmark::State& state) {
  const bool packed = state.range(0) != 0;
  SaveReport report;
  Measure(state, [&] { report = TheSubject().Save(packed ? "packed" : "plain", packed); });
  state.counters["file_MB"] = static_cast<double>(report.file_bytes) / 1e6;
  state.counters["ratio"] =
      static_cast<double>(report.file_bytes) / static_cast<double>(report.raw_bytes);
}

void BM_StateLoad(benchmark::State& state) {
  Measure(state, [&] { TheSubject().Load(state.range(0) != 0 ? "packed" : "plain"); });
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
  return kvd::bench::RunBenches(argument_count, arguments, model_path);
}
