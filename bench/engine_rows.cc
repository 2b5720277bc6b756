// One row of the comparison with another engine: the engine without a daemon does one kind of work
// several times and prints the seconds of each repetition on a line. bench/compare alternates the
// program with the other engine's own bench.
//
//   engine_rows [--model FILE] [--threads N] [--deterministic | --tuned] [--repetitions N]
//               [--profile] WORK
//     prefill TOKENS            a prompt into an empty sequence, logits of its last token
//     decode DEPTH STEPS        STEPS tokens, one after the other, after DEPTH tokens
//     forks COUNT DEPTH STEPS   as decode, in COUNT forks of one prompt of DEPTH tokens
//     unrelated COUNT DEPTH STEPS   as decode, in COUNT sequences without common tokens
//     memory MEGABYTES          without a model: all threads read an array of MEGABYTES MB
//
// The prompts that the work needs are computed once. Then the program does the work once as a
// warm-up and REPETITIONS times with measurement. The first line has the bytes that a measured step
// read: "# WEIGHT_BYTES BYTES_OF_A_CELL BYTES_OF_A_STATE EXPERT_BYTES". WEIGHT_BYTES is the size of
// the weights that every step reads; EXPERT_BYTES is the average size of the weights of the experts
// that the rows of a step chose. With --profile lines "# PART MILLISECONDS" follow: the average
// time of each part of a measured step. With --tuned the engine first measures the choices of
// products (docs/tuning.md), prints them to the standard error, and uses them. Exit codes: 0, 1
// failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/must.h"
#include "engine/engine.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/forward/compute/thread_pool.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/tuning/choice_table.h"
#include "engine/tuning/tuning_run.h"

namespace kvd::bench {
namespace {

struct Work {
  std::string kind;
  std::size_t count = 1;  // number of sequences
  std::size_t depth = 0;  // number of tokens in each sequence before the measured work
  std::size_t size = 0;   // `prefill`: number of tokens; other kinds of work: number of steps
};

class Rows {
 public:
  explicit Rows(const EngineOptions& options)
      : engine_(Must(Engine::Create(options))),
        vocab_size_(engine_->config().vocab_size),
        logits_(vocab_size_) {}

  // Measures the choices of products and uses them. REQUIRES: no other work has begun.
  void Tune() {
    const std::unique_ptr<TuningRun> run = engine_->StartTuning(true);
    if (run == nullptr) return;
    while (!run->done()) run->Slice();
    const Tuning tuning = run->Finish();
    for (const kernels::DataType type : tuning.types) {
      std::fprintf(stderr, "%s %s\n", kernels::DataTypeName(type),
                   ChoiceText(tuning.choices.For(type)).c_str());
    }
    engine_->UseTuning(tuning);
  }

  // Returns a new sequence of `token_count` tokens; texts of different seeds differ in their first
  // tokens.
  SequenceHandle Prefill(std::size_t token_count, std::size_t seed) {
    const SequenceHandle sequence = Must(engine_->memory().sequences().Create({}));
    std::vector<TokenId> tokens(token_count);
    for (std::size_t i = 0; i < token_count; ++i) tokens[i] = TokenAt(seed + i);
    for (std::size_t done = 0; done < token_count;) {
      const std::size_t take = engine_->StepTokens(
          static_cast<std::uint32_t>(done), PosAt(done),
          std::min<std::size_t>(engine_->options().ubatch_tokens, token_count - done));
      const bool last = done + take == token_count;
      StepItem item{.sequence = sequence,
                    .pos = PosAt(done),
                    .tokens = std::span(tokens).subspan(done, take),
                    .first_logits_row = last ? take - 1 : take,
                    .logits = last ? logits_.data() : nullptr};
      engine_->Step({&item, 1});
      Must(item.status);
      done += take;
    }
    return sequence;
  }

