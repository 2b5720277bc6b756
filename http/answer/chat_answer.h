// ChatAnswer: an Answer to a chat, divided into reasoning, content and calls while it is written.
//
//   for (;;) {
//     auto piece = co_await answer.Next();
//     if (!piece) ...error...
//     if (!*piece) break;
//     for (const AnswerEvent& event : (*piece)->events) Show(event);
//   }
//   Report(answer.parsed(), answer.end(), answer.finish());
//
// The events of an answer have the reasoning format applied: with ReasoningFormat::kNone reasoning
// is content, between its tags; with kDeepseekLegacy it is reasoning and content. They are never
// empty texts. Destroying a ChatAnswer cancels it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/answer/chat_plan.h"
#include "http/answer/tenant_session.h"
#include "http/loop/await.h"
#include "text/tool_calls/answer_parser.h"

namespace kvd::http {

// A piece whose text is divided into events; the text itself is empty.
struct ChatPiece : AnswerPiece {
  std::vector<AnswerEvent> events;  // may be empty
};

enum class ChatFinish : std::uint8_t {
  kStop,    // the model ended its answer, or a stop text came (end().stop_type tells which)
  kLength,  // a limit
  kCalls,   // the answer has calls
};

class ChatAnswer {
 public:
  // Starts `count` answers, whose prompt is computed once. Errors: those of Answer::StartMany.
  static Await<Result<std::vector<std::unique_ptr<ChatAnswer>>>> Start(TenantSession& tenant,
                                                                       const ChatPlan& plan,
                                                                       std::uint32_t count = 1);

  // Waits for the next piece; nullopt: the answer has ended. Errors: those of Answer::Next.
  Await<Result<std::optional<ChatPiece>>> Next();
  // Waits for the end. Errors: those of Next.
  Await<Status> Finish();
  void Cancel() { answer_->Cancel(); }

  // The sum of all events so far.
  const ParsedAnswer& parsed() const { return parsed_; }
  const std::string& text() const { return text_; }  // as the model wrote it
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const AnswerEnd& end() const { return answer_->end(); }
  const Answer& answer() const { return *answer_; }
  // REQUIRES: the answer has ended.
  ChatFinish finish() const;

 private:
  ChatAnswer(std::string eos_text, const ChatPlan& plan, std::unique_ptr<Answer> answer,
             std::uint64_t id_seed);

  Await<Status> RemoveEndToken();
  void NoteConversation();
  void Feed(std::string_view text, std::vector<AnswerEvent>& events);
  // Applies the reasoning format.
  void Emit(std::vector<AnswerEvent> parsed, std::vector<AnswerEvent>& events);

  std::unique_ptr<Answer> answer_;
  AnswerParser parser_;
  ReasoningTags tags_;
  ReasoningFormat reasoning_format_;
  bool shows_special_;
  std::string eos_text_;
  bool is_over_ = false;
  // kDeepseekLegacy: the content has the tag that opens reasoning, and not the one that closes it.
  bool is_in_reasoning_ = false;
  std::string held_;  // text that may end with an end token, not yet fed to the parser
  ParsedAnswer parsed_;
  std::string text_;
  std::vector<TokenId> tokens_;
  // For the conversation of the request, if there is one.
  Value messages_;
  Value tools_;
};

}  // namespace kvd::http
