#include "http/answer/answer_count.h"

#include <algorithm>

namespace kvd::http {

void AnswerCount::BeginAgain(const LoggedStart& start) {
  end_.slot = start.slot;
  end_.prompt_tokens = start.prompt_tokens;
  end_.cached_tokens = start.cached_tokens;
  end_.cache = start.cache;
  has_counted_prompt_ = start.has_counted_prompt;
}

void AnswerCount::StartOver() {
  end_.predicted_tokens = 0;
  end_.is_truncated = false;
}

void AnswerCount::TakePiece(const AnswerPiece& piece, std::uint32_t cells) {
  end_.predicted_tokens += static_cast<std::uint32_t>(piece.tokens.size());
  Metrics& metrics = tenant_.metrics();
  ++metrics.pieces;
  metrics.busy_at_pieces += tenant_.slots().busy_count();
  metrics.tokens_max = std::max<std::uint64_t>(metrics.tokens_max, cells);
}

void AnswerCount::CountPrompt(const wire::GenerateResult& result, std::uint32_t first,
                              bool is_branch, bool is_logged) {
  // The first answer behind a ForkContext is charged with the context's tokens, which the metrics
  // have counted.
  const bool is_charged = is_branch && end_.cached_tokens < first;
  const std::uint32_t computed =
      result.prompt_computed + (is_charged ? first - end_.cached_tokens : 0);
  end_.cached_tokens = end_.prompt_tokens - std::min(computed, end_.prompt_tokens);
  end_.cache.reused = end_.cached_tokens;
  if (!is_logged && !is_charged) tenant_.metrics().prompt_tokens_cached += end_.cached_tokens;
  if (result.prompt_shared != 0) {
    end_.cache.source = PrefixOriginName(static_cast<PrefixOrigin>(result.shared_origin));
    end_.cache.limit = PrefixLimitName(static_cast<PrefixLimit>(result.share_limit));
  }
  if (end_.cached_tokens + 1 == end_.prompt_tokens) {
    end_.cache.limit = PrefixLimitName(PrefixLimit::kComplete);
    end_.cache.prompt_text.clear();
    end_.cache.cached_text.clear();
  }
}

void AnswerCount::TakeResult(const wire::GenerateResult& result, std::uint32_t first,
                             bool is_branch, bool is_logged) {
  Metrics& metrics = tenant_.metrics();
  const std::chrono::nanoseconds prompt_time(result.prompt_ns);
  const std::chrono::nanoseconds predict_time(result.predict_ns);
  if (!is_logged) {
    metrics.prompt_time += prompt_time;
    metrics.predict_time += predict_time;
    metrics.prompt_tokens_computed += result.prompt_computed;
    metrics.predicted_tokens += result.predicted;
  }
  // The prompts of later generations are tokens of the answer.
  (has_counted_prompt_ ? end_.predict_time : end_.prompt_time) += prompt_time;
  end_.predict_time += predict_time;
  if (has_counted_prompt_) return;
  has_counted_prompt_ = true;
  CountPrompt(result, first, is_branch, is_logged);
}

}  // namespace kvd::http
