// The replies of OpenAI's Responses: the response object, its items, and the events of a stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http/answer/chat_answer.h"
#include "text/value.h"

namespace kvd::http {

// What a response has from its beginning.
struct ResponseBegin {
  std::string id;  // "resp_..."
  std::int64_t created_unix_s = 0;
  std::string model;
  Value body;               // the request, a dict: members that the response repeats
  std::uint64_t nonce = 0;  // the ids of its items are made from it
};

// The id of the item with a number in the output: "msg_...", "rs_..." or "fc_...".
std::string ItemId(const ResponseBegin& begin, std::string_view kind, std::size_t number);

// The response while it is made ("queued", "in_progress"), or after it has failed or was cancelled.
Value UnfinishedResponse(const ResponseBegin& begin, std::string_view status,
                         std::string_view error_code = {}, std::string_view error_message = {});
// The items of the answer so far: reasoning, message, calls.
std::vector<Value> OutputOf(const ResponseBegin& begin, const ParsedAnswer& parsed,
                            std::string_view status);
// The whole response. REQUIRES: the answer has ended.
Value ResponseOf(const ResponseBegin& begin, const ChatAnswer& answer);

// Makes the events of a stream, each with the next sequence_number.
class ResponsesWriter {
 public:
  explicit ResponsesWriter(const ResponseBegin& begin) : begin_(begin) {}

  // response.created and response.in_progress.
  std::string Begin();
  // `extra` (a dict or missing): members that the events of a delta get, such as timings.
  std::string Take(const std::vector<AnswerEvent>& events, const Value& extra);
  // response.in_progress with prompt_progress.
  std::string Progress(const Value& progress);
  // The end of the open item, and response.completed. `timings`: a dict or missing.
  std::string Finish(const ChatAnswer& answer, const Value& timings);
  // response.failed.
  std::string Failed(std::string_view code, std::string_view message);

 private:
  enum class Open : std::uint8_t { kNone, kReasoning, kMessage, kCall };

  std::string Event(std::string_view type,
                    std::initializer_list<std::pair<std::string_view, Value>> members,
                    const Value& extra = {});
  std::string OpenItem(Open kind, std::string_view name, std::string_view call_id);
  std::string CloseItem(std::string_view status);
  Value Item(std::string_view status) const;
  std::string id() const;

  const ResponseBegin& begin_;
  std::uint64_t sequence_number_ = 0;
  Open open_ = Open::kNone;
  std::size_t number_ = 0;  // of the open item, or of the next one
  std::string text_;        // of the open item: content, reasoning or arguments
  std::string name_;        // of the open call
  std::string call_id_;
};

}  // namespace kvd::http
