#include "tools/demo/roles.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace kvd::demo {
namespace {

constexpr std::int32_t kAnswerTokensMax = 64;

std::uint64_t Since(std::chrono::steady_clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
}

void CopyText(const std::string& text, char (&into)[256]) {
  const std::size_t bytes = std::min(text.size(), sizeof into - 1);
  std::memcpy(into, text.data(), bytes);
  into[bytes] = '\0';
}

}  // namespace

Report FailedReport(const Error& error) {
  Report report{.failed = true};
  CopyText(error.message, report.text);
  return report;
}

Result<Report> ReadNotebook(const Client& client, const std::string& notebook) {
  const auto start = std::chrono::steady_clock::now();
  KVD_TRY(const auto tokens,
          client.Tokenize(notebook, wire::kFlagAddSpecial | wire::kFlagParseSpecial));
  KVD_TRY(const Sequence sequence, client.NewSequence());
  KVD_TRY(Generation generation, sequence.Generate({.tokens = tokens, .predict_max = 0}));
  for (;;) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) break;
  }
  KVD_TRY([[maybe_unused]] const auto handle, sequence.Publish(kSnapshotName));
  return Report{.computed = generation.result().prompt_computed, .total_ns = Since(start)};
}

Result<Answered> Ask(const Client& client, const Question& question) {
  const auto start = std::chrono::steady_clock::now();
  ForkInfo fork;
  KVD_TRY(Sequence sequence, client.AttachSnapshot(kSnapshotName, &fork));
  Report report{.fork_ns = fork.engine_ns, .attach_ns = Since(start)};
  KVD_TRY(const auto tokens, client.Tokenize(QuestionPrompt(question), wire::kFlagParseSpecial));
  KVD_TRY(Generation generation, sequence.Generate({.tokens = tokens,
                                                    .predict_max = kAnswerTokensMax,
                                                    .sampling = DefaultSamplingAt(0.0f)}));
  std::string answer;
  for (;;) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) break;
    answer += piece->text;
  }
  CopyText(answer, report.text);
  report.reused = generation.result().prompt_reused;
  report.computed = generation.result().prompt_computed + generation.result().predicted;
  report.total_ns = Since(start);
  return Answered{.report = report, .sequence = std::move(sequence)};
}

Status Ramble(const Client& client, const std::function<void()>& started) {
  KVD_TRY(Sequence sequence, client.AttachSnapshot(kSnapshotName));
  KVD_TRY(const auto tokens,
          client.Tokenize("<|user|>Tell me a story.<|end|><|assistant|>", wire::kFlagParseSpecial));
  KVD_TRY(Generation generation,
          sequence.Generate({.tokens = tokens, .predict_max = 100'000, .flags = wire::kIgnoreEos}));
  for (int pieces = 0;; ++pieces) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) return {};
    if (pieces == 3) started();
  }
}

}  // namespace kvd::demo
