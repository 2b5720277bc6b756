#include "http/api/responses_writer.h"

#include <cstdio>
#include <utility>

#include "base/siphash.h"
#include "base/text.h"
#include "http/api/answer_report.h"
#include "http/api/json_text.h"

namespace kvd::http {
namespace {

Value OutputText(std::string_view text) {
  return Json({{"type", TextValue("output_text")},
               {"text", TextValue(text)},
               {"annotations", Value::List({})},
               {"logprobs", Value::List({})}})
      .Take();
}

Value ReasoningText(std::string_view text) {
  return Json({{"type", TextValue("reasoning_text")}, {"text", TextValue(text)}}).Take();
}

Value MessageItem(const std::string& id, std::string_view text, std::string_view status) {
  std::vector<Value> content;
  if (!text.empty() || status != "in_progress") content.push_back(OutputText(text));
  return Json({{"type", TextValue("message")},
               {"id", TextValue(id)},
               {"status", TextValue(status)},
               {"role", TextValue("assistant")},
               {"content", Value::List(std::move(content))}})
      .Take();
}

Value ReasoningItem(const std::string& id, std::string_view text, std::string_view status) {
  std::vector<Value> content;
  if (!text.empty()) content.push_back(ReasoningText(text));
  return Json({{"type", TextValue("reasoning")},
               {"id", TextValue(id)},
               {"status", TextValue(status)},
               {"summary", Value::List({})},
               {"content", Value::List(std::move(content))},
               {"encrypted_content", TextValue("")}})
      .Take();
}

Value CallItem(const std::string& id, std::string_view call_id, std::string_view name,
               std::string_view arguments, std::string_view status) {
  return Json({{"type", TextValue("function_call")},
               {"id", TextValue(id)},
               {"status", TextValue(status)},
               {"call_id", TextValue(call_id)},
               {"name", TextValue(name)},
               {"arguments", TextValue(arguments)}})
      .Take();
}

Value UsageOf(const AnswerEnd& end) {
  const std::uint64_t total = std::uint64_t{end.prompt_tokens} + end.predicted_tokens;
  return Json({{"input_tokens", CountValue(end.prompt_tokens)},
               {"input_tokens_details",
                Json({{"cached_tokens", CountValue(end.cached_tokens)}}).Take()},
               {"output_tokens", CountValue(end.predicted_tokens)},
               {"output_tokens_details", Json({{"reasoning_tokens", CountValue(0)}}).Take()},
               {"total_tokens", CountValue(total)}})
      .Take();
}

Value Repeated(const ResponseBegin& begin, std::string_view name, Value fallback) {
  const Value& value = begin.body.dict().Find(name);
  if (!value.is_missing()) return value;
  return fallback;
}

Dict Frame(const ResponseBegin& begin, std::string_view status, std::vector<Value> output) {
  std::string all_text;
  for (const Value& item : output) {
    if (item.dict().Find("type").view() != "message") continue;
    for (const Value& part : item.dict().Find("content").items()) {
      all_text += part.dict().Find("text").view();
    }
  }
  Dict response;
  response.Set("id", TextValue(begin.id));
  response.Set("object", TextValue("response"));
  response.Set("created_at", Value::Int(begin.created_unix_s));
  response.Set("status", TextValue(status));
  response.Set("model", TextValue(begin.model));
  response.Set("output", Value::List(std::move(output)));
  response.Set("output_text", TextValue(all_text));
  response.Set("error", Value::None());
  response.Set("incomplete_details", Value::None());
  response.Set("usage", Value::None());
  response.Set("instructions", Repeated(begin, "instructions", Value::None()));
  response.Set("previous_response_id", Repeated(begin, "previous_response_id", Value::None()));
  response.Set("store", Repeated(begin, "store", Value::Bool(true)));
  response.Set("background", Repeated(begin, "background", Value::Bool(false)));
  response.Set("parallel_tool_calls", Repeated(begin, "parallel_tool_calls", Value::Bool(true)));
  response.Set("tool_choice", Repeated(begin, "tool_choice", TextValue("auto")));
  response.Set("tools", Repeated(begin, "tools", Value::List({})));
  response.Set("text",
               Repeated(begin, "text",
                        Json({{"format", Json({{"type", TextValue("text")}}).Take()}}).Take()));
  response.Set("reasoning", Repeated(begin, "reasoning", Value::None()));
  response.Set("truncation", Repeated(begin, "truncation", TextValue("disabled")));
  response.Set("temperature", Repeated(begin, "temperature", Value::None()));
  response.Set("top_p", Repeated(begin, "top_p", Value::None()));
  response.Set("max_output_tokens", Repeated(begin, "max_output_tokens", Value::None()));
  response.Set("metadata", Repeated(begin, "metadata", Value::Of(Dict())));
  return response;
}

}  // namespace

std::string ItemId(const ResponseBegin& begin, std::string_view kind, std::size_t number) {
  char digits[40];
  const std::string key = Concat(kind, number);
  std::snprintf(digits, sizeof digits, "%016llx%016llx",
                static_cast<unsigned long long>(SipHash24(begin.nonce, 1, key)),
                static_cast<unsigned long long>(SipHash24(begin.nonce, 2, key)));
  return Concat(kind, "_", std::string_view(digits));
}

std::vector<Value> OutputOf(const ResponseBegin& begin, const ParsedAnswer& parsed,
                            std::string_view status) {
  std::vector<Value> output;
  if (!parsed.reasoning.empty()) {
    output.push_back(ReasoningItem(ItemId(begin, "rs", output.size()), parsed.reasoning, status));
  }
  if (!parsed.content.empty() || (parsed.calls.empty() && status != "in_progress")) {
    output.push_back(MessageItem(ItemId(begin, "msg", output.size()), parsed.content, status));
  }
  for (const ParsedCall& call : parsed.calls) {
    output.push_back(CallItem(ItemId(begin, "fc", output.size()), call.id, call.name,
                              call.arguments, call.is_complete ? status : "incomplete"));
  }
  return output;
}

Value UnfinishedResponse(const ResponseBegin& begin, std::string_view status,
                         std::string_view error_code, std::string_view error_message) {
  Dict response = Frame(begin, status, {});
  if (!error_code.empty()) {
    response.Set(
        "error",
        Json({{"code", TextValue(error_code)}, {"message", TextValue(error_message)}}).Take());
  }
  return Value::Of(std::move(response));
}

Value ResponseOf(const ResponseBegin& begin, const ChatAnswer& answer) {
  const bool is_cut = answer.finish() == ChatFinish::kLength;
  const std::string_view status = is_cut ? "incomplete" : "completed";
  Dict response = Frame(begin, status, OutputOf(begin, answer.parsed(), status));
  if (is_cut) {
    response.Set("incomplete_details", Json({{"reason", TextValue("max_output_tokens")}}).Take());
  }
  response.Set("usage", UsageOf(answer.end()));
  response.Set("cache", CacheOf(answer.end().cache));
  return Value::Of(std::move(response));
}

std::string ResponsesWriter::Event(
    std::string_view type, std::initializer_list<std::pair<std::string_view, Value>> members,
    const Value& extra) {
  Dict event;
  event.Set("type", TextValue(type));
  event.Set("sequence_number", CountValue(sequence_number_++));
  for (const auto& [name, value] : members) event.Set(name, value);
  if (extra.is_dict()) {
    for (const auto& [name, value] : extra.dict().items()) event.Set(name, value);
  }
  return EventText(type, Value::Of(std::move(event)));
}

std::string ResponsesWriter::id() const {
  switch (open_) {
    case Open::kReasoning: return ItemId(begin_, "rs", number_);
    case Open::kCall: return ItemId(begin_, "fc", number_);
    default: return ItemId(begin_, "msg", number_);
  }
}

Value ResponsesWriter::Item(std::string_view status) const {
  switch (open_) {
    case Open::kReasoning: return ReasoningItem(id(), text_, status);
    case Open::kCall: return CallItem(id(), call_id_, name_, text_, status);
    default: return MessageItem(id(), text_, status);
  }
}

std::string ResponsesWriter::Begin() {
  const Value response = UnfinishedResponse(begin_, "in_progress");
  std::string text = Event("response.created", {{"response", response}});
  return text + Event("response.in_progress", {{"response", response}});
}

std::string ResponsesWriter::Progress(const Value& progress) {
  return Event("response.in_progress", {{"response", UnfinishedResponse(begin_, "in_progress")},
                                        {"prompt_progress", progress}});
}

std::string ResponsesWriter::OpenItem(Open kind, std::string_view name, std::string_view call_id) {
  if (open_ == kind && kind != Open::kCall) return {};
  std::string text = CloseItem("completed");
  open_ = kind;
  text_.clear();
  name_ = name;
  call_id_ = call_id;
  text += Event("response.output_item.added",
                {{"output_index", CountValue(number_)}, {"item", Item("in_progress")}});
  if (kind == Open::kMessage) {
    text += Event("response.content_part.added", {{"item_id", TextValue(id())},
                                                  {"output_index", CountValue(number_)},
                                                  {"content_index", CountValue(0)},
                                                  {"part", OutputText("")}});
  }
  return text;
}

std::string ResponsesWriter::CloseItem(std::string_view status) {
  if (open_ == Open::kNone) return {};
  std::string text;
  const Value item_id = TextValue(id());
  const Value index = CountValue(number_);
  const Value zero = CountValue(0);
  if (open_ == Open::kMessage) {
    text += Event("response.output_text.done", {{"item_id", item_id},
                                                {"output_index", index},
                                                {"content_index", zero},
                                                {"text", TextValue(text_)},
                                                {"logprobs", Value::List({})}});
    text += Event("response.content_part.done", {{"item_id", item_id},
                                                 {"output_index", index},
                                                 {"content_index", zero},
                                                 {"part", OutputText(text_)}});
  } else if (open_ == Open::kReasoning) {
    text += Event("response.reasoning_text.done", {{"item_id", item_id},
                                                   {"output_index", index},
                                                   {"content_index", zero},
                                                   {"text", TextValue(text_)}});
  } else {
    text += Event("response.function_call_arguments.done", {{"item_id", item_id},
                                                            {"output_index", index},
                                                            {"name", TextValue(name_)},
                                                            {"arguments", TextValue(text_)}});
  }
  text += Event("response.output_item.done", {{"output_index", index}, {"item", Item(status)}});
  open_ = Open::kNone;
  ++number_;
  return text;
}

std::string ResponsesWriter::Take(const std::vector<AnswerEvent>& events, const Value& extra) {
  std::string text;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent:
        text += OpenItem(Open::kMessage, {}, {});
        text_ += event.text;
        text += Event("response.output_text.delta",
                      {{"item_id", TextValue(id())},
                       {"output_index", CountValue(number_)},
                       {"content_index", CountValue(0)},
                       {"delta", TextValue(event.text)},
                       {"logprobs", Value::List({})}},
                      extra);
        break;
      case AnswerEvent::Kind::kReasoning:
        text += OpenItem(Open::kReasoning, {}, {});
        text_ += event.text;
        text += Event("response.reasoning_text.delta",
                      {{"item_id", TextValue(id())},
                       {"output_index", CountValue(number_)},
                       {"content_index", CountValue(0)},
                       {"delta", TextValue(event.text)}},
                      extra);
        break;
      case AnswerEvent::Kind::kCallBegin:
        text += OpenItem(Open::kCall, event.text, event.id);
        break;
      case AnswerEvent::Kind::kArguments:
        text_ += event.text;
        text += Event("response.function_call_arguments.delta",
                      {{"item_id", TextValue(id())},
                       {"output_index", CountValue(number_)},
                       {"delta", TextValue(event.text)}},
                      extra);
        break;
      case AnswerEvent::Kind::kCallEnd:
        text += CloseItem(event.is_complete ? "completed" : "incomplete");
        break;
    }
  }
  return text;
}

std::string ResponsesWriter::Finish(const ChatAnswer& answer, const Value& timings) {
  std::string text;
  if (number_ == 0 && open_ == Open::kNone) text += OpenItem(Open::kMessage, {}, {});
  text += CloseItem(answer.finish() == ChatFinish::kLength ? "incomplete" : "completed");
  Value extra;
  if (timings.is_dict()) extra = Json({{"timings", timings}}).Take();
  return text + Event("response.completed", {{"response", ResponseOf(begin_, answer)}}, extra);
}

std::string ResponsesWriter::Failed(std::string_view code, std::string_view message) {
  return Event("response.failed",
               {{"response", UnfinishedResponse(begin_, "failed", code, message)}});
}

}  // namespace kvd::http
