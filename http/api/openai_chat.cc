// The routes of OpenAI's chat completions: POST /chat/completions, /v1/chat/completions, and
// .../input_tokens, which counts the tokens of the prompt.
#include "http/api/routes.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "http/answer/answer_group.h"
#include "http/answer/chat_answer.h"
#include "http/answer/chat_plan.h"
#include "http/answer/stream_buffer.h"
#include "http/api/answer_stream.h"
#include "http/api/chat_reader.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/api/fork_source.h"
#include "http/api/json_text.h"
#include "http/api/openai_chat_writer.h"
#include "http/api/route_kinds.h"
#include "http/api/text_tokens.h"

namespace kvd::http {
namespace {

std::vector<AnswerGroup<ChatAnswer>::Start> StartsOf(TenantSession& tenant,
                                                     const ForkedChats& chats) {
  std::vector<AnswerGroup<ChatAnswer>::Start> starts;
  for (const auto& plan : chats.plans) {
    // The group keeps the function, and with it the plan, until the answers are started.
    starts.emplace_back([&tenant, plan, count = chats.call.reply.count] {
      return ChatAnswer::Start(tenant, *plan, count);
    });
  }
  return starts;
}

// A chat without fork_from is one plan without a context.
Await<Result<ForkedChats>> Plan(RouteCall call, TenantSession& tenant, const Value& body) {
  if (Fields(body).Has("fork_from")) co_return co_await PlanForkedChats(call, tenant, body);
  ForkedChats chat;
  KVD_CO_TRY(chat.call, co_await ReadChatCall(tenant, body, call.request));
  chat.call.request.journal = JournalOf(call.responder);
  chat.call.request.conversation = EndedStreamOf(call.responder);
  KVD_CO_TRY(ChatPlan plan,
             co_await PlanChat(tenant, std::move(chat.call.input), chat.call.request));
  chat.plans.push_back(std::make_shared<const ChatPlan>(std::move(plan)));
  co_return chat;
}

Await<Status> CompleteChat(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(const ForkedChats chats, co_await Plan(call, *tenant, body));
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant->session());
  const ReplyFields& reply = chats.call.reply;
  std::vector<std::string> prompts(chats.plans.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::span<const TokenId> tokens(chats.plans[i]->request.prompt);
    if (const auto too_long = FindTooLong(tenant->model(), tokens.size())) {
      co_await call.responder.Send(TooLongReply(*too_long));
      co_return Status();
    }
    if (!reply.is_verbose) continue;
    KVD_CO_TRY(prompts[i], co_await JoinedPieces(*session, tokens));
  }
  AnswerGroup<ChatAnswer> group(tenant->loop(), StartsOf(*tenant, chats), reply.count,
                                chats.call.request.journal);
  if (const auto& fork = chats.fork; fork) group.AlsoCancel([fork] { fork->Cancel(); });
  OpenAiChatWriter writer(tenant->model(), reply, call.request, session, std::move(prompts));
  co_await SendAnswers(group, writer, reply, call.responder);
  co_return Status();
}

Await<Status> CountChatTokens(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(ChatCall chat, co_await ReadChatCall(*tenant, body, call.request));
  KVD_CO_TRY(const ChatPlan plan,
             co_await PlanChat(*tenant, std::move(chat.input), std::move(chat.request)));
  Object counted;
  counted.Set("input_tokens", CountValue(plan.request.prompt.size()))
      .Set("object", "response.input_tokens");
  GatewayReply reply;
  reply.body = JsonText(counted.Take());
  co_await call.responder.Send(std::move(reply));
  co_return Status();
}

}  // namespace

void AddOpenAiChatRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/chat/completions", "/v1/chat/completions"}, CompleteChat);
  AddAnswerRoutes(gateway, router,
                  {"/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"},
                  CountChatTokens);
}

}  // namespace kvd::http
