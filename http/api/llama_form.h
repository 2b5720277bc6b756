// The replies of llama-server's own completions (POST /completion, /infill): one object for each
// answer, or a stream of such objects.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/answer/model.h"
#include "http/api/answer_report.h"
#include "http/api/line_indent.h"
#include "http/api/reply_fields.h"
#include "http/api/token_probs.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

// What a whole reply shows of an answer, besides its numbers.
struct LlamaAnswer {
  std::size_t index = 0;
  std::string prompt;
  std::string content;
  std::vector<TokenId> tokens;
  std::vector<Value> probs;
};

// The object of an answer that has ended. `fields` decide whether it has tokens.
Value LlamaReply(const Model& model, const AnswerRequest& request, const ReplyFields& fields,
                 const AnswerEnd& end, LlamaAnswer answer);

class LlamaForm {
 public:
  // `model` and `fields` outlive the form. `answer_count`: of all prompts together.
  LlamaForm(const Model& model, const ReplyFields& fields, std::shared_ptr<DaemonSession> session,
            std::size_t answer_count);

  // Called when an answer is to end before the model ends it.
  void OnEndEarly(std::function<void(std::size_t index)> call) { end_early_ = std::move(call); }
  // The text of the prompt of an answer, for its reply.
  void SetPromptText(std::size_t index, std::string text);

  // See api/answer_stream.h.
  Await<Result<std::string>> Take(std::size_t index, const Answer& answer, AnswerPiece piece);
  Await<Result<std::string>> End(std::size_t index, const Answer& answer);
  std::string Last() const { return {}; }
  // A list if there are several answers.
  Value Whole();

 private:
  struct Progress {
    AnswerProgress progress;
    LineIndent indent;
    LlamaAnswer answer;
    bool has_new_line = false;
    Value reply;  // when the answer has ended
  };

  std::string ProgressEvents(std::size_t index, const Answer& answer, const AnswerPiece& piece);
  Value PartOf(std::size_t index, const Answer& answer, std::string text,
               std::vector<TokenId> tokens) const;
  Value EndOf(std::size_t index, const Answer& answer);
  Value Filtered(Value reply) const;

  const Model& model_;
  const ReplyFields& fields_;
  TokenProbs probs_;
  std::vector<Progress> answers_;
  std::function<void(std::size_t)> end_early_;
};

}  // namespace kvd::http
