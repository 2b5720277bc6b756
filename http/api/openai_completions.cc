// The fields are llama-server's own ones. "suffix" and "best_of" are ignored, as llama-server
// ignores them.
#include "http/api/openai_completions.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "http/answer/answer_group.h"
#include "http/api/answer_route.h"
#include "http/api/answer_stream.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/api/llama_completion.h"
#include "http/api/openai_text_form.h"
#include "http/api/token_pieces.h"

namespace kvd::http {
namespace {

// The text of a prompt as the client has written it, without BOS and its space.
Await<Status> SetEchoes(Tenant& tenant, DaemonSession& session, const CompletionRequest& completion,
                        OpenAiTextForm& form) {
  const std::uint32_t count = completion.reply.count;
  const TokenId bos = tenant.model().info().bos_token;
  for (std::size_t i = 0; i < completion.prompts.size(); ++i) {
    std::span<const TokenId> tokens(completion.prompts[i]);
    if (tokens.front() == bos) tokens = tokens.subspan(1);
    const std::uint16_t flags = wire::kFlagSpecial;
    KVD_CO_TRY(const std::string text, co_await session.Detokenize(tokens, flags));
    for (std::uint32_t j = 0; j < count; ++j) form.SetEcho(i * count + j, text);
  }
  co_return Status();
}

Await<Status> Complete(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(Tenant* const tenant, TenantOf(call, body));
  KVD_CO_TRY(CompletionRequest completion, co_await ReadCompletion(*tenant, body, call.responder));
  KVD_CO_TRY(const bool has_echo, Fields(body).Bool("echo", false));
  KVD_CO_CHECK_OK(co_await ReadPrompts(call.gateway, *tenant, body, completion));
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant->session());
  if (const auto too_long = FindTooLongPrompt(*tenant, completion)) {
    co_await call.responder.Send(TooLongReply(*too_long));
    co_return Status();
  }
  const std::size_t answer_count = completion.prompts.size() * completion.reply.count;
  OpenAiTextForm form(tenant->model(), completion.reply, call.request, session, answer_count);
  if (has_echo) KVD_CO_CHECK_OK(co_await SetEchoes(*tenant, *session, completion, form));
  AnswerGroup<Answer> group(tenant->loop(), StartsOf(*tenant, completion), completion.reply.count,
                            completion.request.journal);
  if (const auto& fork = completion.request.fork; fork) {
    group.AlsoCancel([fork] { fork->Cancel(); });
  }
  co_await SendAnswers(group, form, completion.reply, call.responder);
  co_return Status();
}

}  // namespace

void AddOpenAiCompletionRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/v1/completions"}, Complete);
}

}  // namespace kvd::http
