// The routes of streams that outlive their clients, as llama-server has them: GET and DELETE
// /v1/stream, POST /v1/streams/lookup.
#include "http/api/routes.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "http/answer/jobs.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/api/route_kinds.h"
#include "http/serve/request.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// The routes of responses start their jobs themselves.
constexpr std::string_view kStreamed[] = {
    "/completion",          "/completions", "/v1/completions", "/chat/completions",
    "/v1/chat/completions", "/v1/messages", "/infill"};

constexpr std::size_t kLookupIdsMax = 1000;

Await<void> SendError(Responder& responder, int status, std::string message) {
  GatewayReply reply = ErrorReply(status, message);
  co_await responder.Send(std::move(reply));
}

Await<void> GetStream(Gateway& gateway, const Request& request, Responder& responder) {
  const std::string id(request.query_value("conv_id").value_or(""));
  if (id.empty()) co_return co_await SendError(responder, 400, "conv_id: missing in the query");
  const std::string_view from_text = request.query_value("from").value_or("0");
  std::size_t from = 0;
  const auto [end, error] =
      std::from_chars(from_text.data(), from_text.data() + from_text.size(), from);
  if (error != std::errc() || end != from_text.data() + from_text.size()) {
    co_return co_await SendError(responder, 400, "from: a number of bytes is needed");
  }
  const std::shared_ptr<Job> job = gateway.jobs().Find(request.tenant, id);
  if (!job) co_return co_await SendError(responder, 404, "Stream not found or expired");
  const std::shared_ptr<StreamBuffer> buffer = job->buffer;
  co_await buffer->Follow(from, responder);
  responder.OnGone(nullptr);
}

Await<void> DeleteStream(Gateway& gateway, const Request& request, Responder& responder) {
  const std::string id(request.query_value("conv_id").value_or(""));
  if (id.empty()) co_return co_await SendError(responder, 400, "conv_id: missing in the query");
  gateway.jobs().Remove(request.tenant, id);
  GatewayReply reply{.status = 204, .body = {}, .content_type = {}};
  co_await responder.Send(std::move(reply));
}

// The names of the streams that a request asks for. Errors: kInvalidArgument.
Result<std::set<std::string>> IdsIn(const Value& body) {
  KVD_TRY(const Value list, Fields(body).List("conversation_ids"));
  if (list.is_missing()) {
    return Fail(Code::kInvalidArgument, "conversation_ids: a list of texts is needed");
  }
  if (list.items().size() > kLookupIdsMax) {
    return Fail(Code::kInvalidArgument, "conversation_ids: ", list.items().size(), " ids, at most ",
                kLookupIdsMax);
  }
  std::set<std::string> ids;
  for (const Value& id : list.items()) {
    if (id.is_string() && !id.view().empty()) ids.emplace(id.view());
  }
  return ids;
}

Await<void> LookUp(Gateway& gateway, const Request& request, Responder& responder) {
  const auto body = co_await ParseBody(request, gateway.workers());
  const auto ids = body ? IdsIn(*body) : std::unexpected(body.error());
  if (!ids) {
    GatewayReply refusal = ReplyOf(ids.error());
    co_await responder.Send(std::move(refusal));
    co_return;
  }
  std::vector<Value> found;
  std::set<const Job*> seen;  // a stream is a variant of several ids
  for (const std::string& id : *ids) {
    for (const auto& job : gateway.jobs().FindAll(request.tenant, id)) {
      if (!seen.insert(job.get()).second) continue;
      Dict entry;
      entry.Set("conversation_id", Value::String(job->id));
      entry.Set("is_done", Value::Bool(job->buffer->is_over()));
      entry.Set("total_bytes", Value::Int(static_cast<std::int64_t>(job->buffer->byte_count())));
      entry.Set("started_at", Value::Int(job->started_unix_s));
      entry.Set("completed_at", Value::Int(job->completed_unix_s));
      found.push_back(Value::Of(std::move(entry)));
    }
  }
  const auto json = WriteJson(Value::List(std::move(found)));
  if (!json) co_return co_await SendError(responder, 500, json.error().message);
  GatewayReply reply{.body = *json};
  co_await responder.Send(std::move(reply));
}

}  // namespace

void AddStreamRoutes(Gateway& gateway, Router& router) {
  Jobs& jobs = gateway.jobs();
  for (Route& route : router.routes()) {
    const bool is_streamed = route.method == "POST" &&
                             std::ranges::find(kStreamed, route.pattern) != std::end(kStreamed);
    if (!is_streamed) continue;
    route.handler = Resumable(jobs, route.method, route.pattern, std::move(route.handler));
  }
  const auto add = [&](const char* method, const char* path,
                       Await<void> (*handle)(Gateway&, const Request&, Responder&)) {
    router.Add(
        {.method = method,
         .pattern = path,
         .access = RouteAccess::kKey,
         .handler = [&gateway, handle](const Request& request, const std::vector<std::string>&,
                                       Responder& responder) {
           return handle(gateway, request, responder);
         }});
  };
  add("GET", "/v1/stream", GetStream);
  add("DELETE", "/v1/stream", DeleteStream);
  add("POST", "/v1/streams/lookup", LookUp);
}

}  // namespace kvd::http
