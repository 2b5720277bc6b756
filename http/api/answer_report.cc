#include "http/api/answer_report.h"

#include "http/api/json_text.h"

namespace kvd::http {
namespace {

double Milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

Value TimingsOf(const AnswerEnd& end) {
  const double prompt_count = end.prompt_tokens - end.cached_tokens;
  const double prompt_ms = Milliseconds(end.prompt_time);
  const double further_count = end.predicted_tokens > 1 ? end.predicted_tokens - 1 : 0;
  const double predicted_ms = Milliseconds(end.predict_time);
  return Object()
      .Set("cache_n", CountValue(end.cached_tokens))
      .Set("prompt_n", CountValue(end.prompt_tokens - end.cached_tokens))
      .Set("prompt_ms", NumberValue(prompt_ms))
      .Set("prompt_per_token_ms", NumberValue(Ratio(prompt_ms, prompt_count)))
      .Set("prompt_per_second", NumberValue(1000 * Ratio(prompt_count, prompt_ms)))
      .Set("predicted_n", CountValue(end.predicted_tokens))
      .Set("predicted_ms", NumberValue(predicted_ms))
      .Set("predicted_per_token_ms", NumberValue(Ratio(predicted_ms, further_count)))
      .Set("predicted_per_second", NumberValue(1000 * Ratio(further_count, predicted_ms)))
      .Take();
}

void Usage::Add(const AnswerEnd& end, bool is_same_prompt) {
  completion_ += end.predicted_tokens;
  if (is_same_prompt) return;
  prompt_ += end.prompt_tokens;
  cached_ += end.cached_tokens;
}

Value Usage::ToValue() const {
  return Object()
      .Set("completion_tokens", CountValue(completion_))
      .Set("prompt_tokens", CountValue(prompt_))
      .Set("total_tokens", CountValue(completion_ + prompt_))
      .Set("prompt_tokens_details", Object().Set("cached_tokens", CountValue(cached_)).Take())
      .Take();
}

Value CacheOf(const CacheReport& cache) {
  return Object()
      .Set("reused", CountValue(cache.reused))
      .Set("source", cache.source)
      .Set("limit", cache.limit)
      .Set("prompt_text", cache.prompt_text)
      .Set("cached_text", cache.cached_text)
      .Take();
}

std::string_view StopTypeName(StopType type) {
  switch (type) {
    case StopType::kEos: return "eos";
    case StopType::kLimit: return "limit";
    case StopType::kWord: return "word";
    default: return "none";
  }
}

Value AnswerProgress::PromptProgress(const AnswerEnd& end, std::uint64_t done,
                                     std::uint64_t total) {
  last_done_ = done;
  const std::chrono::duration<double, std::milli> time = Clock::now() - begun_;
  return Object()
      .Set("total", CountValue(total))
      .Set("cache", CountValue(end.cached_tokens))
      .Set("processed", CountValue(done))
      .Set("time_ms", Value::Int(static_cast<std::int64_t>(time.count())))
      .Take();
}

void AnswerProgress::Count(std::size_t token_count) {
  if (token_count_ == 0 && token_count != 0) first_token_ = Clock::now();
  token_count_ += static_cast<std::uint32_t>(token_count);
}

Value AnswerProgress::PromptTimings(const AnswerEnd& end, std::uint64_t done) const {
  AnswerEnd so_far = end;
  so_far.prompt_tokens = static_cast<std::uint32_t>(done);
  so_far.cached_tokens = std::min(end.cached_tokens, so_far.prompt_tokens);
  so_far.predicted_tokens = 0;
  so_far.prompt_time = has_reported() ? Clock::now() - begun_ : Clock::duration(0);
  so_far.predict_time = Clock::duration(0);
  return TimingsOf(so_far);
}

Value AnswerProgress::TimingsSoFar(const AnswerEnd& end) const {
  AnswerEnd so_far = end;
  so_far.predicted_tokens = token_count_;
  so_far.prompt_time = first_token_ - begun_;
  so_far.predict_time = Clock::now() - first_token_;
  return TimingsOf(so_far);
}

}  // namespace kvd::http
