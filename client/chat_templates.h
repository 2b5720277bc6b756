// The chat templates of a daemon: their texts, and the formatter of the last chat.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "shm/verb_table.h"
#include "text/chat/chat_formatter.h"

namespace kvd {

// LastFormatter: keeps the formatter of the last chat of a client, because parsing a template takes
// longer than rendering a short chat. The client guards it with a mutex.
class LastFormatter {
 public:
  // Returns the formatter for the daemon's answer and the request's template; makes it if the last
  // call had another answer or another request. Errors: those of ChatFormatter::Create, and
  // kCorrupt (the answer).
  Result<std::shared_ptr<const ChatFormatter>> Get(const wire::ChatTemplatesReply& reply,
                                                   const ChatRequest& request);

 private:
  std::vector<std::byte> records_;
  std::string choice_;
  bool has_tools_ = false;
  std::shared_ptr<const ChatFormatter> formatter_;
};

}  // namespace kvd
