#include "http/api/infill_routes.h"

#include <utility>

#include "http/api/answer_route.h"
#include "http/api/infill_prompt.h"
#include "http/api/llama_completion.h"

namespace kvd::http {
namespace {

Await<Status> Infill(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(Tenant* const tenant, TenantOf(call, body));
  KVD_CO_CHECK_OK(CheckInfillTokens(InfillTokensOf(tenant->model().texts())));
  KVD_CO_TRY(const InfillFields fields, ReadInfillFields(body));
  KVD_CO_TRY(CompletionRequest completion, co_await ReadCompletion(*tenant, body, call.responder));
  KVD_CO_TRY(std::vector<TokenId> prompt, co_await MakeInfillPrompt(*tenant, fields));
  completion.prompts.push_back(std::move(prompt));
  co_return co_await SendLlamaCompletion(*tenant, std::move(completion), call.responder);
}

}  // namespace

void AddInfillRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/infill"}, Infill);
}

}  // namespace kvd::http
