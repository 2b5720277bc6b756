// kvctl run: tokenizes the prompt, creates or forks a sequence for it, and prints the generation's
// pieces as they arrive.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/whole_file.h"
#include "client/client.h"
#include "kvctl/chat_prompt.h"
#include "kvctl/commands.h"
#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"
#include "kvctl/tool_answer.h"
#include "text/json_builder.h"
#include "text/schema/schema_grammar.h"

namespace kvd::kvctl {
namespace {

// Returns the sequence to which tokens are appended: a new sequence, or a fork of the sequence or
// snapshot that the user named.
Result<Sequence> StartingPoint(const Client& client, const RunOptions& options) {
  if (!options.snapshot.empty()) return client.AttachSnapshot(options.snapshot);
  if (options.sequence.empty()) return client.NewSequence();
  KVD_TRY(const NamedSequence source, FindSequence(client, options.sequence));
  KVD_TRY(const auto forks, client.Fork(source.handle, -1, 1));
  return Sequence(client, forks.front());
}

struct Prompt {
  std::vector<TokenId> tokens;
  std::optional<ToolAnswer> tools;  // if the prompt is a chat with tools
};

Result<Prompt> PromptOf(const Client& client, const RunOptions& options, bool is_new_sequence) {
  const std::optional<std::string> given =
      options.has_prompt ? std::optional(options.prompt) : std::nullopt;
  Prompt prompt;
  if (options.chat.is_chat) {
    KVD_TRY(const ChatTexts texts, client.ChatTemplates());
    KVD_TRY(ChatPrompt chat, MakeChatPrompt(texts, options.chat, given));
    if (!chat.tools.is_none()) {
      KVD_TRY(prompt.tools, ToolAnswer::Create(client, chat, options));
    }
    KVD_TRY(prompt.tokens, ChatTokens(client, texts, std::move(chat.text), is_new_sequence));
    return prompt;
  }
  std::string text = options.prompt;
  if (!options.has_prompt) {
    KVD_TRY(text, ReadStandardInput());
  }
  if (text.empty()) return Fail(Code::kInvalidArgument, "prompt: empty");
  const auto flags =
      static_cast<std::uint16_t>(FlagIf(is_new_sequence, wire::kFlagAddSpecial) |
                                 FlagIf(options.parses_special, wire::kFlagParseSpecial));
  KVD_TRY(prompt.tokens, client.Tokenize(text, flags));
  return prompt;
}

GenerateOptions SamplingOf(const RunOptions& options) {
  GenerateOptions generate;
  generate.predict_max = options.predict_max;
  generate.room_wait_ms = options.room_wait_ms;
  generate.sampling = options.sampling;
  generate.seed = options.seed;
  generate.flags = (options.ignores_eos ? wire::kIgnoreEos : 0u) |
                   (options.shows_special ? wire::kShowSpecial : 0u) |
                   (options.continues ? wire::kContinue : 0u) |
                   (options.resumes ? wire::kResumeSampler : 0u) |
                   (options.draws_as_llama ? wire::kLlamaDraws : 0u);
  return generate;
}

// Returns the grammar of --grammar or --schema; empty: neither is given.
Result<std::string> GrammarOf(const RunOptions& options) {
  const std::string& path =
      options.grammar_path.empty() ? options.schema_path : options.grammar_path;
  if (path.empty()) {
    if (options.triggers.empty()) return std::string();
    return Fail(Code::kInvalidArgument, "--grammar-trigger: needs --grammar or --schema");
  }
  KVD_TRY(const std::vector<std::byte> bytes, ReadWholeFile(path));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!options.schema_path.empty()) {
    auto schema = SchemaGrammar(text);
    if (!schema) return FailWithin("--schema " + path, schema.error());
    return schema;
  }
  if (text.empty()) return Fail(Code::kInvalidArgument, "--grammar: the file is empty");
  return text;
}

std::string_view FinishText(std::uint32_t finish) {
  switch (finish) {
    case wire::kFinishEnd: return "end";
    case wire::kFinishStop: return "stop";
    case wire::kFinishLength: return "length";
    case wire::kFinishGrammar: return "grammar";
    default: return "unknown";
  }
}

// The pieces of a generation as they arrive, put together.
class AnswerText {
 public:
  AnswerText(const Client& client, std::optional<ToolAnswer>& tools, bool is_printed)
      : client_(client), tools_(tools), is_printed_(is_printed) {}

