// A stream: a chunk with the role, chunks with deltas, a chunk with the reason of the end, and with
// include_usage a chunk without choices. No delta is empty but the one of the end.
#include "http/api/openai_chat_writer.h"

#include <utility>

#include "http/api/answer_stream.h"
#include "http/api/json_text.h"
#include "http/api/llama_writer.h"

namespace kvd::http {
namespace {

constexpr char kChunk[] = "chat.completion.chunk";

const char* ReasonOf(const ChatAnswer& answer) {
  switch (answer.finish()) {
    case ChatFinish::kLength: return "length";
    case ChatFinish::kCalls: return "tool_calls";
    default: return "stop";
  }
}

Value CallDelta(std::size_t index, Object function, const std::string& id) {
  Object call;
  call.Set("index", CountValue(index));
  if (!id.empty()) call.Set("id", id).Set("type", "function");
  call.Set("function", function.Take());
  return Object().Set("tool_calls", Value::List({call.Take()})).Take();
}

Value LogprobsOf(std::vector<Value> probs) {
  return Object().Set("content", Value::List(std::move(probs))).Take();
}

}  // namespace

Value DeltaOf(const AnswerEvent& event) {
  using Kind = AnswerEvent::Kind;
  Object function;
  switch (event.kind) {
    case Kind::kContent: return Object().Set("content", event.text).Take();
    case Kind::kReasoning: return Object().Set("reasoning_content", event.text).Take();
    case Kind::kCallBegin:
      function.Set("name", event.text).Set("arguments", "");
      return CallDelta(event.call, std::move(function), event.id);
    case Kind::kArguments:
      function.Set("arguments", event.text);
      return CallDelta(event.call, std::move(function), {});
    default: return Value();
  }
}

Value ChatMessageOf(const ParsedAnswer& parsed) {
  Object message;
  message.Set("role", "assistant");
  if (parsed.content.empty() && !parsed.calls.empty()) {
    message.Set("content", Value::None());
  } else {
    message.Set("content", parsed.content);
  }
  if (!parsed.reasoning.empty()) message.Set("reasoning_content", parsed.reasoning);
  if (parsed.calls.empty()) return message.Take();
  std::vector<Value> calls;
  for (const ParsedCall& call : parsed.calls) {
    Object function;
    function.Set("name", call.name).Set("arguments", call.arguments);
    Object object;
    object.Set("type", "function").Set("function", function.Take()).Set("id", call.id);
    calls.push_back(object.Take());
  }
  message.Set("tool_calls", Value::List(std::move(calls)));
  return message.Take();
}

OpenAiChatWriter::OpenAiChatWriter(const ServedModel& model, const ReplyFields& fields,
                                   const Request& request, std::shared_ptr<DaemonSession> session,
                                   std::vector<std::string> prompts)
    : model_(model),
      fields_(fields),
      reply_(model, request),
      prompts_(std::move(prompts)),
      probs_(std::move(session), fields.has_sampled_probs),
      choices_(prompts_.size() * fields.count) {}

Object OpenAiChatWriter::Chunk(std::size_t index, Value delta, const char* finish_reason,
                               std::vector<Value> probs) const {
  Object choice;
  choice.Set("finish_reason", finish_reason == nullptr ? Value::None() : TextValue(finish_reason))
      .Set("index", CountValue(index))
      .Set("delta", std::move(delta));
  if (!probs.empty()) choice.Set("logprobs", LogprobsOf(std::move(probs)));
  return reply_.With(Value::List({choice.Take()}), kChunk);
}

std::string OpenAiChatWriter::RoleChunk(std::size_t index) {
  if (std::exchange(choices_[index].has_role, true)) return {};
  Object delta;
  delta.Set("role", "assistant").Set("content", Value::None());
  return DataEvent(Chunk(index, delta.Take(), nullptr).Take());
}

std::string OpenAiChatWriter::ProgressChunks(std::size_t index, const AnswerEnd& end,
                                             const ChatPiece& piece) {
  std::string chunks;
  if (!fields_.has_progress) return chunks;
  Choice& own = choices_[index];
  const auto report = [&](std::uint64_t done, std::uint64_t total) {
    if (!own.progress.IsNews(done)) return;
    Object delta;
    if (!std::exchange(own.has_role, true)) {
      delta.Set("role", "assistant").Set("content", Value::None());
    }
    Object chunk = Chunk(index, delta.Take(), nullptr);
    chunk.Set("prompt_progress", own.progress.PromptProgress(end, done, total));
    chunks += DataEvent(chunk.Take());
  };
  if (piece.is_progress) {
    if (!own.progress.has_reported()) report(end.cached_tokens, piece.total);
    report(piece.done, piece.total);
  } else if (own.progress.token_count() == 0) {
    if (!own.progress.has_reported()) report(end.cached_tokens, end.prompt_tokens);
    report(end.prompt_tokens, end.prompt_tokens);
  }
  return chunks;
}

std::string OpenAiChatWriter::EventChunks(std::size_t index, const ChatAnswer& answer,
                                          const std::vector<AnswerEvent>& events) {
  Choice& own = choices_[index];
  std::string chunks;
  for (std::size_t i = 0; i < events.size(); ++i) {
    Value delta = DeltaOf(events[i]);
    if (delta.is_missing()) continue;
    Object chunk = Chunk(index, std::move(delta), nullptr, std::exchange(own.probs, {}));
    if (fields_.has_timings && i + 1 == events.size()) {
      chunk.Set("timings", own.progress.TimingsSoFar(answer.end()));
    }
    chunks += DataEvent(chunk.Take());
  }
  return chunks;
}

Await<Result<std::string>> OpenAiChatWriter::Take(std::size_t index, const ChatAnswer& answer,
                                                  ChatPiece piece) {
  Choice& own = choices_[index];
  std::string chunks;
  if (fields_.is_stream) chunks = ProgressChunks(index, answer.end(), piece);
  if (piece.is_progress) co_return chunks;
  own.progress.Count(piece.tokens.size());
  if (!piece.logprobs.empty()) {
    const AnswerRequest& request = answer.answer().request();
    auto drawn =
        ReadDrawnTokens(piece.logprobs, request, fields_.has_sampled_probs, fields_.top_count);
    KVD_CO_CHECK_OK(co_await probs_.Append(std::move(drawn), own.probs));
  }
  if (!fields_.is_stream) co_return chunks;
  chunks += RoleChunk(index);
  chunks += EventChunks(index, answer, piece.events);
  co_return chunks;
}

Value OpenAiChatWriter::Verbose(std::size_t index, const ChatAnswer& answer) const {
  LlamaAnswer shown{.index = index,
                    .prompt = prompts_[index / fields_.count],
                    .content = answer.text(),
                    .tokens = answer.tokens(),
                    .probs = {}};
  return LlamaReply(model_, answer.answer().request(), fields_, answer.end(), std::move(shown));
}

void OpenAiChatWriter::SetNumbers(Object& reply) const {
  reply.Set("timings", timings_).Set("cache", cache_);
}

Await<Result<std::string>> OpenAiChatWriter::End(std::size_t index, const ChatAnswer& answer) {
  Choice& own = choices_[index];
  const AnswerEnd& end = answer.end();
  usage_.Add(end, index % fields_.count != 0);
  if (ended_ == 0) {
    timings_ = TimingsOf(end);
    cache_ = CacheOf(end.cache);
    if (fields_.is_verbose) verbose_ = Verbose(index, answer);
  }
  const bool is_last = ++ended_ == choices_.size();
  const char* const reason = ReasonOf(answer);
  if (!fields_.is_stream) {
    Object choice;
    choice.Set("finish_reason", reason)
        .Set("index", CountValue(index))
        .Set("message", ChatMessageOf(answer.parsed()));
    if (!own.probs.empty()) choice.Set("logprobs", LogprobsOf(std::move(own.probs)));
    own.whole = choice.Take();
    co_return std::string();
  }
  std::string chunks = RoleChunk(index);
  Object last = Chunk(index, Object().Take(), reason, std::exchange(own.probs, {}));
  if (!fields_.has_usage) last.Set("timings", TimingsOf(end)).Set("cache", CacheOf(end.cache));
  if (fields_.is_verbose) last.Set("__verbose", Verbose(index, answer));
  chunks += DataEvent(last.Take());
  if (is_last && fields_.has_usage) {
    Object usage = reply_.With(Value::List({}), kChunk);
    usage.Set("usage", usage_.ToValue());
    SetNumbers(usage);
    chunks += DataEvent(usage.Take());
  }
  co_return chunks;
}

std::string OpenAiChatWriter::Last() const { return "data: [DONE]\n\n"; }

Value OpenAiChatWriter::Whole() {
  std::vector<Value> choices;
  for (const Choice& choice : choices_) choices.push_back(choice.whole);
  Object reply = reply_.With(Value::List(std::move(choices)), "chat.completion");
  reply.Set("usage", usage_.ToValue());
  if (!verbose_.is_missing()) reply.Set("__verbose", verbose_);
  SetNumbers(reply);
  return reply.Take();
}

}  // namespace kvd::http
