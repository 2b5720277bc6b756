// kvctl chat: shows the text that the chat template makes of a chat. kvctl template: shows the
// model's template.
#include <cstdio>
#include <optional>
#include <string>

#include "client/client.h"
#include "kvctl/chat_prompt.h"
#include "kvctl/commands.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

void PrintText(const GlobalOptions& global, const std::string& text) {
  if (global.wants_json) {
    std::puts(Json::Object().Set("text", text).Text().c_str());
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

}  // namespace

Status FormatChat(const GlobalOptions& global, const TextOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const ChatTexts texts, client.ChatTemplates());
  const std::optional<std::string> prompt =
      options.has_text ? std::optional(options.text) : std::nullopt;
  KVD_TRY(const ChatPrompt chat, MakeChatPrompt(texts, options.chat, prompt));
  PrintText(global, chat.text);
  return {};
}

Status ShowTemplate(const GlobalOptions& global, const TextOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const ChatTexts texts, client.ChatTemplates());
  const std::string* found = texts.FindTemplate(options.text);
  if (found == nullptr && options.text.empty()) {
    return Fail(Code::kNotFound, "the model has no chat template");
  }
  if (found == nullptr) {
    return Fail(Code::kNotFound, "the model has no chat template named '", options.text, "'");
  }
  PrintText(global, *found);
  return {};
}

}  // namespace kvd::kvctl