  // Decodes `steps` tokens after `depth` in forks of each of `bases`, which are not changed.
  double Decode(std::span<const SequenceHandle> bases, std::size_t depth, std::size_t steps) {
    std::vector<SequenceHandle> sequences;
    for (const SequenceHandle base : bases) {
      SequenceHandle fork;
      Must(engine_->memory().sequences().Fork(base, {}, {&fork, 1}));
      sequences.push_back(fork);
    }
    logits_.resize(vocab_size_ * sequences.size());
    std::vector<TokenId> tokens(sequences.size());
    std::vector<StepItem> items(sequences.size());
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        tokens[i] = TokenAt(1000 * i + step);
        items[i] = {.sequence = sequences[i],
                    .pos = PosAt(depth + step),
                    .tokens = {&tokens[i], 1},
                    .first_logits_row = 0,
                    .logits = logits_.data() + i * vocab_size_};
      }
      engine_->Step(items);
      for (const StepItem& item : items) Must(item.status);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    Must(engine_->memory().sequences().DropAll(sequences));
    return took.count();
  }

  // `all_experts`: bytes of all experts' weights. `before` and `after`: the accumulated times
  // before and after the measured steps.
  void PrintSizes(std::uint64_t all_experts, const StepTimes& before,
                  const StepTimes& after) const {
    const std::uint64_t experts =
        (after.expert_bytes - before.expert_bytes) / (after.steps - before.steps);
    std::printf("# %llu %llu %llu %llu\n",
                static_cast<unsigned long long>(engine_->weight_bytes() - all_experts),
                static_cast<unsigned long long>(engine_->cell_bytes()),
                static_cast<unsigned long long>(engine_->state_bytes()),
                static_cast<unsigned long long>(experts));
  }

  // Returns the accumulated times of the kind of steps that `work` measures.
  StepTimes TimesOf(const Work& work) const {
    const StepProfile& profile = engine_->profile();
    return work.kind == "prefill" ? profile.prompts() : profile.decode();
  }

  double TimedPrefill(std::size_t token_count) {
    const auto begin = std::chrono::steady_clock::now();
    const SequenceHandle sequence = Prefill(token_count, 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    Must(engine_->memory().sequences().Drop(sequence));
    return took.count();
  }

 private:
  TokenId TokenAt(std::size_t i) const {
    return static_cast<TokenId>((i * 7919 + 13) % vocab_size_);
  }
  static Pos PosAt(std::size_t i) { return Pos{static_cast<std::int32_t>(i)}; }

  const std::unique_ptr<Engine> engine_;
  const std::size_t vocab_size_;
  std::vector<float> logits_;
};

// Returns the seconds that the threads need to read the words, each thread a part, with loads and
// additions only.
double TimedRead(ThreadPool& pool, std::span<const std::uint64_t> words) {
  constexpr std::size_t kLanes = 16;
  const std::size_t part = words.size() / pool.thread_count() / kLanes * kLanes;
  std::vector<std::uint64_t> sums(pool.thread_count() * kLanes);
  const auto begin = std::chrono::steady_clock::now();
  pool.Run(pool.thread_count(), [&](std::uint32_t, std::size_t unit) {
    std::array<std::uint64_t, kLanes> sum{};
    const std::uint64_t* const from = words.data() + unit * part;
    for (std::size_t i = 0; i < part; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) sum[lane] += from[i + lane];
    }
    std::ranges::copy(sum, sums.begin() + static_cast<std::ptrdiff_t>(unit * kLanes));
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (std::ranges::count(sums, 0u) != 0) std::exit(1);  // every word is 1, so no sum may be 0
  return took.count();
}

// Parses the argument WORK. Returns false if the words have none of the forms described at the top
// of this file.
bool ParseWork(const std::vector<std::string>& words, Work& work) {
  if (words.empty()) return false;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::size_t number = 0;
    if (!CLI::detail::lexical_cast(words[i], number)) return false;
    numbers.push_back(number);
  }
  work.kind = words[0];
  if ((work.kind == "prefill" || work.kind == "memory") && numbers.size() == 1) {
    work.size = numbers[0];
  } else if (work.kind == "decode" && numbers.size() == 2) {
    work.depth = numbers[0];
    work.size = numbers[1];
  } else if ((work.kind == "forks" || work.kind == "unrelated") && numbers.size() == 3) {
    work.count = numbers[0];
    work.depth = numbers[1];
    work.size = numbers[2];
  } else {
    return false;
  }
  return work.size != 0 && work.count != 0;
}

void MeasureMemory(std::uint32_t threads, std::size_t megabytes, int repetitions) {
  ThreadPool pool(threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency()));
  const std::vector<std::uint64_t> words(megabytes * 1'000'000 / sizeof(std::uint64_t), 1);
  for (int i = -1; i < repetitions; ++i) {
    const double seconds = TimedRead(pool, words);
    if (i >= 0) std::printf("%.6f\n", seconds);
  }
}

void PrintParts(const StepTimes& before, const StepTimes& after) {
  const double steps = static_cast<double>(after.steps - before.steps);
  for (std::size_t part = 0; part < kStepPhases; ++part) {
    const std::string_view name = StepPhaseName(static_cast<StepPhase>(part));
    std::printf("# %.*s %.3f\n", static_cast<int>(name.size()), name.data(),
                static_cast<double>(after.ns[part] - before.ns[part]) * 1e-6 / steps);
  }
}

// Bytes of the weights of all experts in the file; 0 for the bundled model.
std::uint64_t ExpertBytes(const std::string& path) {
  if (path.empty()) return 0;
  const GgufFile file = Must(GgufFile::Open(path));
  std::uint64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name.contains("_exps.")) bytes += tensor.bytes;
  }
  return bytes;
}

