// Parses any bytes as the payload of a chat and renders the chat with every chat template; or
// recognises and renders any text as a chat template.
//
// If the first byte is below 0x80, the rest of the input is a payload; otherwise it is the text of
// a template. Oracle: the parser accepts the payloads that tests/fuzz/submission_oracle.h accepts.
// A template renders a chat of known roles with the content of every message in order (not checked
// for Gemma's template) and at most 128 more bytes per message. An unknown template is refused with
// kUnsupported. Seeds: make_chat_corpus DIRECTORY.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/vocabulary/chat_template.h"
#include "tests/fuzz/parse_payload.h"
#include "tests/fuzz/submission_oracle.h"

namespace {

using namespace kvd;

constexpr ChatTemplate kLast = ChatTemplate::kNotebook;
constexpr std::size_t kFrameBytesMax = 128;  // bytes that a template adds to one message

// Returns the text without the white space at its ends, which a template may remove.
std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool IsKnownRole(std::string_view role) {
  return role == "system" || role == "user" || role == "assistant";
}

void CheckApplied(ChatTemplate kind, std::span<const ChatMessage> messages, bool add_assistant) {
  const Result<std::string> text = ApplyChatTemplate(kind, messages, add_assistant);
  const bool is_good =
      !messages.empty() && std::ranges::all_of(messages, IsKnownRole, &ChatMessage::role);
  if (!is_good || kind == ChatTemplate::kUnknown) {
    KVD_ASSERT(!text &&
               text.error().code == (is_good ? Code::kUnsupported : Code::kInvalidArgument));
    return;
  }
  KVD_ASSERT(text.has_value());
  std::size_t content_bytes = 0;
  std::size_t at = 0;
  // Gemma's template joins the system's text to the next message of the user. If no message of the
  // user follows, the text is lost.
  const bool keeps_all = kind != ChatTemplate::kGemma || messages.back().role == "user";
  for (const ChatMessage& message : messages) {
    content_bytes += message.content.size();
    const std::string_view content = Trimmed(message.content);
    if (!keeps_all || kind == ChatTemplate::kGemma) continue;
    const std::size_t found = text->find(content, at);
    KVD_ASSERT(found != std::string::npos);
    at = found + content.size();
  }
  KVD_ASSERT(text->size() <= content_bytes + (messages.size() + 1) * kFrameBytesMax);
}

void CheckPayload(std::span<const std::byte> payload, bool add_assistant) {
  const auto turns = wire::ParseChat(payload);
  KVD_ASSERT(turns.has_value() == test::IsValidPayload(wire::PayloadKind::kChat, payload, 0));
  std::vector<ChatMessage> messages;
  if (turns) {
    for (const wire::OwnedChatTurn& turn : *turns) messages.push_back({turn.role, turn.content});
  }
  for (int kind = 0; kind <= static_cast<int>(kLast); ++kind) {
    CheckApplied(static_cast<ChatTemplate>(kind), messages, add_assistant);
  }
}

void CheckTemplate(std::string_view text, bool add_assistant) {
  const ChatTemplate kind = RecogniseChatTemplate(text);
  KVD_ASSERT(kind <= kLast);
  KVD_ASSERT((ChatTemplateName(kind) == "unknown") == (kind == ChatTemplate::kUnknown));
  const std::vector<ChatMessage> messages = {{"system", "A"}, {"user", "B"}, {"assistant", "C"}};
  const auto applied = ApplyChatTemplateText(text, messages, add_assistant, "</s>");
  KVD_ASSERT(applied.has_value() == (kind != ChatTemplate::kUnknown));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  if (byte_count == 0) return 0;
  const bool add_assistant = (data[0] & 1) != 0;
  // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
  const std::vector<char> rest(data + 1, data + byte_count);
  if (data[0] < 0x80) {
    CheckPayload(std::as_bytes(std::span(rest)), add_assistant);
  } else {
    CheckTemplate({rest.data(), rest.size()}, add_assistant);
  }
  return 0;
}
