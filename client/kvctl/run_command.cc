// kvctl run: tokenizes the prompt, creates or forks a sequence for it, and prints the generation's
// pieces as they arrive.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "client/kvctl/chat_prompt.h"
#include "client/kvctl/commands.h"
#include "client/kvctl/json_output.h"
#include "client/kvctl/terminal.h"

namespace kvd::kvctl {
namespace {

// Returns the sequence to which tokens are appended: a new sequence, or a fork of the sequence or
// snapshot that the user named.
Result<Sequence> StartingPoint(const Client& client, const RunOptions& options) {
  if (!options.snapshot.empty()) return client.AttachSnapshot(options.snapshot);
  if (options.sequence.empty()) return client.NewSequence();
  KVD_TRY(const SequenceHandle source, ParseHandle(options.sequence));
  KVD_TRY(const auto forks, client.Fork(source, -1, 1));
  return Sequence(client, forks.front());
}

Result<std::vector<TokenId>> PromptTokens(const Client& client, const RunOptions& options,
                                          bool is_new_sequence) {
  const std::optional<std::string> given =
      options.has_prompt ? std::optional(options.prompt) : std::nullopt;
  if (options.chat.is_chat) return ChatTokens(client, options.chat, given, is_new_sequence);
  std::string prompt = options.prompt;
  if (!options.has_prompt) {
    KVD_TRY(prompt, ReadStandardInput());
  }
  if (prompt.empty()) return Fail(Code::kInvalidArgument, "prompt: empty");
  return client.Tokenize(prompt, FlagIf(is_new_sequence, wire::kFlagAddSpecial));
}

GenerateOptions SamplingOf(const RunOptions& options) {
  GenerateOptions generate;
  generate.predict_max = options.predict_max;
  generate.sampling = options.sampling;
  generate.seed = options.seed;
  generate.flags = (options.ignores_eos ? wire::kIgnoreEos : 0u) |
                   (options.shows_special ? wire::kShowSpecial : 0u) |
                   (options.continues ? wire::kContinue : 0u) |
                   (options.resumes ? wire::kResumeSampler : 0u);
  return generate;
}

std::string_view FinishText(std::uint32_t finish) {
  switch (finish) {
    case wire::kFinishEnd: return "end";
    case wire::kFinishStop: return "stop";
    case wire::kFinishLength: return "length";
    default: return "unknown";
  }
}

void PrintJson(const Sequence& sequence, const std::string& text, const Json::Scalar& kept_as,
               Json tokens, const wire::GenerateResult& result) {
  Json json = Json::Object();
  json.Set("sequence", HandleText(sequence.handle()))
      .Set("text", text)
      .Set("tokens", std::move(tokens))
      .Set("finish", std::string(FinishText(result.finish)))
      .Set("tokens_reused", std::uint64_t{result.prompt_reused})
      .Set("tokens_computed", std::uint64_t{result.prompt_computed})
      .Set("tokens_predicted", std::uint64_t{result.predicted})
      .Set("tokens_shared", std::uint64_t{result.prompt_shared})
      .Set("shared_from",
           std::string(PrefixOriginName(static_cast<PrefixOrigin>(result.shared_origin))))
      .Set("share_limit",
           std::string(PrefixLimitName(static_cast<PrefixLimit>(result.share_limit))))
      .Set("prompt_ns", result.prompt_ns)
      .Set("predict_ns", result.predict_ns)
      .Set("seed", std::to_string(result.seed))
      .Set("kept_as", kept_as);
  std::puts(json.Text().c_str());
}

}  // namespace

Status Run(const GlobalOptions& global, const RunOptions& options) {
  const bool is_new_sequence = options.snapshot.empty() && options.sequence.empty();
  if (is_new_sequence && (options.continues || options.resumes)) {
    return Fail(Code::kInvalidArgument,
                "--continue, --resume: name a sequence or snapshot with --sequence or --from");
  }
  if (options.continues && (options.has_prompt || options.chat.is_chat)) {
    return Fail(Code::kInvalidArgument, "--continue: takes no prompt");
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  std::vector<TokenId> tokens;
  if (!options.continues) {
    KVD_TRY(tokens, PromptTokens(client, options, is_new_sequence));
  }
  KVD_TRY(Sequence sequence, StartingPoint(client, options));
  KVD_TRY(const wire::InfoReply info, client.Info());
  if (info.wants_encode != 0 && is_new_sequence) {
    KVD_TRY(const EncodedText text, sequence.Encode(tokens));
    // For models with an encoder, the prompt was encoded, so the decoder starts with only the start
    // token.
    tokens = {text.start_token.value_or(info.bos_token)};
  }

  ProgressBar progress;
  const std::vector<std::string_view> stops(options.stops.begin(), options.stops.end());
  GenerateOptions generate = SamplingOf(options);
  generate.tokens = tokens;
  generate.stops = stops;
  generate.wants_progress = progress.is_shown();
  generate.shares_prefix = !options.is_apart;
  std::vector<std::string_view> breakers(options.breakers.begin(), options.breakers.end());
  std::erase(breakers, "none");
  if (!options.breakers.empty()) generate.breakers = breakers;
  KVD_TRY(Generation generation, sequence.Generate(generate));

  std::string text;
  Json predicted = Json::Array();
  for (;;) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) break;
    if (piece->kind == wire::kPieceProgress) {
      progress.Show(piece->done, piece->total);
      continue;
    }
    progress.Erase();
    if (global.wants_json) {
      text += piece->text;
      for (const TokenId token : piece->tokens) predicted.Add(std::int64_t{token});
      continue;
    }
    std::fwrite(piece->text.data(), 1, piece->text.size(), stdout);
    std::fflush(stdout);
  }
  if (!options.keep_as.empty()) {
    const std::uint16_t flags = FlagIf(options.replaces, wire::kFlagForce);
    KVD_TRY([[maybe_unused]] const auto snapshot, sequence.Publish(options.keep_as, flags));
  }
  if (global.wants_json) {
    PrintJson(sequence, text, options.keep_as, std::move(predicted), generation.result());
  } else {
    std::puts("");
  }
  // The session ends without a drop, so the daemon retains the sequence as a prefix for the next
  // run.
  (void)sequence.Detach();
  return {};
}

}  // namespace kvd::kvctl
