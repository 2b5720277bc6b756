#include "http/api/response_run.h"

#include <cstdio>
#include <utility>

#include "http/answer/stream_buffer.h"
#include "http/api/answer_report.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/api/json_text.h"
#include "http/api/response_snapshots.h"
#include "http/api/responses_reader.h"
#include "http/api/route_kinds.h"
#include "text/json.h"

namespace kvd::http {
namespace {

Value Items(std::vector<Value> first, const std::vector<Value>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return Value::List(std::move(first));
}

Value TokensOf(const ChatAnswer& answer) {
  std::vector<Value> tokens;
  for (const std::vector<TokenId>* const list :
       {&answer.answer().request().prompt, &answer.tokens()}) {
    for (const TokenId token : *list) tokens.push_back(Value::Int(token));
  }
  return Value::List(std::move(tokens));
}

}  // namespace

std::string ResponseId(const Request& request) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "resp_%016llx%016llx",
                static_cast<unsigned long long>(request.nonce),
                static_cast<unsigned long long>(request.unix_s));
  return digits;
}

Await<Result<std::unique_ptr<ResponseRun>>> ResponseRun::Create(Gateway& gateway,
                                                                ResponseStore& store,
                                                                const Request& request) {
  std::unique_ptr<ResponseRun> run(new ResponseRun(gateway, store, request));
  KVD_CO_CHECK_OK(co_await run->Read());
  co_return run;
}

Await<Status> ResponseRun::Read() {
  KVD_CO_TRY(begin_.body, co_await ParseBody(request_, gateway_.workers()));
  const Fields fields(begin_.body);
  KVD_CO_TRY(const std::string model, fields.String("model"));
  KVD_CO_TRY(tenant_, gateway_.Find(request_.tenant, model));
  KVD_CO_TRY(is_stored_, fields.Bool("store", true));
  KVD_CO_TRY(is_background_, fields.Bool("background", false));
  if (is_background_ && !is_stored_) {
    co_return Fail(Code::kInvalidArgument,
                   "background: a response that is not stored (store) "
                   "cannot be made in the background");
  }
  KVD_CO_TRY(const std::string previous, fields.String("previous_response_id"));
  if (!previous.empty()) {
    KVD_CO_TRY(const std::string stored, store_.Get(request_.tenant, previous));
    const auto parsed = ParseJson(stored, kStoredJson);
    const Value items = parsed ? parsed->dict().Find("items") : Value();
    if (!items.is_list()) {
      co_return Fail(Code::kCorrupt, "previous_response_id: the stored response is damaged");
    }
    earlier_ = items.items();
  }
  KVD_CO_TRY(input_, InputItems(begin_.body));
  KVD_CO_TRY(const Value chat, ReadResponseAsOpenAi(begin_.body, earlier_, input_));
  KVD_CO_TRY(call_, co_await ReadChatCall(*tenant_, chat, request_));
  KVD_CO_TRY(call_.reply.is_stream, fields.Bool("stream", false));
  begin_.id = ResponseId(request_);
  begin_.created_unix_s = request_.unix_s;
  begin_.model = tenant_->model().id();
  begin_.nonce = request_.nonce;
  co_return Status();
}

Status ResponseRun::Store(const Value& response, const std::vector<Value>& output,
                          const Value& tokens) const {
  std::vector<Value> items = earlier_;
  items.insert(items.end(), input_.begin(), input_.end());
  const Value all = Items(std::move(items), output);
  Object stored;
  stored.Set("response", response).Set("input", Value::List(input_)).Set("items", all);
  if (!tokens.is_missing()) stored.Set("tokens", tokens);
  return store_.Put(request_.tenant, begin_.id, JsonText(stored.Take()));
}

Status ResponseRun::StoreBegun(std::string_view status) const {
  return Store(UnfinishedResponse(begin_, status), {});
}

Status ResponseRun::StoreFailed(const Error& error) const {
  if (!is_stored_) return {};
  const bool is_cancelled = error.code == Code::kCancelled;
  return Store(UnfinishedResponse(begin_, is_cancelled ? "cancelled" : "failed",
                                  is_cancelled ? "" : CodeName(error.code), PublicText(error)),
               {});
}

