// OpenAI's completions: the writer of replies, and the route.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/answer/answer_group.h"
#include "http/answer/served_model.h"
#include "http/api/answer_report.h"
#include "http/api/answer_stream.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/api/json_text.h"
#include "http/api/llama_completion.h"
#include "http/api/openai_members.h"
#include "http/api/reply_fields.h"
#include "http/api/route_kinds.h"
#include "http/api/routes.h"
#include "http/api/text_tokens.h"
#include "http/api/token_probs.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {
namespace {

// The replies of OpenAI's completions: a whole reply with its choices, or a stream of chunks.
class OpenAiTextWriter {
 public:
  // `model` and `fields` outlive the writer. `answer_count`: of all prompts together.
  OpenAiTextWriter(const ServedModel& model, const ReplyFields& fields, const Request& request,
                   std::shared_ptr<DaemonSession> session, std::size_t answer_count);

  // The text that stands before the answer (echo).
  void SetEcho(std::size_t index, std::string text);

  // See api/answer_stream.h.
  Await<Result<std::string>> Take(std::size_t index, const Answer& answer, AnswerPiece piece);
  Await<Result<std::string>> End(std::size_t index, const Answer& answer);
  std::string Last() const;
  Value Whole();

 private:
  struct Choice {
    AnswerProgress progress;
    std::string text;          // with a stream: of the echo, until it is sent
    std::vector<Value> probs;  // with a stream: not yet sent
    std::int64_t offset = 0;   // code points of the text in front of the tokens of `probs`
    Value whole;               // when the answer has ended
  };

  Value ChoiceOf(std::size_t index, const char* finish_reason);

  const ReplyFields& fields_;
  const OpenAiMembers reply_;
  TokenProbs probs_;
  std::vector<Choice> choices_;
  // Of the answers that have ended.
  Usage usage_;
  std::size_t ended_ = 0;
  Value timings_;  // of the first one
  Value cache_;
};

// "logprobs" has llama-server's member "content", and OpenAI's members for completions.

constexpr char kObject[] = "text_completion";

// The member, or null.
Value PresentMember(const Value& object, std::string_view name) {
  const Value& member = object.dict().Find(name);
  return member.is_missing() ? Value::None() : member;
}

// `offset`: the code points of the text in front of the tokens, which is moved behind them.
Value TextLogprobsOf(const std::vector<Value>& probs, std::int64_t& offset) {
  std::vector<Value> tokens;
  std::vector<Value> numbers;
  std::vector<Value> tops;
  std::vector<Value> offsets;
  for (const Value& prob : probs) {
    const Value token = PresentMember(prob, "token");
    tokens.push_back(token);
    numbers.push_back(PresentMember(prob, "logprob"));
    offsets.push_back(Value::Int(offset));
    offset += static_cast<std::int64_t>(token.text().code_points);
    Dict top;
    const Value choices = PresentMember(prob, "top_logprobs");
    if (choices.is_list()) {
      for (const Value& choice : choices.items()) {
        top.Set(PresentMember(choice, "token"), PresentMember(choice, "logprob"));
      }
    }
    tops.push_back(Value::Of(std::move(top)));
  }
  return Object()
      .Set("content", Value::List(probs))
      .Set("tokens", Value::List(std::move(tokens)))
      .Set("token_logprobs", Value::List(std::move(numbers)))
      .Set("top_logprobs", Value::List(std::move(tops)))
      .Set("text_offset", Value::List(std::move(offsets)))
      .Take();
}

}  // namespace

OpenAiTextWriter::OpenAiTextWriter(const ServedModel& model, const ReplyFields& fields,
                                   const Request& request, std::shared_ptr<DaemonSession> session,
                                   std::size_t answer_count)
    : fields_(fields),
      reply_(model, request),
      probs_(std::move(session), fields.has_sampled_probs),
      choices_(answer_count) {}

void OpenAiTextWriter::SetEcho(std::size_t index, std::string text) {
  const Value echo = TextValue(text);
  choices_[index].offset = static_cast<std::int64_t>(echo.text().code_points);
  choices_[index].text = std::move(text);
}

Value OpenAiTextWriter::ChoiceOf(std::size_t index, const char* finish_reason) {
  Choice& own = choices_[index];
  Object choice;
  choice.Set("text", std::exchange(own.text, {})).Set("index", CountValue(index));
  choice.Set("logprobs", own.probs.empty() ? Value::None() : TextLogprobsOf(own.probs, own.offset));
  own.probs.clear();
  choice.Set("finish_reason", finish_reason == nullptr ? Value::None() : TextValue(finish_reason));
  return choice.Take();
}

