#include "kvctl/chat_prompt.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/whole_file.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "text/chat/chat_formatter.h"
#include "text/json.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

Result<std::string> FileText(const std::string& path) {
  KVD_TRY(const std::vector<std::byte> bytes, ReadWholeFile(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Value Message(std::string_view role, std::string_view content) {
  Dict message;
  message.Set("role", Value::String(std::string(role)));
  message.Set("content", Value::String(std::string(content)));
  return Value::Of(std::move(message));
}

Result<ChatRequest> RequestOf(const ChatOptions& options) {
  if (options.messages_path.empty()) return ChatRequest();
  KVD_TRY(const std::string text, FileText(options.messages_path));
  auto request = ParseChatRequest(text);
  if (!request) return FailWithin(options.messages_path, request.error());
  return request;
}

// The messages of the file between those of the command line.
Result<Value> MessagesOf(const Value& of_file, const ChatOptions& options,
                         const std::optional<std::string>& prompt, ChatEnd end) {
  std::vector<Value> messages;
  if (!options.system.empty()) messages.push_back(Message("system", options.system));
  if (of_file.is_list()) {
    messages.insert(messages.end(), of_file.items().begin(), of_file.items().end());
  }
  std::string user = prompt.value_or("");
  const bool needs_user = of_file.is_undefined() && end == ChatEnd::kAnswer;
  if (!prompt && needs_user) {
    KVD_TRY(user, ReadStandardInput());
  }
  if (!user.empty()) {
    messages.push_back(Message("user", user));
  } else if (prompt || needs_user) {
    return Fail(Code::kInvalidArgument, "prompt: empty");
  }
  if (!options.prefill.empty()) messages.push_back(Message("assistant", options.prefill));
  return Value::List(std::move(messages));
}

Status SetFromFiles(const ChatOptions& options, ChatRequest& request) {
  if (!options.tools_path.empty()) {
    KVD_TRY(const std::string text, FileText(options.tools_path));
    auto tools = ParseJson(text);
    if (!tools) return FailWithin(options.tools_path, tools.error());
    request.tools = std::move(*tools);
  }
  if (!options.variables.empty()) {
    auto variables = ParseJson(options.variables);
    if (!variables) return FailWithin("--chat-template-kwargs", variables.error());
    if (!variables->is_dict()) {
      return Fail(Code::kInvalidArgument, "--chat-template-kwargs: not a JSON object");
    }
    request.variables = std::move(*variables);
  }
  if (options.chat_template.empty()) return {};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.chat_template, ignored)) {
    request.chat_template = options.chat_template;
    return {};
  }
  KVD_TRY(request.chat_template, FileText(options.chat_template));
  return {};
}

}  // namespace

Result<ChatPrompt> MakeChatPrompt(const ChatTexts& texts, const ChatOptions& options,
                                  const std::optional<std::string>& prompt, ChatEnd end) {
  KVD_TRY(ChatRequest request, RequestOf(options));
  KVD_TRY(request.messages, MessagesOf(request.messages, options, prompt, end));
  if (end == ChatEnd::kContext) request.add_generation_prompt = false;
  KVD_CHECK_OK(SetFromFiles(options, request));
  if (!options.thinking.empty()) request.enable_thinking = options.thinking == "on";
  if (!options.prefill.empty()) request.continue_final_message = true;
  KVD_CHECK_OK(CheckChatRequest(request));
  KVD_TRY(const ChatFormatter formatter,
          ChatFormatter::Create(texts, request.chat_template, !request.tools.is_none()));
  if (formatter.is_fallback()) {
    std::fputs("kvctl: the model has no chat template; the chat is formatted as ChatML\n", stderr);
  }
  KVD_TRY(std::string text, formatter.Format(request));
  return ChatPrompt{.text = std::move(text),
                    .tools = std::move(request.tools),
                    .chat_template = formatter.source()};
}

Result<std::vector<TokenId>> ChatTokens(const Client& client, const ChatTexts& texts,
                                        std::string text, bool is_new_sequence) {
  const std::string* bos = texts.FindToken("bos");
  const bool begins_with_bos = bos != nullptr && !bos->empty() && text.starts_with(*bos);
  if (begins_with_bos && !is_new_sequence) text.erase(0, bos->size());
  KVD_TRY(std::vector<TokenId> tokens, client.Tokenize(text, wire::kFlagParseSpecial));
  if (!is_new_sequence || begins_with_bos) return tokens;
  KVD_TRY(const wire::InfoReply info, client.Info());
  if (info.adds_bos != 0) tokens.insert(tokens.begin(), info.bos_token);
  return tokens;
}

// kvctl chat: shows the text that the chat template makes of a chat. kvctl template: shows the
// model's template.

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
