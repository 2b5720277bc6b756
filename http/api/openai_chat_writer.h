// The replies of OpenAI's chat completions: a whole reply with its choices, or a stream of chunks.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/chat_answer.h"
#include "http/answer/chat_plan.h"
#include "http/answer/served_model.h"
#include "http/api/answer_report.h"
#include "http/api/openai_members.h"
#include "http/api/reply_fields.h"
#include "http/api/token_probs.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

// The delta of an event; missing: the event has none.
Value DeltaOf(const AnswerEvent& event);
// {role, content, reasoning_content, tool_calls}
Value ChatMessageOf(const ParsedAnswer& parsed);

class OpenAiChatWriter {
 public:
  // `model` and `fields` outlive the writer. `prompts`: one text for each prompt, for __verbose.
  OpenAiChatWriter(const ServedModel& model, const ReplyFields& fields, const Request& request,
                   std::shared_ptr<DaemonSession> session, std::vector<std::string> prompts);

  // See api/answer_stream.h.
  Await<Result<std::string>> Take(std::size_t index, const ChatAnswer& answer, ChatPiece piece);
  Await<Result<std::string>> End(std::size_t index, const ChatAnswer& answer);
  std::string Last() const;
  Value Whole();

 private:
  struct Choice {
    AnswerProgress progress;
    bool has_role = false;     // a chunk has named the role
    std::vector<Value> probs;  // not yet sent
    Value whole;               // when the answer has ended
  };

  Object Chunk(std::size_t index, Value delta, const char* finish_reason,
               std::vector<Value> probs = {}) const;
  std::string RoleChunk(std::size_t index);
  std::string ProgressChunks(std::size_t index, const AnswerEnd& end, const ChatPiece& piece);
  std::string EventChunks(std::size_t index, const ChatAnswer& answer,
                          const std::vector<AnswerEvent>& events);
  Value Verbose(std::size_t index, const ChatAnswer& answer) const;
  void SetNumbers(Object& reply) const;

  const ServedModel& model_;
  const ReplyFields& fields_;
  const OpenAiMembers reply_;
  const std::vector<std::string> prompts_;
  TokenProbs probs_;
  std::vector<Choice> choices_;
  // Of the answers that have ended.
  Usage usage_;
  std::size_t ended_ = 0;
  Value timings_;  // of the first one
  Value cache_;
  Value verbose_;
};

}  // namespace kvd::http
