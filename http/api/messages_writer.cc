#include "http/api/messages_writer.h"

#include <utility>

#include "http/api/answer_report.h"
#include "http/api/json_text.h"
#include "text/json.h"

namespace kvd::http {
namespace {

Value AnthropicUsageOf(const AnswerEnd& end) {
  const std::uint32_t cached = std::min(end.cached_tokens, end.prompt_tokens);
  return Json({{"cache_read_input_tokens", CountValue(cached)},
               {"input_tokens", CountValue(end.prompt_tokens - cached)},
               {"output_tokens", CountValue(end.predicted_tokens)}})
      .Take();
}

Value StopSequenceOf(const AnswerEnd& end) {
  return end.stop_type == StopType::kWord ? TextValue(end.stopping_word) : Value::None();
}

Value InputOf(const std::string& arguments) {
  auto parsed = ParseJson(arguments);
  return parsed && parsed->is_dict() ? std::move(*parsed) : Value::Of(Dict());
}

Value TextBlock(std::string_view text) {
  return Json({{"type", TextValue("text")}, {"text", TextValue(text)}}).Take();
}

}  // namespace

std::string_view StopReasonOf(const ChatAnswer& answer) {
  switch (answer.finish()) {
    case ChatFinish::kCalls: return "tool_use";
    case ChatFinish::kLength: return "max_tokens";
    default: return answer.end().stop_type == StopType::kWord ? "stop_sequence" : "end_turn";
  }
}

Value MessageOf(const ChatAnswer& answer, const std::string& id, const std::string& model) {
  std::vector<Value> content;
  const ParsedAnswer& parsed = answer.parsed();
  if (!parsed.reasoning.empty()) {
    content.push_back(Json({{"type", TextValue("thinking")},
                            {"thinking", TextValue(parsed.reasoning)},
                            {"signature", TextValue("")}})
                          .Take());
  }
  if (!parsed.content.empty() || parsed.calls.empty()) content.push_back(TextBlock(parsed.content));
  for (const ParsedCall& call : parsed.calls) {
    content.push_back(Json({{"type", TextValue("tool_use")},
                            {"id", TextValue(call.id)},
                            {"name", TextValue(call.name)},
                            {"input", InputOf(call.arguments)}})
                          .Take());
  }
  return Json({{"id", TextValue(id)},
               {"type", TextValue("message")},
               {"role", TextValue("assistant")},
               {"content", Value::List(std::move(content))},
               {"model", TextValue(model)},
               {"stop_reason", TextValue(StopReasonOf(answer))},
               {"stop_sequence", StopSequenceOf(answer.end())},
               {"usage", AnthropicUsageOf(answer.end())},
               {"cache", CacheOf(answer.end().cache)}})
      .Take();
}

std::string MessagesWriter::Begin(const AnswerEnd& end) const {
  AnswerEnd begun = end;
  begun.predicted_tokens = 0;
  const Value message = Json({{"id", TextValue(id_)},
                              {"type", TextValue("message")},
                              {"role", TextValue("assistant")},
                              {"content", Value::List({})},
                              {"model", TextValue(model_)},
                              {"stop_reason", Value::None()},
                              {"stop_sequence", Value::None()},
                              {"usage", AnthropicUsageOf(begun)}})
                            .Take();
  return EventText("message_start",
                   Json({{"type", TextValue("message_start")}, {"message", message}}).Take());
}

std::string MessagesWriter::Delta(const Value& delta) const {
  return EventText("content_block_delta", Json({{"type", TextValue("content_block_delta")},
                                                {"index", CountValue(index_)},
                                                {"delta", delta}})
                                              .Take());
}

std::string MessagesWriter::Close() {
  if (open_ == Block::kNone) return {};
  std::string text;
  if (open_ == Block::kThinking) {
    text =
        Delta(Json({{"type", TextValue("signature_delta")}, {"signature", TextValue("")}}).Take());
  }
  text += EventText(
      "content_block_stop",
      Json({{"type", TextValue("content_block_stop")}, {"index", CountValue(index_)}}).Take());
  open_ = Block::kNone;
  ++index_;
  return text;
}

std::string MessagesWriter::Open(Block block, const Value& content) {
  if (open_ == block && block != Block::kCall) return {};
  std::string text = Close();
  open_ = block;
  return text + EventText("content_block_start", Json({{"type", TextValue("content_block_start")},
                                                       {"index", CountValue(index_)},
                                                       {"content_block", content}})
                                                     .Take());
}

std::string MessagesWriter::Take(const std::vector<AnswerEvent>& events) {
  std::string text;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent:
        text += Open(Block::kText, TextBlock(""));
        text += Delta(
            Json({{"type", TextValue("text_delta")}, {"text", TextValue(event.text)}}).Take());
        break;
      case AnswerEvent::Kind::kReasoning:
        text += Open(Block::kThinking,
                     Json({{"type", TextValue("thinking")}, {"thinking", TextValue("")}}).Take());
        text +=
            Delta(Json({{"type", TextValue("thinking_delta")}, {"thinking", TextValue(event.text)}})
                      .Take());
        break;
      case AnswerEvent::Kind::kCallBegin:
        text += Open(Block::kCall, Json({{"type", TextValue("tool_use")},
                                         {"id", TextValue(event.id)},
                                         {"name", TextValue(event.text)},
                                         {"input", Value::Of(Dict())}})
                                       .Take());
        break;
      case AnswerEvent::Kind::kArguments:
        text += Delta(
            Json({{"type", TextValue("input_json_delta")}, {"partial_json", TextValue(event.text)}})
                .Take());
        break;
      case AnswerEvent::Kind::kCallEnd: break;
    }
  }
  return text;
}

std::string MessagesWriter::Finish(const ChatAnswer& answer) {
  std::string text;
  // An answer without any text has one empty block, as the whole message has.
  if (index_ == 0 && open_ == Block::kNone) text += Open(Block::kText, TextBlock(""));
  text += Close();
  const Value delta = Json({{"stop_reason", TextValue(StopReasonOf(answer))},
                            {"stop_sequence", StopSequenceOf(answer.end())}})
                          .Take();
  text += EventText("message_delta", Json({{"type", TextValue("message_delta")},
                                           {"delta", delta},
                                           {"usage", AnthropicUsageOf(answer.end())},
                                           {"cache", CacheOf(answer.end().cache)}})
                                         .Take());
  return text + EventText("message_stop", Json({{"type", TextValue("message_stop")}}).Take());
}

std::string MessagesWriter::Failed(std::string_view type, std::string_view message) {
  const Value error = Json({{"type", TextValue(type)}, {"message", TextValue(message)}}).Take();
  return EventText("error", Json({{"type", TextValue("error")}, {"error", error}}).Take());
}

}  // namespace kvd::http