  void Take(const wire::PieceView& piece) {
    for (const TokenId token : piece.tokens) tokens_.push_back(token);
    text_ += piece.text;
    // The last piece may end with an end token, whose text is not part of the answer.
    if (tools_) {
      Show(tools_->Feed(std::exchange(held_, std::string(piece.text))));
    } else {
      Show(std::string(piece.text));
    }
  }
  Status Finish(std::uint32_t finish) {
    if (!tools_) return {};
    if (finish == wire::kFinishEnd && !tokens_.empty()) {
      KVD_TRY(const std::string end, client_.Detokenize({&tokens_.back(), 1}, wire::kFlagSpecial));
      if (!end.empty() && held_.ends_with(end)) held_.resize(held_.size() - end.size());
    }
    Show(tools_->Feed(held_));
    Show(tools_->Finish());
    return {};
  }

  const std::string& text() const { return text_; }
  Json Tokens() const {
    Json tokens = Json::Array();
    for (const TokenId token : tokens_) tokens.Add(std::int64_t{token});
    return tokens;
  }

 private:
  void Show(const std::string& text) const {
    if (!is_printed_) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  const Client& client_;
  std::optional<ToolAnswer>& tools_;
  const bool is_printed_;
  std::string text_;
  std::string held_;  // with tools: the text of the last piece
  std::vector<TokenId> tokens_;
};

// The daemon says of a cancelled request that its tokens stay, also if another session has removed
// the sequence.
std::unexpected<Error> ExplainEnd(const Sequence& sequence, const Error& error) {
  if (error.code == Code::kCancelled) {
    const auto entry = sequence.Query();
    if (!entry && entry.error().code == Code::kNotFound) {
      return Fail(error.code, "another session has removed the sequence ",
                  HandleText(sequence.handle()), " with its tokens");
    }
  }
  return std::unexpected(error);
}

void PrintJson(const Sequence& sequence, const AnswerText& answer,
               const std::optional<ToolAnswer>& tools, std::string_view kept_as,
               const wire::GenerateResult& result) {
  Json json = Json::Object();
  json.Set("sequence", HandleText(sequence.handle())).Set("text", answer.text());
  if (tools) tools->SetMembers(json);
  json.Set("tokens", answer.Tokens())
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
  KVD_TRY(const std::string grammar, GrammarOf(options));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  Prompt prompt;
  if (!options.continues) {
    KVD_TRY(prompt, PromptOf(client, options, is_new_sequence));
  }
  std::vector<TokenId>& tokens = prompt.tokens;
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
  generate.grammar = grammar;
  std::vector<wire::TriggerView> triggers;
  for (const std::string& trigger : options.triggers) triggers.push_back({.text = trigger});
  const bool has_tools = prompt.tools && !prompt.tools->grammar().empty();
  if (has_tools && grammar.empty()) {
    generate.grammar = prompt.tools->grammar();
    triggers = prompt.tools->triggers();
  }
  if (prompt.tools) generate.flags |= wire::kShowSpecial;
  generate.triggers = triggers;
  KVD_TRY(Generation generation, sequence.Generate(generate));

  AnswerText answer(client, prompt.tools, !global.wants_json);
  for (;;) {
    auto next = generation.Next();
    if (!next) return ExplainEnd(sequence, next.error());
    const auto& piece = *next;
    if (!piece) break;
    if (piece->kind == wire::kPieceProgress) {
      progress.Show(piece->done, piece->total);
      continue;
    }
    progress.Erase();
    answer.Take(*piece);
  }
  KVD_CHECK_OK(answer.Finish(generation.result().finish));
  if (!options.keep_as.empty()) {
    const std::uint16_t flags = FlagIf(options.replaces, wire::kFlagForce);
    KVD_TRY([[maybe_unused]] const auto snapshot,
            client.Publish(sequence.handle(), options.keep_as, flags,
                           {.ttl_seconds = options.ttl_seconds}));
  }
  if (global.wants_json) {
    PrintJson(sequence, answer, prompt.tools, options.keep_as, generation.result());
  } else {
    std::puts("");
  }
  // The session ends without a drop, so the daemon retains the sequence as a prefix for the next
  // run.
  (void)sequence.Detach();
  return {};
}

}  // namespace kvd::kvctl
