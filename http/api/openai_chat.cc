#include "http/api/openai_chat.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "http/answer/answer_group.h"
#include "http/answer/chat_answer.h"
#include "http/answer/chat_plan.h"
#include "http/answer/stream_buffer.h"
#include "http/api/answer_route.h"
#include "http/api/answer_stream.h"
#include "http/api/chat_body.h"
#include "http/api/error_of.h"
#include "http/api/json_text.h"
#include "http/api/openai_chat_form.h"
#include "http/api/token_pieces.h"

namespace kvd::http {
namespace {

std::vector<AnswerGroup<ChatAnswer>::Start> StartsOf(Tenant& tenant,
                                                     std::shared_ptr<const ChatPlan> plan,
                                                     std::uint32_t count) {
  std::vector<AnswerGroup<ChatAnswer>::Start> starts;
  // The group keeps the function, and with it the plan, until the answers are started.
  starts.emplace_back(
      [&tenant, plan = std::move(plan), count] { return ChatAnswer::Start(tenant, *plan, count); });
  return starts;
}

Await<Status> Complete(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(Tenant* const tenant, TenantOf(call, body));
  KVD_CO_TRY(ChatCall chat, co_await ReadChatCall(*tenant, body, call.request));
  chat.request.journal = JournalOf(call.responder);
  KVD_CO_TRY(ChatPlan planned,
             co_await PlanChat(*tenant, std::move(chat.input), std::move(chat.request)));
  const auto plan = std::make_shared<const ChatPlan>(std::move(planned));
  if (const auto too_long = FindTooLong(tenant->model(), plan->request.prompt.size())) {
    co_await call.responder.Send(TooLongReply(*too_long));
    co_return Status();
  }
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant->session());
  std::string prompt;
  if (chat.reply.is_verbose) {
    const std::span<const TokenId> tokens(plan->request.prompt);
    KVD_CO_TRY(prompt, co_await JoinedPieces(*session, tokens));
  }
  AnswerGroup<ChatAnswer> group(tenant->loop(), StartsOf(*tenant, plan, chat.reply.count),
                                chat.reply.count, plan->request.journal);
  OpenAiChatForm form(tenant->model(), chat.reply, call.request, session, std::move(prompt));
  co_await SendAnswers(group, form, chat.reply, call.responder);
  co_return Status();
}

Await<Status> CountTokens(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(Tenant* const tenant, TenantOf(call, body));
  KVD_CO_TRY(ChatCall chat, co_await ReadChatCall(*tenant, body, call.request));
  KVD_CO_TRY(const ChatPlan plan,
             co_await PlanChat(*tenant, std::move(chat.input), std::move(chat.request)));
  Object counted;
  counted.Set("input_tokens", CountValue(plan.request.prompt.size()))
      .Set("object", "response.input_tokens");
  Reply reply;
  reply.body = JsonText(counted.Take());
  co_await call.responder.Send(std::move(reply));
  co_return Status();
}

}  // namespace

void AddOpenAiChatRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/chat/completions", "/v1/chat/completions"}, Complete);
  AddAnswerRoutes(gateway, router,
                  {"/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"},
                  CountTokens);
}

}  // namespace kvd::http
