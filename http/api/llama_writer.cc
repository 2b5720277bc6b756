#include "http/api/llama_writer.h"

#include <string_view>
#include <utility>

#include "http/api/answer_stream.h"
#include "http/api/generation_settings.h"
#include "http/api/json_text.h"

namespace kvd::http {

std::size_t LineIndent::Take(const std::string& text) {
  if (spaces_ == 0) return text.size();
  for (std::size_t i = 0; i < text.size() && !is_over_; ++i) {
    const char c = text[i];
    if (c == '\n') {
      is_at_start_ = true;
      seen_ = 0;
    } else if (is_at_start_ && (c == ' ' || c == '\t')) {
      ++seen_;
    } else if (is_at_start_) {
      is_at_start_ = false;
      if (seen_ >= spaces_) continue;
      is_over_ = true;
      return i;
    }
  }
  return is_over_ ? 0 : text.size();
}

// The events of a stream have a part of the content each; the last one has everything but the
// content. A reply without a stream has all of it.

namespace {

Value TokensValue(const std::vector<TokenId>& tokens) {
  std::vector<Value> values;
  for (const TokenId token : tokens) values.push_back(Value::Int(token));
  return Value::List(std::move(values));
}

// The member at a path: "timings/prompt_n". Missing if there is none.
Value MemberAt(const Value& object, std::string_view path) {
  Value value = object;
  while (!value.is_missing() && !path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    value = Value(value.dict().Find(path.substr(0, end)));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return value;
}

}  // namespace

Value LlamaReply(const ServedModel& model, const AnswerRequest& request, const ReplyFields& fields,
                 const AnswerEnd& end, LlamaAnswer answer) {
  const std::uint32_t predicted = end.predicted_tokens;
  const bool has_tokens = fields.has_tokens && !fields.is_stream;
  const bool has_new_line = answer.content.find('\n') != std::string::npos;
  Object object;
  object.Set("index", CountValue(answer.index))
      .Set("content", answer.content)
      .Set("tokens", has_tokens ? TokensValue(answer.tokens) : Value::List({}))
      .Set("id_slot", CountValue(end.slot))
      .Set("stop", Value::Bool(true))
      .Set("model", model.id())
      .Set("tokens_predicted", CountValue(predicted))
      .Set("tokens_evaluated", CountValue(end.prompt_tokens))
      .Set("generation_settings", GenerationSettings(model, request, fields, SettingsShown::kAll))
      .Set("prompt", answer.prompt)
      .Set("has_new_line", Value::Bool(has_new_line))
      .Set("truncated", Value::Bool(end.is_truncated))
      .Set("stop_type", StopTypeName(end.stop_type))
      .Set("stopping_word", end.stopping_word)
      .Set("tokens_cached", CountValue(end.prompt_tokens + (predicted > 0 ? predicted - 1 : 0)))
      .Set("timings", TimingsOf(end))
      .Set("cache", CacheOf(end.cache));
  if (!answer.probs.empty()) {
    object.Set("completion_probabilities", Value::List(std::move(answer.probs)));
  }
  return object.Take();
}

LlamaWriter::LlamaWriter(const ServedModel& model, const ReplyFields& fields,
                         std::shared_ptr<DaemonSession> session, std::size_t answer_count)
    : model_(model),
      fields_(fields),
      probs_(std::move(session), fields.has_sampled_probs),
      answers_(answer_count) {
  for (Progress& answer : answers_) answer.indent = LineIndent(fields.indent);
}

void LlamaWriter::SetPromptText(std::size_t index, std::string text) {
  answers_[index].answer.prompt = std::move(text);
}

Value LlamaWriter::PartOf(std::size_t index, const Answer& answer, std::string text,
                          std::vector<TokenId> tokens) const {
  const Progress& own = answers_[index];
  Object object;
  object.Set("index", CountValue(index))
      .Set("content", text)
      .Set("tokens", TokensValue(tokens))
      .Set("stop", Value::Bool(false))
      .Set("id_slot", CountValue(answer.end().slot))
      .Set("tokens_predicted", CountValue(own.progress.token_count()))
      .Set("tokens_evaluated", CountValue(answer.end().prompt_tokens));
  if (fields_.has_timings && own.progress.token_count() != 0) {
    object.Set("timings", own.progress.TimingsSoFar(answer.end()));
  }
  return object.Take();
}

// The first report says what was cached, and the last one says that the prompt is complete.
std::string LlamaWriter::ProgressEvents(std::size_t index, const Answer& answer,
                                        const AnswerPiece& piece) {
  std::string events;
  if (!fields_.has_progress || !fields_.is_stream) return events;
  Progress& own = answers_[index];
  const AnswerEnd& end = answer.end();
  const auto report = [&](std::uint64_t done, std::uint64_t total) {
    if (!own.progress.IsNews(done)) return;
    Dict part = PartOf(index, answer, {}, {}).dict();
    if (fields_.has_timings) part.Set("timings", own.progress.PromptTimings(end, done));
    part.Set("prompt_progress", own.progress.PromptProgress(end, done, total));
    events += DataEvent(Value::Of(std::move(part)));
  };
  if (piece.is_progress) {
    if (!own.progress.has_reported()) report(end.cached_tokens, piece.total);
    report(piece.done, piece.total);
  } else if (own.progress.token_count() == 0) {
    if (!own.progress.has_reported()) report(end.cached_tokens, end.prompt_tokens);
    report(end.prompt_tokens, end.prompt_tokens);
  }
  return events;
}

Await<Result<std::string>> LlamaWriter::Take(std::size_t index, const Answer& answer,
                                             AnswerPiece piece) {
  Progress& own = answers_[index];
  std::string events = ProgressEvents(index, answer, piece);
  if (piece.is_progress || own.indent.is_over()) co_return events;
  own.progress.Count(piece.tokens.size());
  const std::size_t kept_bytes = own.indent.Take(piece.text);
  if (own.indent.is_over()) {
    piece.text.resize(kept_bytes);
    if (end_early_) end_early_(index);
  }
  own.has_new_line = own.has_new_line || piece.text.find('\n') != std::string::npos;
  std::vector<Value> probs;
  if (!piece.logprobs.empty()) {
    const std::uint32_t top_max = fields_.top_count;
    auto drawn =
        ReadDrawnTokens(piece.logprobs, answer.request(), fields_.has_sampled_probs, top_max);
    KVD_CO_CHECK_OK(co_await probs_.Append(std::move(drawn), probs));
  }
  if (!fields_.is_stream) {
    own.answer.content += piece.text;
    own.answer.tokens.insert(own.answer.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    for (Value& prob : probs) own.answer.probs.push_back(std::move(prob));
    co_return events;
  }
  if (piece.text.empty() && piece.tokens.empty()) co_return events;
  // An event has the probabilities of one token.
  std::size_t first = 0;
  for (; probs.size() > 1 && first + 1 < probs.size(); ++first) {
    Dict part = PartOf(index, answer, {}, {piece.tokens[first]}).dict();
    part.Set("completion_probabilities", Value::List({probs[first]}));
    events += DataEvent(Value::Of(std::move(part)));
  }
  std::vector<TokenId> rest(piece.tokens.begin() + static_cast<std::ptrdiff_t>(first),
                            piece.tokens.end());
  Dict part = PartOf(index, answer, std::move(piece.text), std::move(rest)).dict();
  if (!probs.empty()) {
    part.Set("completion_probabilities", Value::List({std::move(probs.back())}));
  }
  events += DataEvent(Value::Of(std::move(part)));
  co_return events;
}

Value LlamaWriter::EndOf(std::size_t index, const Answer& answer) {
  Progress& own = answers_[index];
  own.answer.index = index;
  AnswerEnd end = answer.end();
  if (own.indent.is_over()) {
    end.stop_type = StopType::kLimit;
    end.predicted_tokens = own.progress.token_count();
  }
  Dict reply =
      LlamaReply(model_, answer.request(), fields_, end, std::exchange(own.answer, {})).dict();
  reply.Set("has_new_line", Value::Bool(own.has_new_line));
  return Value::Of(std::move(reply));
}

Value LlamaWriter::Filtered(Value reply) const {
  if (fields_.paths.empty()) return reply;
  Dict filtered;
  for (const std::string& path : fields_.paths) {
    Value member = MemberAt(reply, path);
    if (!member.is_missing()) filtered.Set(path, std::move(member));
  }
  return Value::Of(std::move(filtered));
}

Await<Result<std::string>> LlamaWriter::End(std::size_t index, const Answer& answer) {
  Value reply = Filtered(EndOf(index, answer));
  if (fields_.is_stream) co_return DataEvent(reply);
  answers_[index].reply = std::move(reply);
  co_return std::string();
}

Value LlamaWriter::Whole() {
  if (answers_.size() == 1) return answers_.front().reply;
  std::vector<Value> replies;
  for (const Progress& answer : answers_) replies.push_back(answer.reply);
  return Value::List(std::move(replies));
}

}  // namespace kvd::http
