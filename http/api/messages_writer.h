// The replies of Anthropic's Messages: one message, or the events of a stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/answer/chat_answer.h"
#include "text/value.h"

namespace kvd::http {

// "end_turn", "max_tokens", "stop_sequence" or "tool_use". REQUIRES: the answer has ended.
std::string_view StopReasonOf(const ChatAnswer& answer);

// The whole message. REQUIRES: the answer has ended.
Value MessageOf(const ChatAnswer& answer, const std::string& id, const std::string& model);

// Makes the events of a stream. Blocks of content (thinking, text, tool_use) follow one another,
// each with the next index; a block ends when the next one begins.
class MessagesWriter {
 public:
  MessagesWriter(std::string id, std::string model)
      : id_(std::move(id)), model_(std::move(model)) {}

  // message_start, with what is known of the prompt.
  std::string Begin(const AnswerEnd& end) const;
  std::string Take(const std::vector<AnswerEvent>& events);
  // The end of the last block, message_delta and message_stop.
  std::string Finish(const ChatAnswer& answer);
  static std::string Failed(std::string_view type, std::string_view message);

 private:
  enum class Block : std::uint8_t { kNone, kThinking, kText, kCall };

  std::string Open(Block block, const Value& content);
  std::string Close();
  std::string Delta(const Value& delta) const;

  std::string id_;
  std::string model_;
  Block open_ = Block::kNone;
  std::size_t index_ = 0;  // of the open block, or of the next one
};

}  // namespace kvd::http
