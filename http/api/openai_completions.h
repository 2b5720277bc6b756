// OpenAI's completions: the writer of replies, and the route.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/answer/served_model.h"
#include "http/api/answer_report.h"
#include "http/api/openai_members.h"
#include "http/api/reply_fields.h"
#include "http/api/token_probs.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

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

}  // namespace kvd::http
