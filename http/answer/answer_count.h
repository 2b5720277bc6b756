// AnswerCount: the numbers of one answer, and what it adds to those of its tenant.
//
// The pieces of a journal count as those of the daemon; the results of a journal, which the metrics
// of an earlier process have counted, do not count again.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "http/answer/answer_journal.h"
#include "http/answer/cache_report.h"
#include "http/answer/tenant_session.h"
#include "http/backend/answer_piece.h"

namespace kvd::http {

enum class StopType : std::uint8_t {
  kNone,   // not ended
  kEos,    // an end token, or the grammar's end
  kLimit,  // predict_max, the end of the context, or predict_time_max
  kWord,   // a stop text
};

struct AnswerEnd {
  StopType stop_type = StopType::kNone;
  std::string stopping_word;  // with kWord
  bool is_truncated = false;  // the context was full, or was shifted
  bool ended_by_grammar = false;
  std::uint32_t prompt_tokens = 0;  // of the whole prompt, with those of its context
  // Of them, not computed; expected until the answer has ended.
  std::uint32_t cached_tokens = 0;
  std::uint32_t predicted_tokens = 0;
  std::chrono::nanoseconds prompt_time{0};
  std::chrono::nanoseconds predict_time{0};
  std::uint32_t seed = 0;
  std::uint32_t slot = 0;  // of a branch: the number of the answer among its branches
  CacheReport cache;
};

class AnswerCount {
 public:
  explicit AnswerCount(TenantSession& tenant) : tenant_(tenant) {}

  AnswerEnd& end() { return end_; }
  const AnswerEnd& end() const { return end_; }
  // end().cached_tokens is exact.
  bool has_counted_prompt() const { return has_counted_prompt_; }

  // Takes the numbers of an answer that an earlier process has begun.
  void BeginAgain(const LoggedStart& start);
  // The answer is computed again from its prompt.
  void StartOver();
  // `cells`: of the answer's sequence, with the piece.
  void TakePiece(const AnswerPiece& piece, std::uint32_t cells);
  // A generation that began at the token `first` of the prompt has ended. `is_logged`: in an
  // earlier process, or in this one if that began it.
  void TakeResult(const wire::GenerateResult& result, std::uint32_t first, bool is_branch,
                  bool is_logged);

 private:
  void CountPrompt(const wire::GenerateResult& result, std::uint32_t first, bool is_branch,
                   bool is_logged);

  TenantSession& tenant_;
  AnswerEnd end_;
  bool has_counted_prompt_ = false;
};

}  // namespace kvd::http
