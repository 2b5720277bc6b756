// The numbers of an answer, as replies show them: timings, usage, progress, and the cache.
#pragma once

#include <chrono>
#include <cstdint>

#include "http/answer/answer.h"
#include "text/value.h"

namespace kvd::http {

// llama-server's timings. Rates of prediction count the tokens after the first one, which the
// prompt's computation yields. All numbers are finite.
Value TimingsOf(const AnswerEnd& end);

// OpenAI's usage, of one or more answers to the same prompt or to several ones.
class Usage {
 public:
  // `is_same_prompt`: the prompt of this answer was counted with an earlier one.
  void Add(const AnswerEnd& end, bool is_same_prompt);
  Value ToValue() const;

 private:
  std::uint64_t prompt_ = 0;
  std::uint64_t cached_ = 0;
  std::uint64_t completion_ = 0;
};

// {reused, source, limit, prompt_text, cached_text}
Value CacheOf(const CacheReport& cache);

// "eos", "limit", "word" or "none"
std::string_view StopTypeName(StopType type);

// Follows one answer that is being written, for the members of its events.
class AnswerProgress {
 public:
  using Clock = std::chrono::steady_clock;

  // prompt_progress: {total, cache, processed, time_ms}.
  Value PromptProgress(const AnswerEnd& end, std::uint64_t done, std::uint64_t total);
  // Whether progress of `done` tokens is news.
  bool IsNews(std::uint64_t done) const { return !last_done_ || done > *last_done_; }
  bool has_reported() const { return last_done_.has_value(); }

  // The timings while the prompt is computed: `done` of its tokens are, with the cached ones. Of
  // the first report, before PromptProgress: no time has passed.
  Value PromptTimings(const AnswerEnd& end, std::uint64_t done) const;

  // Tokens have come.
  void Count(std::size_t token_count);
  std::uint32_t token_count() const { return token_count_; }
  // The timings so far.
  Value TimingsSoFar(const AnswerEnd& end) const;

 private:
  Clock::time_point begun_ = Clock::now();
  Clock::time_point first_token_{};
  std::uint32_t token_count_ = 0;
  std::optional<std::uint64_t> last_done_;
};

}  // namespace kvd::http
