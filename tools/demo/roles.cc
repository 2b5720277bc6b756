#include "tools/demo/roles.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text.h"
#include "text/chat/chat_formatter.h"

namespace kvd::demo {
namespace {

constexpr std::int32_t kAnswerTokensMax = 64;

std::uint64_t Since(std::chrono::steady_clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
}

// Returns the tokens of one message, formatted with the model's chat template.
// `adds_generation_prompt`: they end with the beginning of the answer.
Result<std::vector<TokenId>> MessageTokens(const Client& client, const std::string& role,
                                           const std::string& content,
                                           bool adds_generation_prompt) {
  KVD_TRY(const ChatTexts texts, client.ChatTemplates());
  KVD_TRY(const ChatFormatter formatter, ChatFormatter::Create(texts, "", false));
  Dict message;
  message.Set("role", Value::String(role));
  message.Set("content", Value::String(content));
  ChatRequest request;
  request.messages = Value::List({Value::Of(std::move(message))});
  request.add_generation_prompt = adds_generation_prompt;
  KVD_TRY(const std::string text, formatter.Format(request));
  return client.Tokenize(text, wire::kFlagParseSpecial);
}

}  // namespace

Report FailedReport(const Error& error) {
  Report report{.failed = true};
  CopyText(error.message, report.text);
  return report;
}

Result<Report> ReadNotebook(const Client& client, const std::string& notebook) {
  const auto start = std::chrono::steady_clock::now();
  KVD_TRY(auto tokens, MessageTokens(client, "system", notebook, false));
  KVD_TRY(const wire::InfoReply info, client.Info());
  if (info.adds_bos != 0) tokens.insert(tokens.begin(), info.bos_token);
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
  KVD_TRY(const auto tokens, MessageTokens(client, "user", question.text, true));
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
  KVD_TRY(const auto tokens, MessageTokens(client, "user", "Tell me a story.", true));
  KVD_TRY(Generation generation,
          sequence.Generate({.tokens = tokens, .predict_max = 100'000, .flags = wire::kIgnoreEos}));
  for (int pieces = 0;; ++pieces) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) return {};
    if (pieces == 3) started();
  }
}

}  // namespace kvd::demo
