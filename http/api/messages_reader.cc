#include "http/api/messages_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "http/answer/chat_plan.h"
#include "http/api/chat_values.h"
#include "http/api/fields.h"
#include "text/json.h"

namespace kvd::http {
namespace {

Value TextPart(std::string text) {
  Dict part;
  part.Set("type", Value::String("text"));
  part.Set("text", Value::String(std::move(text)));
  return Value::Of(std::move(part));
}

// Claude Code's first system block is "x-anthropic-billing-header: ...; cch=a5145; ...". The five
// characters after "cch=" change with every request.
std::string Masked(std::string text) {
  constexpr std::string_view kHeader = "x-anthropic-billing-header:";
  constexpr std::string_view kStamp = "cch=";
  constexpr std::size_t kStampBytes = 5;
  if (!text.starts_with(kHeader)) return text;
  const std::size_t at = text.find(kStamp, kHeader.size());
  if (at == std::string::npos) return text;
  const std::size_t stamp = at + kStamp.size();
  if (stamp + kStampBytes >= text.size() || text[stamp + kStampBytes] != ';') return text;
  return text.replace(stamp, kStampBytes, kStampBytes, 'f');
}

// The texts of a content: a text, or a list of blocks of type text.
Result<std::vector<std::string>> Texts(const Value& content, const std::string& path) {
  if (content.is_string()) return std::vector{std::string(content.view())};
  if (!content.is_list()) {
    return Fail(Code::kInvalidArgument, path, ": a text or a list of blocks is needed, not ",
                Shown(content));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < content.items().size(); ++i) {
    const std::string at = Concat(path, "[", i, "]");
    const Value& block = content.items()[i];
    if (!block.is_dict()) return Fail(Code::kInvalidArgument, at, ": an object is needed");
    const Fields fields(block, at + ".");
    KVD_TRY(const std::string type, fields.String("type"));
    if (type == "image") return Fail(Code::kUnsupported, kNoImages);
    if (type != "text") {
      return Fail(Code::kUnsupported, at, ".type: \"", type, "\" is not supported here");
    }
    KVD_TRY(std::string text, fields.String("text"));
    texts.push_back(std::move(text));
  }
  return texts;
}

Status AddSystem(const Fields& body, std::vector<Value>& messages) {
  const Value& system = body.Find("system");
  if (system.is_missing()) return {};
  KVD_TRY(const std::vector<std::string> texts, Texts(system, "system"));
  std::string all;
  for (std::size_t i = 0; i < texts.size(); ++i) all += i == 0 ? Masked(texts[i]) : texts[i];
  messages.push_back(MessageValue("system", Value::String(std::move(all))));
  return {};
}

Result<Value> ToolMessage(const Fields& block, const std::string& path) {
  KVD_TRY(const std::string id, block.String("tool_use_id"));
  if (id.empty()) return Fail(Code::kInvalidArgument, path, ".tool_use_id: missing");
  std::string all;
  if (const Value& content = block.Find("content"); !content.is_missing()) {
    KVD_TRY(const std::vector<std::string> texts, Texts(content, path + ".content"));
    for (const std::string& text : texts) all += (all.empty() ? "" : "\n") + text;
  }
  Dict message = MessageValue("tool", Value::String(std::move(all))).dict();
  message.Set("tool_call_id", Value::String(id));
  return Value::Of(std::move(message));
}

Result<Value> CallOf(const Fields& block, const std::string& path) {
  KVD_TRY(const std::string id, block.String("id"));
  KVD_TRY(const std::string name, block.String("name"));
  if (name.empty()) return Fail(Code::kInvalidArgument, path, ".name: missing");
  KVD_TRY(const Value input, block.Object("input"));
  KVD_TRY(std::string arguments, WriteJson(input.is_missing() ? Value::Of(Dict()) : input));
  return CallValue(id, name, std::move(arguments));
}

// One message becomes the messages of its tool results, and one message of its other blocks.
struct Blocks {
  std::vector<Value> results;
  std::vector<Value> parts;
  std::vector<Value> calls;
  std::string reasoning;

