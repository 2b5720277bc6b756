#include "client/chat_templates.h"

#include <string>
#include <utility>

#include "client/client.h"
#include "shm/payload_codec.h"

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

// Converts the answer of kChatTemplates to the texts that formatting needs.

Result<ChatTexts> ChatTextsFrom(const wire::ChatTemplatesReply& reply) {
  const auto records = wire::ParseChatTexts(reply.records);
  if (!records) return Fail(Code::kCorrupt, "chat_templates: ", records.error().message);
  ChatTexts texts;
  for (const wire::ChatTextView& record : *records) {
    auto& list = record.kind == wire::ChatTextKind::kTemplate ? texts.templates : texts.tokens;
    list.emplace_back(record.name, record.text);
  }
  return texts;
}

}  // namespace kvd