void Measure(const EngineOptions& options, bool is_tuned, const Work& work, int repetitions,
             bool with_parts) {
  Rows rows(options);
  if (is_tuned) rows.Tune();
  std::vector<SequenceHandle> bases;
  if (work.kind != "prefill") {
    const bool shared = work.kind != "unrelated";
    for (std::size_t i = 0; i < work.count; ++i) {
      bases.push_back(shared && i > 0 ? bases[0] : rows.Prefill(work.depth, 1000 * i));
    }
  }
  StepTimes before;
  std::vector<double> measured;
  for (int i = -1; i < repetitions; ++i) {
    if (i == 0) before = rows.TimesOf(work);
    const double seconds = work.kind == "prefill" ? rows.TimedPrefill(work.size)
                                                  : rows.Decode(bases, work.depth, work.size);
    if (i >= 0) measured.push_back(seconds);
  }
  const StepTimes after = rows.TimesOf(work);
  rows.PrintSizes(ExpertBytes(options.model_path), before, after);
  for (const double seconds : measured) std::printf("%.6f\n", seconds);
  if (with_parts) PrintParts(before, after);
}

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  CLI::App app("One row of a comparison: prints the seconds of each repetition on a line");
  kvd::EngineOptions options;
  int repetitions = 1;
  bool with_parts = false, is_tuned = false;
  std::vector<std::string> words;
  app.add_option("--model", options.model_path, "GGUF file; default: the bundled model");
  app.add_option("--threads", options.threads, "compute threads; 0: one for each core");
  CLI::Option* const deterministic = app.add_flag("--deterministic", options.deterministic,
                                                  "results do not depend on other sequences");
  app.add_flag("--tuned", is_tuned, "first measure the choices of products, and use them")
      ->excludes(deterministic);
  app.add_option("--repetitions", repetitions, "number of measurements")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--profile", with_parts, "print the time of each part of a step");
  app.add_option("work", words,
                 "prefill N | decode DEPTH STEPS | forks|unrelated COUNT DEPTH STEPS")
      ->required();
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  kvd::bench::Work work;
  if (!kvd::bench::ParseWork(words, work)) {
    std::fprintf(stderr, "engine_rows: unknown WORK; see --help\n");
    return 2;
  }
  if (work.kind == "memory") {
    kvd::bench::MeasureMemory(options.threads, work.size, repetitions);
    return 0;
  }
  options.cells = std::max<std::uint64_t>(4096, work.count * (work.depth + work.size + 64));
  kvd::bench::Measure(options, is_tuned, work, repetitions, with_parts);
  return 0;
}