  Status Add(const Value& block, const std::string& path) {
    if (!block.is_dict()) return Fail(Code::kInvalidArgument, path, ": an object is needed");
    const Fields fields(block, path + ".");
    KVD_TRY(const std::string type, fields.String("type"));
    if (type == "text") {
      KVD_TRY(std::string text, fields.String("text"));
      parts.push_back(TextPart(std::move(text)));
    } else if (type == "thinking") {
      KVD_TRY(const std::string thinking, fields.String("thinking"));
      reasoning += thinking;
    } else if (type == "redacted_thinking") {
      // Only the servers of its author can read it.
    } else if (type == "tool_use") {
      KVD_TRY(Value call, CallOf(fields, path));
      calls.push_back(std::move(call));
    } else if (type == "tool_result") {
      KVD_TRY(Value result, ToolMessage(fields, path));
      results.push_back(std::move(result));
    } else if (type == "image") {
      return Fail(Code::kUnsupported, kNoImages);
    } else {
      return Fail(Code::kUnsupported, path, ".type: \"", type, "\" is not supported");
    }
    return {};
  }
};

Status AddMessage(const Value& message, const std::string& path, std::vector<Value>& messages) {
  if (!message.is_dict()) return Fail(Code::kInvalidArgument, path, ": an object is needed");
  const Fields fields(message, path + ".");
  KVD_TRY(const std::string role, fields.String("role"));
  if (role != "user" && role != "assistant" && role != "system") {
    return Fail(Code::kInvalidArgument, path, ".role: \"", role,
                "\" is none of user, assistant, system");
  }
  const Value& content = fields.Find("content");
  if (content.is_missing()) {
    messages.push_back(MessageValue(role, Value::String("")));
    return {};
  }
  if (content.is_string()) {
    messages.push_back(MessageValue(role, content));
    return {};
  }
  if (!content.is_list()) {
    return fields.Wrong("content", "a text or a list of blocks", content);
  }
  Blocks blocks;
  for (std::size_t i = 0; i < content.items().size(); ++i) {
    KVD_CHECK_OK(blocks.Add(content.items()[i], Concat(path, ".content[", i, "]")));
  }
  for (Value& result : blocks.results) messages.push_back(std::move(result));
  const bool has_rest = !blocks.parts.empty() || !blocks.calls.empty() || !blocks.reasoning.empty();
  if (!has_rest && !blocks.results.empty()) return {};
  Value rest = Value::String("");
  if (blocks.parts.size() == 1) {
    rest = blocks.parts.front().dict().Find("text");
  } else if (!blocks.parts.empty()) {
    rest = Value::List(std::move(blocks.parts));
  }
  Dict converted = MessageValue(role, std::move(rest)).dict();
  if (!blocks.calls.empty()) converted.Set("tool_calls", Value::List(std::move(blocks.calls)));
  if (!blocks.reasoning.empty()) {
    converted.Set("reasoning_content", Value::String(std::move(blocks.reasoning)));
  }
  messages.push_back(Value::Of(std::move(converted)));
  return {};
}

Result<Value> AnthropicToolsOf(const Value& tools) {
  std::vector<Value> converted;
  for (std::size_t i = 0; i < tools.items().size(); ++i) {
    const std::string path = Concat("tools[", i, "]");
    const Value& tool = tools.items()[i];
    if (!tool.is_dict()) return Fail(Code::kInvalidArgument, path, ": an object is needed");
    const Fields fields(tool, path + ".");
    KVD_TRY(const std::string name, fields.String("name"));
    if (name.empty()) return Fail(Code::kInvalidArgument, path, ".name: missing");
    Dict function;
    function.Set("name", Value::String(name));
    if (const Value& text = fields.Find("description"); !text.is_missing()) {
      function.Set("description", text);
    }
    KVD_TRY(const Value schema, fields.Object("input_schema"));
    function.Set("parameters", schema.is_missing() ? Value::Of(Dict()) : schema);
    converted.push_back(ToolValue(Value::Of(std::move(function))));
  }
  return Value::List(std::move(converted));
}

Status SetAnthropicToolChoice(const Value& choice, Dict& chat) {
  const Fields fields(choice, "tool_choice.");
  KVD_TRY(const std::string type, fields.String("type"));
  if (type == "auto" || type == "none") {
    chat.Set("tool_choice", Value::String(type));
  } else if (type == "any") {
    chat.Set("tool_choice", Value::String("required"));
  } else if (type == "tool") {
    KVD_TRY(const std::string name, fields.String("name"));
    chat.Set("tool_choice", ChoiceValue(name));
  } else {
    return Fail(Code::kInvalidArgument, "tool_choice.type: \"", type,
                "\" is none of auto, any, tool, none");
  }
  KVD_TRY(const bool is_single, fields.Bool("disable_parallel_tool_use", false));
  if (is_single) chat.Set("parallel_tool_calls", Value::Bool(false));
  return {};
}

}  // namespace

Result<Value> ReadMessagesAsOpenAi(const Value& body) {
  const Fields fields(body);
  Dict chat = MembersExcept(body, {"system", "messages", "tools", "tool_choice", "thinking",
                                   "metadata", "stop_sequences"});
  std::vector<Value> messages;
  KVD_CHECK_OK(AddSystem(fields, messages));
  KVD_TRY(const Value list, fields.List("messages"));
  if (list.is_missing()) return Fail(Code::kInvalidArgument, "messages: missing");
  for (std::size_t i = 0; i < list.items().size(); ++i) {
    KVD_CHECK_OK(AddMessage(list.items()[i], Concat("messages[", i, "]"), messages));
  }
  // A chat of no messages asks for an answer to nothing.
  if (messages.empty()) messages.push_back(MessageValue("user", Value::String("")));
  chat.Set("messages", Value::List(std::move(messages)));
  KVD_TRY(const Value tools, fields.List("tools"));
  if (!tools.is_missing() && !tools.items().empty()) {
    KVD_TRY(Value converted, AnthropicToolsOf(tools));
    chat.Set("tools", std::move(converted));
  }
  KVD_TRY(const Value choice, fields.Object("tool_choice"));
  if (!choice.is_missing()) KVD_CHECK_OK(SetAnthropicToolChoice(choice, chat));
  if (const Value& stops = fields.Find("stop_sequences"); !stops.is_missing()) {
    if (!stops.is_list()) return fields.Wrong("stop_sequences", "a list of texts", stops);
    chat.Set("stop", stops);
  }
  KVD_TRY(const Value thinking, fields.Object("thinking"));
  if (!thinking.is_missing()) {
    KVD_TRY(const std::string type, Fields(thinking, "thinking.").String("type"));
    if (type == "enabled" || type == "adaptive") chat.Set("enable_thinking", Value::Bool(true));
    if (type == "enabled") {
      constexpr std::int64_t kDefault = 10'000;  // llama-server's
      KVD_TRY(const std::int64_t budget,
              Fields(thinking, "thinking.").Int("budget_tokens", kDefault, -1, 1 << 30));
      chat.Set("thinking_budget_tokens", Value::Int(budget));
    }
    if (type == "disabled") chat.Set("enable_thinking", Value::Bool(false));
  }
  return Value::Of(std::move(chat));
}

}  // namespace kvd::http
