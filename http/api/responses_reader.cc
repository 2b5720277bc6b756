#include "http/api/responses_reader.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "http/answer/chat_plan.h"
#include "http/api/chat_values.h"
#include "http/api/fields.h"

namespace kvd::http {
namespace {

// Collects messages; consecutive items of the assistant are joined in one message.
class Messages {
 public:
  Status Add(const Value& item, const std::string& path) {
    if (!item.is_dict()) return Fail(Code::kInvalidArgument, path, ": an object is needed");
    const Fields fields(item, path + ".");
    KVD_TRY(const std::string type, fields.String("type", "message"));
    if (type == "message") return AddMessage(fields, path);
    if (type == "function_call") return AddCall(fields, path);
    if (type == "function_call_output") return AddOutput(fields, path);
    if (type == "reasoning") return AddReasoning(fields, path);
    return Fail(Code::kUnsupported, path, ".type: \"", type, "\" is not supported");
  }
  void AddText(std::string_view role, std::string text) {
    Flush();
    messages_.push_back(MessageValue(role, Value::String(std::move(text))));
  }
  std::vector<Value> Take() {
    Flush();
    return std::move(messages_);
  }

 private:
  static Result<std::string> TextOf(const Value& content, const std::string& path) {
    if (content.is_string()) return std::string(content.view());
    if (!content.is_list()) {
      return Fail(Code::kInvalidArgument, path, ": a text or a list of parts is needed, not ",
                  Shown(content));
    }
    std::string all;
    for (std::size_t i = 0; i < content.items().size(); ++i) {
      const std::string at = Concat(path, "[", i, "]");
      const Value& part = content.items()[i];
      if (!part.is_dict()) return Fail(Code::kInvalidArgument, at, ": an object is needed");
      const Fields fields(part, at + ".");
      KVD_TRY(const std::string type, fields.String("type"));
      if (type == "input_image" || type == "image_url") {
        return Fail(Code::kUnsupported, kNoImages);
      }
      if (type == "refusal") {
        KVD_TRY(const std::string refusal, fields.String("refusal"));
        all += refusal;
        continue;
      }
      if (type != "input_text" && type != "output_text" && type != "text" &&
          type != "reasoning_text" && type != "summary_text") {
        return Fail(Code::kUnsupported, at, ".type: \"", type, "\" is not supported");
      }
      const Value& text = fields.Find("text");
      if (!text.is_string()) {
        return Fail(Code::kInvalidArgument, at, ".text: a text is needed");
      }
      all += text.view();
    }
    return all;
  }

  Status AddMessage(const Fields& fields, const std::string& path) {
    KVD_TRY(const std::string role, fields.String("role"));
    constexpr std::string_view kRoles[] = {"user", "system", "developer", "assistant", "tool"};
    if (std::ranges::find(kRoles, role) == std::ranges::end(kRoles)) {
      return Fail(Code::kInvalidArgument, path, ".role: \"", role,
                  "\" is none of user, system, developer, assistant");
    }
    const Value& content = fields.Find("content");
    if (content.is_missing()) return Fail(Code::kInvalidArgument, path, ".content: missing");
    KVD_TRY(std::string text, TextOf(content, path + ".content"));
    if (role != "assistant") {
      AddText(role, std::move(text));
      return {};
    }
    if (!calls_.empty()) Flush();
    is_open_ = true;
    content_ += text;
    return {};
  }

  Status AddCall(const Fields& fields, const std::string& path) {
    KVD_TRY(const std::string id, fields.String("call_id"));
    KVD_TRY(const std::string name, fields.String("name"));
    KVD_TRY(const std::string arguments, fields.String("arguments"));
    if (id.empty()) return Fail(Code::kInvalidArgument, path, ".call_id: missing");
    if (name.empty()) return Fail(Code::kInvalidArgument, path, ".name: missing");
    is_open_ = true;
    calls_.push_back(CallValue(id, name, arguments));
    return {};
  }

  Status AddOutput(const Fields& fields, const std::string& path) {
    KVD_TRY(const std::string id, fields.String("call_id"));
    if (id.empty()) return Fail(Code::kInvalidArgument, path, ".call_id: missing");
    const Value& output = fields.Find("output");
    if (output.is_missing()) return Fail(Code::kInvalidArgument, path, ".output: missing");
    KVD_TRY(std::string text, TextOf(output, path + ".output"));
    AddText("tool", std::move(text));
    Dict message = messages_.back().dict();
    message.Set("tool_call_id", Value::String(id));
    messages_.back() = Value::Of(std::move(message));
    return {};
  }

  Status AddReasoning(const Fields& fields, const std::string& path) {
    // Reasoning without readable text (encrypted, or a summary that is empty) is left out.
    const Value& content = fields.Find(fields.Has("content") ? "content" : "summary");
    if (content.is_missing()) return {};
    KVD_TRY(const std::string text, TextOf(content, path + ".content"));
    if (!content_.empty() || !calls_.empty()) Flush();
    is_open_ = is_open_ || !text.empty();
    reasoning_ += text;
    return {};
  }

  // Ends the assistant's message that items are added to.
  void Flush() {
    if (!is_open_) return;
    Dict message = MessageValue("assistant", Value::String(std::exchange(content_, {}))).dict();
    if (!reasoning_.empty()) {
      message.Set("reasoning_content", Value::String(std::exchange(reasoning_, {})));
    }
    if (!calls_.empty()) message.Set("tool_calls", Value::List(std::exchange(calls_, {})));
    messages_.push_back(Value::Of(std::move(message)));
    is_open_ = false;
  }

