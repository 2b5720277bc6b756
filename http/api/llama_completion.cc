#include "http/api/llama_completion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "http/answer/stream_buffer.h"
#include "http/api/answer_stream.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/api/fork_source.h"
#include "http/api/llama_writer.h"
#include "http/api/route_kinds.h"
#include "http/api/sampling_fields.h"
#include "http/api/text_tokens.h"

namespace kvd::http {
namespace {

Await<Result<std::vector<std::unique_ptr<Answer>>>> StartAnswers(TenantSession& tenant,
                                                                 AnswerRequest request,
                                                                 std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  if (count == 1) {
    KVD_CO_TRY(std::unique_ptr<Answer> answer, co_await Answer::Start(tenant, std::move(request)));
    answers.push_back(std::move(answer));
  } else {
    KVD_CO_TRY(answers, co_await Answer::StartMany(tenant, std::move(request), count));
  }
  co_return answers;
}

// The echo of the prompts. It is looked up while the answers are computed.
Await<Status> SetPromptTexts(DaemonSession& session, const CompletionRequest& completion,
                             LlamaWriter& writer) {
  for (std::size_t i = 0; i < completion.prompts.size(); ++i) {
    const std::span<const TokenId> tokens(completion.prompts[i]);
    KVD_CO_TRY(const std::string text, co_await session.Detokenize(tokens, wire::kFlagSpecial));
    for (std::uint32_t j = 0; j < completion.reply.count; ++j) {
      writer.SetPromptText(i * completion.reply.count + j, text);
    }
  }
  co_return Status();
}

bool WantsPrompt(const ReplyFields& reply) {
  return reply.paths.empty() || std::ranges::find(reply.paths, "prompt") != reply.paths.end();
}

Await<Status> Handle(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(CompletionRequest completion, co_await ReadCompletion(*tenant, body, call.responder));
  KVD_CO_CHECK_OK(co_await ReadPrompts(call.gateway, *tenant, body, completion));
  co_return co_await SendLlamaCompletion(*tenant, std::move(completion), call.responder);
}

}  // namespace

Await<Result<CompletionRequest>> ReadCompletion(TenantSession& tenant, const Value& body,
                                                Responder& responder) {
  const Settings& settings = tenant.model().settings();
  const Fields fields(body);
  CompletionRequest completion;
  KVD_CO_TRY(completion.reply, ReadReplyFields(fields, settings));
  KVD_CO_TRY(completion.request, co_await ReadAnswerRequest(tenant, body));
  KVD_CO_CHECK_OK(ReadGrammarFields(fields, settings.defaults.json_schema, completion.request));
  PrepareProbs(tenant.model(), completion.request, completion.reply);
  completion.request.journal = JournalOf(responder);
  completion.request.conversation = EndedStreamOf(responder);
  co_return completion;
}

Await<Status> ReadPrompts(Gateway& gateway, TenantSession& tenant, const Value& body,
                          CompletionRequest& completion) {
  const Fields fields(body);
  KVD_CO_TRY(const std::string fork_from, fields.String("fork_from"));
  const bool is_fork = !fork_from.empty();
  const std::string name = is_fork && fields.Has("prompts") ? "prompts" : "prompt";
  const Value& prompt = fields.Find(name);
  if (prompt.is_missing()) co_return Fail(Code::kInvalidArgument, "\"", name, "\" is required");
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant.session());
  const TextReading reading{.adds_special = !is_fork, .parses_special = true};
  KVD_CO_TRY(completion.prompts, co_await TokenListsOf(*session, tenant.model().info().vocab_size,
                                                       prompt, name, reading));
  if (completion.prompts.size() > ReplyFields::kPromptsMax) {
    co_return Fail(Code::kInvalidArgument, name, ": ", completion.prompts.size(),
                   " prompts, at most ", ReplyFields::kPromptsMax);
  }
  for (const std::vector<TokenId>& tokens : completion.prompts) {
    if (tokens.empty()) co_return Fail(Code::kInvalidArgument, name, ": empty");
  }
  if (!is_fork) co_return Status();
  KVD_CO_TRY(ForkSource source, FindForkSource(gateway, tenant.name(), fork_from));
  KVD_CO_TRY(completion.request.fork,
             co_await OpenForkContext(tenant, std::move(source), completion.request));
  co_return Status();
}

std::optional<TooLong> FindTooLongPrompt(TenantSession& tenant,
                                         const CompletionRequest& completion) {
  const auto& fork = completion.request.fork;
  const std::size_t before = fork ? fork->tokens().size() : 0;
  for (const std::vector<TokenId>& prompt : completion.prompts) {
    if (auto too_long = FindTooLong(tenant.model(), before + prompt.size())) return too_long;
  }
  return std::nullopt;
}

std::vector<AnswerGroup<Answer>::Start> StartsOf(TenantSession& tenant,
                                                 const CompletionRequest& completion) {
  std::vector<AnswerGroup<Answer>::Start> starts;
  for (const std::vector<TokenId>& prompt : completion.prompts) {
    AnswerRequest request = completion.request;
    if (request.fork) request.prompt = request.fork->tokens();
    request.prompt.insert(request.prompt.end(), prompt.begin(), prompt.end());
    request.number = completion.reply.count * static_cast<std::uint32_t>(starts.size());
    starts.emplace_back([&tenant, request = std::move(request), count = completion.reply.count] {
      return StartAnswers(tenant, request, count);
    });
  }
  return starts;
}

Await<Status> SendLlamaCompletion(TenantSession& tenant, CompletionRequest completion,
                                  Responder& responder) {
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant.session());
  if (const auto too_long = FindTooLongPrompt(tenant, completion)) {
    co_await responder.Send(TooLongReply(*too_long));
    co_return Status();
  }
  AnswerGroup<Answer> group(tenant.loop(), StartsOf(tenant, completion), completion.reply.count,
                            completion.request.journal);
  LlamaWriter writer(tenant.model(), completion.reply, session, group.size());
  if (const auto& fork = completion.request.fork; fork) {
    group.AlsoCancel([fork] { fork->Cancel(); });
  }
  writer.OnEndEarly([&group](std::size_t index) { group.EndEarly(index); });
  if (WantsPrompt(completion.reply)) {
    KVD_CO_CHECK_OK(co_await SetPromptTexts(*session, completion, writer));
  }
  co_await SendAnswers(group, writer, completion.reply, responder);
  co_return Status();
}

void AddLlamaCompletionRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/completion", "/completions"}, Handle);
}

}  // namespace kvd::http
