// Converts the answer of kChatTemplates to the texts that formatting needs.
#include <string>

#include "client/client.h"
#include "shm/payload_codec.h"

namespace kvd {

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
