// Each check names the path of the field that is wrong, such as "messages[2].content[0].text".
#include "text/chat/chat_request.h"

#include <array>
#include <utility>
#include <vector>

#include "text/json.h"

namespace kvd {
namespace {

std::unexpected<Error> Bad(std::string_view field, std::string_view problem) {
  return Fail(Code::kInvalidArgument, field, ": ", problem);
}

std::string At(std::string_view list, std::size_t index) { return Concat(list, "[", index, "]"); }

// A field of a JSON object that may be missing or null. Both mean "not given".
const Value& Given(const Dict& object, std::string_view key) {
  const Value& value = object.Find(key);
  return value.is_none() ? Value::Missing() : value;
}

Status CheckText(const Dict& object, std::string_view key, const std::string& path) {
  const Value& value = Given(object, key);
  if (value.is_missing() || value.is_string()) return {};
  return Bad(Concat(path, ".", key), "must be a string or null");
}

Status CheckRequiredText(const Dict& object, std::string_view key, const std::string& path) {
  const Value& value = Given(object, key);
  if (value.is_missing()) return Bad(Concat(path, ".", key), "missing");
  if (!value.is_string()) return Bad(Concat(path, ".", key), "must be a string");
  if (value.view().empty()) return Bad(Concat(path, ".", key), "empty");
  return {};
}

Status CheckContentPart(const Value& part, const std::string& path) {
  if (!part.is_dict()) return Bad(path, "must be an object");
  KVD_CHECK_OK(CheckRequiredText(part.dict(), "type", path));
  const std::string_view type = part.dict().Find("type").view();
  if (type != "text") {
    return Fail(Code::kUnsupported, path, ".type: '", type.substr(0, 40),
                "' is not supported; models read text only");
  }
  const Value& text = part.dict().Find("text");
  if (text.is_string()) return {};
  return Bad(path + ".text", text.is_missing() ? "missing" : "must be a string");
}

Status CheckContent(const Dict& message, const std::string& path) {
  const Value& content = Given(message, "content");
  if (content.is_missing() || content.is_string()) return {};
  const std::string field = path + ".content";
  if (!content.is_list()) return Bad(field, "must be a string, a list of parts, or null");
  for (std::size_t i = 0; i < content.items().size(); ++i) {
    KVD_CHECK_OK(CheckContentPart(content.items()[i], At(field, i)));
  }
  return {};
}

Status CheckFunction(const Dict& function, const std::string& path) {
  KVD_CHECK_OK(CheckRequiredText(function, "name", path));
  const Value& arguments = Given(function, "arguments");
  if (arguments.is_missing() || arguments.is_string() || arguments.is_dict()) return {};
  return Bad(path + ".arguments", "must be an object, or a string with the text of one");
}

Status CheckToolCalls(const Dict& message, const std::string& path) {
  const Value& calls = Given(message, "tool_calls");
  if (calls.is_missing()) return {};
  const std::string list = path + ".tool_calls";
  if (!calls.is_list()) return Bad(list, "must be a list");
  for (std::size_t i = 0; i < calls.items().size(); ++i) {
    const Value& call = calls.items()[i];
    const std::string field = At(list, i);
    if (!call.is_dict()) return Bad(field, "must be an object");
    KVD_CHECK_OK(CheckText(call.dict(), "id", field));
    const Value& function = Given(call.dict(), "function");
    if (function.is_missing()) return Bad(field + ".function", "missing");
    if (!function.is_dict()) return Bad(field + ".function", "must be an object");
    KVD_CHECK_OK(CheckFunction(function.dict(), field + ".function"));
  }
  return {};
}

Status CheckMessage(const Value& message, const std::string& path) {
  if (!message.is_dict()) return Bad(path, "must be an object");
  const Dict& fields = message.dict();
  KVD_CHECK_OK(CheckRequiredText(fields, "role", path));
  for (const std::string_view key :
       {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
    KVD_CHECK_OK(CheckText(fields, key, path));
  }
  KVD_CHECK_OK(CheckContent(fields, path));
  return CheckToolCalls(fields, path);
}

Status CheckMessages(const Value& messages) {
  if (!messages.is_list()) return Bad("messages", "must be a list");
  const std::vector<Value>& items = messages.items();
  if (items.empty()) return Bad("messages", "a chat has at least one message");
  if (items.size() > ChatRequest::kMessagesMax) {
    return Fail(Code::kTooLarge, "messages: ", items.size(), " messages, the limit is ",
                ChatRequest::kMessagesMax);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    KVD_CHECK_OK(CheckMessage(items[i], At("messages", i)));
  }
  return {};
}

Result<Value> CheckedTool(const Value& tool, const std::string& path) {
  if (!tool.is_dict()) return Bad(path, "must be an object");
  const Value& function = Given(tool.dict(), "function");
  if (function.is_missing()) {
    KVD_CHECK_OK(CheckRequiredText(tool.dict(), "name", path));
    Dict wrapped;
    wrapped.Set("type", Value::String("function"));
    wrapped.Set("function", tool);
    return Value::Of(std::move(wrapped));
  }
  if (!function.is_dict()) return Bad(path + ".function", "must be an object");
  KVD_CHECK_OK(CheckRequiredText(function.dict(), "name", path + ".function"));
  return tool;
}

// An empty list means the same as no list: templates test whether there are tools.
Status CheckTools(Value& tools) {
  if (tools.is_none()) return {};
  if (!tools.is_list()) return Bad("tools", "must be a list");
  std::vector<Value> checked;
  for (std::size_t i = 0; i < tools.items().size(); ++i) {
    KVD_TRY(Value tool, CheckedTool(tools.items()[i], At("tools", i)));
    checked.push_back(std::move(tool));
  }
  tools = checked.empty() ? Value::None() : Value::List(std::move(checked));
  return {};
}

Status CheckDocuments(const Value& documents) {
  if (documents.is_none()) return {};
  if (!documents.is_list()) return Bad("documents", "must be a list");
  for (std::size_t i = 0; i < documents.items().size(); ++i) {
    if (!documents.items()[i].is_dict()) return Bad(At("documents", i), "must be an object");
  }
  return {};
}

Status CheckContinuation(const ChatRequest& request) {
  if (!request.continue_final_message) return {};
  const std::size_t last = request.messages.items().size() - 1;
  const Dict& message = request.messages.items()[last].dict();
  const std::string path = At("messages", last);
  if (message.Find("role").view() != "assistant") {
    return Bad(path + ".role", "continue_final_message continues a message of the assistant");
  }
  const Value& content = Given(message, "content");
  if (content.is_string()) return {};
  return Bad(path + ".content", "continue_final_message continues a string");
}

Status SetFlag(const Value& value, std::string_view key, bool& flag) {
  if (!value.is_bool()) return Bad(key, "must be true or false");
  flag = value.truth();
  return {};
}

Status SetField(std::string_view key, const Value& value, ChatRequest& request) {
  if (key == "messages") return request.messages = value, Status();
  if (value.is_none()) return {};
  if (key == "tools") return request.tools = value, Status();
  if (key == "documents") return request.documents = value, Status();
  if (key == "add_generation_prompt") return SetFlag(value, key, request.add_generation_prompt);
  if (key == "continue_final_message") return SetFlag(value, key, request.continue_final_message);
  if (key == "enable_thinking") {
    bool enabled = false;
    KVD_CHECK_OK(SetFlag(value, key, enabled));
    request.enable_thinking = enabled;
    return {};
  }
  if (key == "chat_template") {
    if (!value.is_string()) return Bad(key, "must be a string");
    request.chat_template = value.view();
    return {};
  }
  if (key == "chat_template_kwargs") {
    if (!value.is_dict()) return Bad(key, "must be an object");
    request.variables = value;
    return {};
  }
  return Bad(key.substr(0, 40), "unknown field");
}

}  // namespace

Result<ChatRequest> ParseChatRequest(std::string_view json) {
  KVD_TRY(const Value parsed, ParseJson(json, {.bytes_max = ChatRequest::kBytesMax}));
  ChatRequest request;
  if (parsed.is_list()) {
    request.messages = parsed;
  } else if (parsed.is_dict()) {
    for (const auto& [key, value] : parsed.dict().items()) {
      KVD_CHECK_OK(SetField(key.view(), value, request));
    }
  } else {
    return Fail(Code::kInvalidArgument, "chat: neither an object nor a list of messages");
  }
  if (request.messages.is_undefined()) return Bad("messages", "missing");
  KVD_CHECK_OK(CheckChatRequest(request));
  return request;
}

Status CheckChatRequest(ChatRequest& request) {
  KVD_CHECK_OK(CheckMessages(request.messages));
  KVD_CHECK_OK(CheckTools(request.tools));
  KVD_CHECK_OK(CheckDocuments(request.documents));
  return CheckContinuation(request);
}

}  // namespace kvd