Await<Result<std::string>> OpenAiTextWriter::Take(std::size_t index, const Answer& answer,
                                                  AnswerPiece piece) {
  Choice& own = choices_[index];
  if (piece.is_progress) {
    if (!fields_.is_stream || !fields_.has_progress) co_return std::string();
    Object chunk = reply_.With(Value::List({}), kObject);
    chunk.Set("prompt_progress",
              own.progress.PromptProgress(answer.end(), piece.done, piece.total));
    co_return DataEvent(chunk.Take());
  }
  own.progress.Count(piece.tokens.size());
  own.text += piece.text;
  if (!piece.logprobs.empty()) {
    auto drawn = ReadDrawnTokens(piece.logprobs, answer.request(), fields_.has_sampled_probs,
                                 fields_.top_count);
    KVD_CO_CHECK_OK(co_await probs_.Append(std::move(drawn), own.probs));
  }
  if (!fields_.is_stream || (own.text.empty() && own.probs.empty())) co_return std::string();
  Object chunk = reply_.With(Value::List({ChoiceOf(index, nullptr)}), kObject);
  if (fields_.has_timings) chunk.Set("timings", own.progress.TimingsSoFar(answer.end()));
  co_return DataEvent(chunk.Take());
}

Await<Result<std::string>> OpenAiTextWriter::End(std::size_t index, const Answer& answer) {
  const AnswerEnd& end = answer.end();
  usage_.Add(end, index % fields_.count != 0);
  if (ended_ == 0) {
    timings_ = TimingsOf(end);
    cache_ = CacheOf(end.cache);
  }
  const bool is_last = ++ended_ == choices_.size();
  const char* const reason = FinishReason(end).data();
  if (!fields_.is_stream) {
    choices_[index].whole = ChoiceOf(index, reason);
    co_return std::string();
  }
  Object last = reply_.With(Value::List({ChoiceOf(index, reason)}), kObject);
  if (!fields_.has_usage) {
    Usage usage;
    usage.Add(end, false);
    last.Set("usage", usage.ToValue())
        .Set("timings", TimingsOf(end))
        .Set("cache", CacheOf(end.cache));
    co_return DataEvent(last.Take());
  }
  std::string chunks = DataEvent(last.Take());
  if (!is_last) co_return chunks;
  Object usage = reply_.With(Value::List({}), kObject);
  usage.Set("usage", usage_.ToValue()).Set("timings", timings_).Set("cache", cache_);
  chunks += DataEvent(usage.Take());
  co_return chunks;
}

std::string OpenAiTextWriter::Last() const { return "data: [DONE]\n\n"; }

Value OpenAiTextWriter::Whole() {
  std::vector<Value> choices;
  for (const Choice& choice : choices_) choices.push_back(choice.whole);
  Object reply = reply_.With(Value::List(std::move(choices)), kObject);
  reply.Set("usage", usage_.ToValue()).Set("timings", timings_).Set("cache", cache_);
  return reply.Take();
}

// The fields are llama-server's own ones. "suffix" and "best_of" are ignored, as llama-server
// ignores them.

namespace {

// The text of a prompt as the client has written it, without BOS and its space.
Await<Status> SetEchoes(TenantSession& tenant, DaemonSession& session,
                        const CompletionRequest& completion, OpenAiTextWriter& writer) {
  const std::uint32_t count = completion.reply.count;
  const TokenId bos = tenant.model().info().bos_token;
  for (std::size_t i = 0; i < completion.prompts.size(); ++i) {
    std::span<const TokenId> tokens(completion.prompts[i]);
    if (tokens.front() == bos) tokens = tokens.subspan(1);
    const std::uint16_t flags = wire::kFlagSpecial;
    KVD_CO_TRY(const std::string text, co_await session.Detokenize(tokens, flags));
    for (std::uint32_t j = 0; j < count; ++j) writer.SetEcho(i * count + j, text);
  }
  co_return Status();
}

Await<Status> Complete(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(CompletionRequest completion, co_await ReadCompletion(*tenant, body, call.responder));
  KVD_CO_TRY(const bool has_echo, Fields(body).Bool("echo", false));
  KVD_CO_CHECK_OK(co_await ReadPrompts(call.gateway, *tenant, body, completion));
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant->session());
  if (const auto too_long = FindTooLongPrompt(*tenant, completion)) {
    co_await call.responder.Send(TooLongReply(*too_long));
    co_return Status();
  }
  const std::size_t answer_count = completion.prompts.size() * completion.reply.count;
  OpenAiTextWriter writer(tenant->model(), completion.reply, call.request, session, answer_count);
  if (has_echo) KVD_CO_CHECK_OK(co_await SetEchoes(*tenant, *session, completion, writer));
  AnswerGroup<Answer> group(tenant->loop(), StartsOf(*tenant, completion), completion.reply.count,
                            completion.request.journal);
  if (const auto& fork = completion.request.fork; fork) {
    group.AlsoCancel([fork] { fork->Cancel(); });
  }
  co_await SendAnswers(group, writer, completion.reply, call.responder);
  co_return Status();
}

}  // namespace

void AddOpenAiCompletionRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/v1/completions"}, Complete);
}

}  // namespace kvd::http
