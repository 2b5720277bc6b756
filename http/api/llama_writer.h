// The writer of llama-server's own replies, and the end of a text by its indentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/answer/served_model.h"
#include "http/api/answer_report.h"
#include "http/api/reply_fields.h"
#include "http/api/token_probs.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

// LineIndent: ends a text at the first line that is indented less than a number of spaces
// (llama-server's n_indent), so that the completion of a block of code ends with the block.
class LineIndent {
 public:
  LineIndent() = default;
  // 0: no line ends the text.
  explicit LineIndent(std::uint32_t spaces) : spaces_(spaces) {}

  // Returns how much of the text, which continues the earlier ones, belongs to the result. The
  // first line of all has any indentation.
  std::size_t Take(const std::string& text);
  bool is_over() const { return is_over_; }

 private:
  std::uint32_t spaces_ = 0;
  bool is_at_start_ = false;  // of a line: only spaces came since its beginning
  std::uint32_t seen_ = 0;
  bool is_over_ = false;
};

// The replies of llama-server's own completions (POST /completion, /infill): one object for each
// answer, or a stream of such objects.

// What a whole reply shows of an answer, besides its numbers.
struct LlamaAnswer {
  std::size_t index = 0;
  std::string prompt;
  std::string content;
  std::vector<TokenId> tokens;
  std::vector<Value> probs;
};

// The object of an answer that has ended. `fields` decide whether it has tokens.
Value LlamaReply(const ServedModel& model, const AnswerRequest& request, const ReplyFields& fields,
                 const AnswerEnd& end, LlamaAnswer answer);

class LlamaWriter {
 public:
  // `model` and `fields` outlive the writer. `answer_count`: of all prompts together.
  LlamaWriter(const ServedModel& model, const ReplyFields& fields,
              std::shared_ptr<DaemonSession> session, std::size_t answer_count);

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

  const ServedModel& model_;
  const ReplyFields& fields_;
  TokenProbs probs_;
  std::vector<Progress> answers_;
  std::function<void(std::size_t)> end_early_;
};

}  // namespace kvd::http
