// A response in the background, and a stored one that is streamed, run as jobs (answer/jobs.h)
// whose id is that of the response, so that they continue without their client and after a restart.
// A request with an X-Conversation-Id always runs as a job, which is found by this id, too.
#include "http/api/routes.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "http/answer/jobs.h"
#include "http/api/error_of.h"
#include "http/api/json_text.h"
#include "http/api/response_run.h"
#include "http/api/silence_comments.h"
#include "http/serve/request.h"
#include "text/json.h"

namespace kvd::http {
namespace {

constexpr std::string_view kPaths[] = {"/v1/responses", "/responses"};

struct Context {
  Gateway& gateway;
  ResponseStore& store;
};

// The stored response and its items. Errors: kNotFound, kCorrupt.
Result<Value> Stored(const Context& context, const Request& request, const std::string& id) {
  KVD_TRY(const std::string text, context.store.Get(request.tenant, id));
  auto parsed = ParseJson(text, kStoredJson);
  if (parsed && parsed->dict().Contains("response") && parsed->dict().Contains("input")) {
    return std::move(*parsed);
  }
  return Fail(Code::kCorrupt, "response ", id, ": the stored text is damaged");
}

std::string StatusOf(const Value& response) {
  const Value& status = response.dict().Find("status");
  return status.is_string() ? std::string(status.view()) : std::string();
}

bool IsOpen(const Value& response) {
  const std::string status = StatusOf(response);
  return status == "queued" || status == "in_progress";
}

// Stores that a response, which no job makes any more, has failed.
void EndLost(const Context& context, const Request& request, const std::string& id,
             const std::string& why) {
  auto stored = Stored(context, request, id);
  if (!stored || !IsOpen(stored->dict().Find("response"))) return;
  Dict response = stored->dict().Find("response").dict();
  response.Set("status", TextValue("failed"));
  response.Set("error",
               Json({{"code", TextValue("server_error")}, {"message", TextValue(why)}}).Take());
  Dict all = stored->dict();
  all.Set("response", Value::Of(std::move(response)));
  (void)context.store.Put(request.tenant, id, JsonText(Value::Of(std::move(all))));
}

// The job that runs this request now; null: none does.
std::shared_ptr<Job> OwnJob(const Context& context, const Request& request, const std::string& id,
                            const Responder& responder) {
  const std::string conversation(request.header("X-Conversation-Id"));
  for (const std::string& name : {id, conversation}) {
    const auto job = context.gateway.jobs().Find(request.tenant, name);
    if (job && job->buffer.get() == &responder) return job;
  }
  return nullptr;
}

Await<void> Run(const Context& context, ResponseRun& response, Responder& responder) {
  const bool is_stream = response.is_stream() || response.is_background();
  if (!is_stream) co_return co_await response.Whole(responder);
  const auto stream = [&](Responder& to) { return response.Stream(to); };
  co_await WithComments(context.gateway.loop(), responder,
                        CommentTime(response.reply_fields(), responder), stream);
}

Await<void> Post(Context context, std::string path, const Request& request, Responder& responder) {
  const std::string id = ResponseId(request);
  const bool is_job_running = OwnJob(context, request, id, responder) != nullptr;
  auto run = co_await ResponseRun::Create(context.gateway, context.store, request);
  if (!run) {
    // A response that another process has begun cannot be continued.
    if (is_job_running) EndLost(context, request, id, PublicText(run.error()));
    GatewayReply reply = ReplyOf(run.error());
    co_await responder.Send(std::move(reply));
    co_return;
  }
  ResponseRun& response = **run;
  if (is_job_running) co_return co_await Run(context, response, responder);
  const std::string conversation(request.header("X-Conversation-Id"));
  const bool is_found_by_id =
      response.is_background() || (response.is_stored() && response.is_stream());
  if (!is_found_by_id && conversation.empty()) co_return co_await Run(context, response, responder);
  Status stored;
  if (is_found_by_id) {
    stored = response.StoreBegun(response.is_background() ? "queued" : "in_progress");
  }
  Result<std::shared_ptr<Job>> job =
      stored ? context.gateway.jobs().Start(is_found_by_id ? id : conversation, path, request)
             : std::unexpected(stored.error());
  if (!job) {
    GatewayReply reply = stored ? RefusalOf(job.error()) : ReplyOf(job.error());
    co_await responder.Send(std::move(reply));
    co_return;
  }
  if (response.is_background() && !response.is_stream()) {
    GatewayReply reply{.body = JsonText(UnfinishedResponse(response.begin(), "queued"))};
    co_await responder.Send(std::move(reply));
    co_return;
  }
  const std::shared_ptr<StreamBuffer> buffer = (*job)->buffer;
  // A client that resumes a conversation's stream counts its bytes, so it gets no comments.
  const bool has_comments = response.is_stream() && conversation.empty();
  co_await WithComments(context.gateway.loop(), responder,
                        has_comments ? response.reply_fields().ping_time : std::chrono::seconds(0),
                        [&](Responder& to) { return buffer->Follow(0, to); });
  responder.OnGone(nullptr);
}

Result<std::size_t> StartingAfter(const Request& request) {
  const auto text = request.query_value("starting_after");
  if (!text) return std::size_t{0};
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) {
    return Fail(Code::kInvalidArgument, "starting_after: a sequence number is needed, not \"",
                *text, "\"");
  }
  return number + 1;
}

Await<void> Get(Context context, const Request& request, std::string id, Responder& responder) {
  const std::shared_ptr<Job> job = context.gateway.jobs().Find(request.tenant, id);
  if (!job) EndLost(context, request, id, "the response was lost with the process that made it");
  const auto stored = Stored(context, request, id);
  const auto after = StartingAfter(request);
  GatewayReply reply;
  if (!stored || !after) {
    reply = ReplyOf(stored ? after.error() : stored.error());
    co_await responder.Send(std::move(reply));
    co_return;
  }
  const Value& response = stored->dict().Find("response");
  const auto stream = request.query_value("stream");
  if (!stream || (*stream != "true" && *stream != "1")) {
    reply.body = JsonText(response);
    co_await responder.Send(std::move(reply));
    co_return;
  }
  if (job) {
    const std::shared_ptr<StreamBuffer> buffer = job->buffer;
    const auto time = std::max(context.gateway.settings().ping_interval, std::chrono::seconds(0));
    co_await WithComments(context.gateway.loop(), responder, time,
                          [&](Responder& to) { return buffer->FollowEvents(*after, to); });
    responder.OnGone(nullptr);
    co_return;
  }
  // The events are gone; the last one has all of the response.
  reply.content_type = kEventStreamType;
  const std::string status = StatusOf(response);
  const bool has_failed = status == "failed" || status == "cancelled";
  const std::string type = has_failed ? "response.failed" : "response.completed";
  reply.body = EventText(type, Json({{"type", TextValue(type)},
                                     {"sequence_number", CountValue(*after)},
                                     {"response", response}})
                                   .Take());
  co_await responder.Send(std::move(reply));
}

Await<void> Delete(Context context, const Request& request, std::string id, Responder& responder) {
  context.gateway.jobs().Remove(request.tenant, id);
  const Status removed = context.store.Remove(request.tenant, id);
  GatewayReply reply;
  if (removed) {
    reply.body = JsonText(Json({{"id", TextValue(id)},
                                {"object", TextValue("response.deleted")},
                                {"deleted", Value::Bool(true)}})
                              .Take());
  } else {
    reply = ReplyOf(removed.error());
  }
  co_await responder.Send(std::move(reply));
}

Await<void> InputItemsOf(Context context, const Request& request, std::string id,
                         Responder& responder) {
  const auto stored = Stored(context, request, id);
  GatewayReply reply;
  if (stored) {
    const Value& input = stored->dict().Find("input");
    std::vector<Value> data;
    for (std::size_t i = 0; input.is_list() && i < input.items().size(); ++i) {
      if (!input.items()[i].is_dict()) continue;
      Dict item = input.items()[i].dict();
      if (!item.Contains("id")) item.Set("id", TextValue("msg_in_" + std::to_string(i)));
      data.push_back(Value::Of(std::move(item)));
    }
    const Value first = data.empty() ? Value::None() : data.front().dict().Find("id");
    const Value last = data.empty() ? Value::None() : data.back().dict().Find("id");
    reply.body = JsonText(Json({{"object", TextValue("list")},
                                {"data", Value::List(std::move(data))},
                                {"first_id", first},
                                {"last_id", last},
                                {"has_more", Value::Bool(false)}})
                              .Take());
  } else {
    reply = ReplyOf(stored.error());
  }
  co_await responder.Send(std::move(reply));
}

Await<void> Cancel(Context context, const Request& request, std::string id, Responder& responder) {
  const auto stored = Stored(context, request, id);
  GatewayReply reply;
  if (!stored) {
    reply = ReplyOf(stored.error());
    co_await responder.Send(std::move(reply));
    co_return;
  }
  Dict response = stored->dict().Find("response").dict();
  if (IsOpen(stored->dict().Find("response"))) {
    if (const auto job = context.gateway.jobs().Find(request.tenant, id); job) {
      job->buffer->Cancel();
      // A restart does not make a response that was cancelled.
      if (job->buffer->journal()) job->buffer->journal()->Remove();
    }
    response.Set("status", TextValue("cancelled"));
    Dict all = stored->dict();
    all.Set("response", Value::Of(response));
    (void)context.store.Put(request.tenant, id, JsonText(Value::Of(std::move(all))));
  }
  reply.body = JsonText(Value::Of(std::move(response)));
  co_await responder.Send(std::move(reply));
}

Await<void> CountTokens(Context context, const Request& request, Responder& responder) {
  auto run = co_await ResponseRun::Create(context.gateway, context.store, request);
  GatewayReply reply;
  if (!run) {
    reply = ReplyOf(run.error());
  } else if (const auto count = co_await (*run)->CountTokens(); count) {
    reply.body = JsonText(
        Json({{"object", TextValue("response.input_tokens")}, {"input_tokens", CountValue(*count)}})
            .Take());
  } else {
    reply = ReplyOf(count.error());
  }
  co_await responder.Send(std::move(reply));
}

using IdHandler = Await<void> (*)(Context, const Request&, std::string, Responder&);

void AddWithId(Context context, Router& router, const char* method, const std::string& pattern,
               IdHandler handle) {
  router.Add(
      {.method = method,
       .pattern = pattern,
       .access = RouteAccess::kKey,
       .handler = [context, handle](const Request& request, const std::vector<std::string>& parts,
                                    Responder& responder) {
         return handle(context, request, parts.front(), responder);
       }});
}

}  // namespace

void AddResponsesRoutes(Gateway& gateway, Router& router) {
  const Context context{gateway, gateway.responses()};
  for (const std::string_view path : kPaths) {
    const std::string pattern(path);
    Handler post = [context, pattern](const Request& request, const std::vector<std::string>&,
                                      Responder& responder) {
      return Post(context, pattern, request, responder);
    };
    gateway.jobs().AddHandler("POST", pattern, post);
    router.Add({.method = "POST",
                .pattern = pattern,
                .access = RouteAccess::kKey,
                .handler = std::move(post)});
    router.Add({.method = "POST",
                .pattern = pattern + "/input_tokens",
                .access = RouteAccess::kKey,
                .handler = [context](const Request& request, const std::vector<std::string>&,
                                     Responder& responder) {
                  return CountTokens(context, request, responder);
                }});
    AddWithId(context, router, "GET", pattern + "/{}", Get);
    AddWithId(context, router, "DELETE", pattern + "/{}", Delete);
    AddWithId(context, router, "GET", pattern + "/{}/input_items", InputItemsOf);
    AddWithId(context, router, "POST", pattern + "/{}/cancel", Cancel);
  }
}

}  // namespace kvd::http
