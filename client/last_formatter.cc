#include "client/last_formatter.h"

#include <utility>

#include "client/client.h"

namespace kvd {

Result<std::shared_ptr<const ChatFormatter>> LastFormatter::Get(
    const wire::ChatTemplatesReply& reply, const ChatRequest& request) {
  const bool has_tools = !request.tools.is_none();
  if (formatter_ != nullptr && records_ == reply.records && choice_ == request.chat_template &&
      has_tools_ == has_tools) {
    return formatter_;
  }
  KVD_TRY(const ChatTexts texts, ChatTextsFrom(reply));
  KVD_TRY(ChatFormatter made, ChatFormatter::Create(texts, request.chat_template, has_tools));
  formatter_ = std::make_shared<const ChatFormatter>(std::move(made));
  records_ = reply.records;
  choice_ = request.chat_template;
  has_tools_ = has_tools;
  return formatter_;
}

}  // namespace kvd
