// The members that all of OpenAI's replies and events of completions have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/answer/answer.h"
#include "http/answer/served_model.h"
#include "http/api/json_text.h"
#include "http/serve/request.h"
#include "text/value.h"

namespace kvd::http {

struct OpenAiMembers {
  OpenAiMembers(const ServedModel& model, const Request& request);

  // `object`: "chat.completion", ... Returns
  // {"choices", "created", "id", "model", "system_fingerprint", "object"}
  Object With(Value choices, std::string_view object) const;

  std::string id;  // "chatcmpl-..."
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;  // begins with "b", as llama-server's does
};

// "stop" or "length".
std::string_view FinishReason(const AnswerEnd& end);

// 24 letters and digits made from a number.
std::string IdText(std::uint64_t nonce);

}  // namespace kvd::http