Await<Status> ResponseRun::Keep(const ChatAnswer& answer) {
  if (!is_stored_) co_return Status();
  const Value response = ResponseOf(begin_, answer);
  const Status stored = Store(response, response.dict().Find("output").items(), TokensOf(answer));
  if (!stored) {
    const Error error{stored.error().code, "store: " + stored.error().message};
    // What was stored when the response began says that it is still being made.
    if (!StoreFailed(error)) (void)store_.Remove(request_.tenant, begin_.id);
    co_return std::unexpected(error);
  }
  co_await PublishResponse(*tenant_, answer.answer().session(), answer.answer().sequence(),
                           begin_.id, gateway_.ResponseBytesOf(request_.tenant));
  co_return Status();
}

Await<std::unique_ptr<ChatAnswer>> ResponseRun::Start(Responder& responder) {
  call_.request.journal = JournalOf(responder);
  call_.request.conversation = EndedStreamOf(responder);
  call_.request.wants_progress = call_.reply.has_progress;
  call_.request.computes_last = is_stored_;
  GatewayReply reply;
  auto plan = co_await PlanChat(*tenant_, std::move(call_.input), std::move(call_.request));
  if (!plan) {
    reply = ReplyOf(plan.error());
  } else if (const auto too_long = FindTooLong(tenant_->model(), plan->request.prompt.size())) {
    reply = TooLongReply(*too_long);
  } else {
    auto answers = co_await ChatAnswer::Start(*tenant_, *plan);
    if (answers) co_return std::move(answers->front());
    reply = ReplyOf(answers.error());
  }
  (void)StoreFailed(Error{Code::kInvalidArgument, "the response could not be begun"});
  co_await responder.Send(std::move(reply));
  co_return nullptr;
}

Await<void> ResponseRun::Stream(Responder& responder) {
  const std::unique_ptr<ChatAnswer> answer = co_await Start(responder);
  if (!answer) co_return;
  responder.OnGone([&answer] { answer->Cancel(); });
  ResponsesWriter events(begin_);
  AnswerProgress progress;
  bool has_begun = false;
  for (;;) {
    auto piece = co_await answer->Next();
    if (!piece) (void)StoreFailed(piece.error());
    if (!piece && !has_begun) {
      GatewayReply reply = ReplyOf(piece.error());
      co_await responder.Send(std::move(reply));
      break;
    }
    std::string text;
    if (!has_begun) {
      GatewayReply head{.body = {}, .content_type = std::string(kEventStreamType)};
      if (!co_await responder.Begin(std::move(head))) break;
      text = events.Begin();
      has_begun = true;
    }
    const bool is_over = !piece || !*piece;
    if (!piece) {
      text += events.Failed(CodeName(piece.error().code), PublicText(piece.error()));
    } else if (!*piece) {
      const Status kept = co_await Keep(*answer);
      text += kept ? events.Finish(*answer, TimingsOf(answer->end()))
                   : events.Failed(CodeName(kept.error().code), PublicText(kept.error()));
    } else if ((*piece)->is_progress) {
      const ChatPiece& news = **piece;
      text += events.Progress(progress.PromptProgress(answer->end(), news.done, news.total));
    } else {
      progress.Count((*piece)->tokens.size());
      Value extra;
      if (call_.reply.has_timings) {
        extra = Json({{"timings", progress.TimingsSoFar(answer->end())}}).Take();
      }
      text += events.Take((*piece)->events, extra);
    }
    if (!text.empty() && !co_await responder.Write(std::move(text))) break;
    if (!is_over) continue;
    co_await responder.End();
    break;
  }
  responder.OnGone(nullptr);
}

Await<void> ResponseRun::Whole(Responder& responder) {
  const std::unique_ptr<ChatAnswer> answer = co_await Start(responder);
  if (!answer) co_return;
  responder.OnGone([&answer] { answer->Cancel(); });
  const Status finished = co_await answer->Finish();
  responder.OnGone(nullptr);
  GatewayReply reply;
  Status kept = finished;
  if (finished) kept = co_await Keep(*answer);
  if (kept) {
    Dict response = ResponseOf(begin_, *answer).dict();
    response.Set("timings", TimingsOf(answer->end()));
    reply.body = JsonText(Value::Of(std::move(response)));
  } else {
    if (!finished) (void)StoreFailed(finished.error());
    reply = ReplyOf(kept.error());
  }
  co_await responder.Send(std::move(reply));
}

Await<Result<std::size_t>> ResponseRun::CountTokens() {
  KVD_CO_TRY(const ChatPlan plan,
             co_await PlanChat(*tenant_, std::move(call_.input), std::move(call_.request)));
  co_return plan.request.prompt.size();
}

}  // namespace kvd::http
