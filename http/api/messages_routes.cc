// Anthropic's routes: POST /v1/messages and /v1/messages/count_tokens.
#include "http/api/routes.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "http/answer/chat_answer.h"
#include "http/answer/chat_plan.h"
#include "http/answer/stream_buffer.h"
#include "http/api/chat_reader.h"
#include "http/api/error_of.h"
#include "http/api/json_text.h"
#include "http/api/messages_reader.h"
#include "http/api/messages_writer.h"
#include "http/api/route_kinds.h"
#include "http/api/silence_comments.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

// Anthropic's form of an error, with the members of llama-server's.
GatewayReply AnthropicReply(GatewayReply reply) {
  if (reply.body.starts_with("{")) reply.body.insert(1, "\"type\":\"error\",");
  return reply;
}

std::string MessageId(const Request& request) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "msg_%016llx",
                static_cast<unsigned long long>(request.nonce));
  return digits;
}

struct Question {
  TenantSession* tenant = nullptr;
  ChatCall call;
};

Await<Result<Question>> Read(Gateway& gateway, const Request& request) {
  KVD_CO_TRY(const Value body, co_await ParseBody(request, gateway.workers()));
  KVD_CO_TRY(const Value chat, ReadMessagesAsOpenAi(body));
  const Fields fields(chat);
  KVD_CO_TRY(const std::string model, fields.String("model"));
  Question question;
  KVD_CO_TRY(question.tenant, gateway.Find(request.tenant, model));
  KVD_CO_TRY(question.call, co_await ReadChatCall(*question.tenant, chat, request));
  co_return question;
}

Await<void> Stream(const ChatPlan& plan, TenantSession& tenant, const Request& request,
                   Responder& responder) {
  auto answers = co_await ChatAnswer::Start(tenant, plan);
  if (!answers) {
    GatewayReply reply = AnthropicReply(ReplyOf(answers.error()));
    co_await responder.Send(std::move(reply));
    co_return;
  }
  ChatAnswer& answer = *answers->front();
  responder.OnGone([&answer] { answer.Cancel(); });
  MessagesWriter events(MessageId(request), tenant.model().id());
  bool has_begun = false;
  for (;;) {
    auto piece = co_await answer.Next();
    if (!piece && !has_begun) {
      GatewayReply reply = AnthropicReply(ReplyOf(piece.error()));
      co_await responder.Send(std::move(reply));
      break;
    }
    std::string text;
    if (!has_begun) {
      GatewayReply head{.body = {}, .content_type = std::string(kEventStreamType)};
      if (!co_await responder.Begin(std::move(head))) break;
      text = events.Begin(answer.end());
      has_begun = true;
    }
    if (!piece) {
      text += MessagesWriter::Failed("api_error", PublicText(piece.error()));
    } else if (*piece) {
      text += events.Take((*piece)->events);
    } else {
      text += events.Finish(answer);
    }
    const bool is_over = !piece || !*piece;
    if (!text.empty() && !co_await responder.Write(std::move(text))) break;
    if (!is_over) continue;
    co_await responder.End();
    break;
  }
  responder.OnGone(nullptr);
}

Await<void> Whole(const ChatPlan& plan, TenantSession& tenant, const Request& request,
                  Responder& responder) {
  auto answers = co_await ChatAnswer::Start(tenant, plan);
  GatewayReply reply;
  if (!answers) {
    reply = AnthropicReply(ReplyOf(answers.error()));
  } else {
    ChatAnswer& answer = *answers->front();
    responder.OnGone([&answer] { answer.Cancel(); });
    const Status finished = co_await answer.Finish();
    responder.OnGone(nullptr);
    if (finished) {
      reply.body = JsonText(MessageOf(answer, MessageId(request), tenant.model().id()));
    } else {
      reply = AnthropicReply(ReplyOf(finished.error()));
    }
  }
  co_await responder.Send(std::move(reply));
}

Await<void> AnswerMessages(Gateway& gateway, const Request& request, Responder& responder) {
  auto question = co_await Read(gateway, request);
  if (!question) {
    GatewayReply reply = AnthropicReply(ReplyOf(question.error()));
    co_await responder.Send(std::move(reply));
    co_return;
  }
  TenantSession& tenant = *question->tenant;
  const bool is_stream = question->call.reply.is_stream;
  question->call.request.journal = JournalOf(responder);
  question->call.request.conversation = EndedStreamOf(responder);
  auto plan =
      co_await PlanChat(tenant, std::move(question->call.input), std::move(question->call.request));
  if (!plan) {
    GatewayReply reply = AnthropicReply(ReplyOf(plan.error()));
    co_await responder.Send(std::move(reply));
    co_return;
  }
  if (const auto too_long = FindTooLong(tenant.model(), plan->request.prompt.size())) {
    GatewayReply reply = AnthropicReply(TooLongReply(*too_long));
    co_await responder.Send(std::move(reply));
    co_return;
  }
  if (is_stream) {
    const auto stream = [&](Responder& to) { return Stream(*plan, tenant, request, to); };
    co_return co_await WithComments(gateway.loop(), responder,
                                    CommentTime(question->call.reply, responder), stream);
  }
  co_await Whole(*plan, tenant, request, responder);
}

Await<void> CountMessagesTokens(Gateway& gateway, const Request& request, Responder& responder) {
  auto question = co_await Read(gateway, request);
  GatewayReply reply;
  if (!question) {
    reply = AnthropicReply(ReplyOf(question.error()));
  } else {
    const auto plan = co_await PlanChat(*question->tenant, std::move(question->call.input),
                                        std::move(question->call.request));
    reply.body =
        plan ? JsonText(Json({{"input_tokens", CountValue(plan->request.prompt.size())}}).Take())
             : std::string();
    if (!plan) reply = AnthropicReply(ReplyOf(plan.error()));
  }
  co_await responder.Send(std::move(reply));
}

void AddMessagesRoute(Gateway& gateway, Router& router, const char* path,
                      Await<void> (*handle)(Gateway&, const Request&, Responder&)) {
  router.Add({.method = "POST",
              .pattern = path,
              .access = RouteAccess::kKey,
              .handler = [&gateway, handle](const Request& request, const std::vector<std::string>&,
                                            Responder& responder) {
                return handle(gateway, request, responder);
              }});
}

}  // namespace

void AddMessagesRoutes(Gateway& gateway, Router& router) {
  AddMessagesRoute(gateway, router, "/v1/messages", AnswerMessages);
  AddMessagesRoute(gateway, router, "/v1/messages/count_tokens", CountMessagesTokens);
}

}  // namespace kvd::http