  std::vector<Value> messages_;
  bool is_open_ = false;  // the next three members are a message of the assistant
  std::string content_;
  std::string reasoning_;
  std::vector<Value> calls_;
};

Result<Value> ToolsOf(const Value& tools) {
  std::vector<Value> converted;
  for (std::size_t i = 0; i < tools.items().size(); ++i) {
    const std::string path = Concat("tools[", i, "]");
    const Value& tool = tools.items()[i];
    if (!tool.is_dict()) return Fail(Code::kInvalidArgument, path, ": an object is needed");
    const Fields fields(tool, path + ".");
    KVD_TRY(const std::string type, fields.String("type", "function"));
    // Tools that OpenAI's servers run, such as web_search, do not exist here: the model does not
    // hear of them.
    if (type != "function") continue;
    Dict function;
    for (const std::string_view name : {"name", "description", "parameters", "strict"}) {
      if (const Value& value = fields.Find(name); !value.is_missing()) function.Set(name, value);
    }
    const Value& nested = fields.Find("function");  // the form of chat completions
    converted.push_back(ToolValue(!nested.is_missing() ? nested : Value::Of(std::move(function))));
  }
  return Value::List(std::move(converted));
}

Status SetToolChoice(const Value& choice, Dict& chat) {
  if (choice.is_string()) {
    chat.Set("tool_choice", choice);
    return {};
  }
  if (!choice.is_dict()) {
    return Fail(Code::kInvalidArgument, "tool_choice: a text or an object is needed, not ",
                Shown(choice));
  }
  const Fields fields(choice, "tool_choice.");
  KVD_TRY(const std::string name, fields.String("name"));
  chat.Set("tool_choice", ChoiceValue(name));
  return {};
}

// text.format: {"type": "text" | "json_object" | "json_schema", "schema": ...}
Status SetFormat(const Value& text, Dict& chat) {
  KVD_TRY(const Value format, Fields(text, "text.").Object("format"));
  if (format.is_missing()) return {};
  const Fields fields(format, "text.format.");
  KVD_TRY(const std::string type, fields.String("type", "text"));
  Dict response_format;
  response_format.Set("type", Value::String(type));
  if (type == "json_schema") {
    KVD_TRY(const Value schema, fields.Object("schema"));
    if (schema.is_missing()) return Fail(Code::kInvalidArgument, "text.format.schema: missing");
    Dict json_schema;
    json_schema.Set("schema", schema);
    response_format.Set("json_schema", Value::Of(std::move(json_schema)));
  } else if (type != "text" && type != "json_object") {
    return Fail(Code::kInvalidArgument, "text.format.type: \"", type,
                "\" is none of text, json_object, json_schema");
  }
  chat.Set("response_format", Value::Of(std::move(response_format)));
  return {};
}

}  // namespace

Result<std::vector<Value>> InputItems(const Value& body) {
  const Fields fields(body);
  const Value& input = fields.Find("input");
  if (input.is_missing()) return Fail(Code::kInvalidArgument, "input: missing");
  if (input.is_list()) return input.items();
  if (!input.is_string()) return fields.Wrong("input", "a text or a list of items", input);
  Dict part;
  part.Set("type", Value::String("input_text"));
  part.Set("text", input);
  Dict item;
  item.Set("type", Value::String("message"));
  item.Set("role", Value::String("user"));
  item.Set("content", Value::List({Value::Of(std::move(part))}));
  return std::vector{Value::Of(std::move(item))};
}

Result<Value> ReadResponseAsOpenAi(const Value& body, const std::vector<Value>& earlier,
                                   const std::vector<Value>& input) {
  const Fields fields(body);
  Dict chat =
      MembersExcept(body, {"input", "instructions", "previous_response_id", "store", "background",
                           "tools", "tool_choice", "text", "max_output_tokens", "truncation",
                           "include", "reasoning", "metadata"});
  Messages messages;
  KVD_TRY(const std::string instructions, fields.String("instructions"));
  if (!instructions.empty()) messages.AddText("system", instructions);
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    KVD_CHECK_OK(messages.Add(earlier[i], Concat("previous_response_id: item ", i)));
  }
  for (std::size_t i = 0; i < input.size(); ++i) {
    KVD_CHECK_OK(messages.Add(input[i], Concat("input[", i, "]")));
  }
  chat.Set("messages", Value::List(messages.Take()));
  KVD_TRY(const Value tools, fields.List("tools"));
  if (!tools.is_missing()) {
    KVD_TRY(Value converted, ToolsOf(tools));
    if (!converted.items().empty()) chat.Set("tools", std::move(converted));
  }
  const Value& choice = fields.Find("tool_choice");
  if (!choice.is_missing() && chat.Contains("tools")) {
    KVD_CHECK_OK(SetToolChoice(choice, chat));
  }
  KVD_TRY(const Value text, fields.Object("text"));
  if (!text.is_missing()) KVD_CHECK_OK(SetFormat(text, chat));
  KVD_TRY(const auto tokens_max, fields.OptionalInt("max_output_tokens", 0, 1 << 30));
  if (tokens_max) chat.Set("max_tokens", Value::Int(*tokens_max));
  KVD_TRY(const Value reasoning, fields.Object("reasoning"));
  if (!reasoning.is_missing()) {
    KVD_TRY(const std::string effort, Fields(reasoning, "reasoning.").String("effort"));
    if (!effort.empty()) chat.Set("reasoning_effort", Value::String(effort));
  }
  return Value::Of(std::move(chat));
}

}  // namespace kvd::http
