#include "http/api/chat_reader.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "http/api/sampling_fields.h"
#include "http/api/token_probs.h"

namespace kvd::http {
namespace {

constexpr std::int64_t kTopLogprobs = 20;  // llama-server's, of a request that names no number

Result<ReasoningFormat> ReadReasoningFormat(const Fields& fields) {
  const auto read = fields.String("reasoning_format", "auto");
  if (!read) return std::unexpected(read.error());
  const std::string_view name = *read;
  if (name == "auto") return ReasoningFormat::kAuto;
  if (name == "none") return ReasoningFormat::kNone;
  if (name == "deepseek") return ReasoningFormat::kDeepseek;
  if (name == "deepseek-legacy") return ReasoningFormat::kDeepseekLegacy;
  return Fail(Code::kInvalidArgument, fields.PathOf("reasoning_format"),
              ": none, auto, deepseek or deepseek-legacy is needed, not \"", name.substr(0, 40),
              "\"");
}

Value AnyObject() {
  Dict schema;
  schema.Set("type", Value::String("object"));
  return Value::Of(std::move(schema));
}

Status CheckSchema(const std::string& path, const Value& schema) {
  if (schema.is_dict() || schema.is_bool()) return {};
  return Fail(Code::kInvalidArgument, path, ": a JSON Schema is needed, not ", Shown(schema));
}

// The schema of response_format; missing: any text.
Result<Value> ReadResponseFormat(const Fields& fields) {
  KVD_TRY(const Value value, fields.Object("response_format"));
  if (value.is_missing()) return Value();
  const Fields format(value, fields.PathOf("response_format."));
  KVD_TRY(const std::string type, format.String("type", "text"));
  if (type == "text") return Value();
  if (type == "json_object") {
    const Value& schema = format.Find("schema");
    if (schema.is_missing()) return AnyObject();
    KVD_CHECK_OK(CheckSchema(format.PathOf("schema"), schema));
    return schema;
  }
  if (type != "json_schema") {
    return Fail(Code::kInvalidArgument, format.PathOf("type"),
                ": text, json_object or json_schema is needed, not \"", type.substr(0, 40), "\"");
  }
  KVD_TRY(const Value wrapper, format.Object("json_schema"));
  if (wrapper.is_missing()) {
    return Fail(Code::kInvalidArgument, format.PathOf("json_schema"), ": missing");
  }
  const Value& schema = wrapper.dict().Find("schema");
  if (schema.is_missing() || schema.is_none()) return Value::Of(Dict());
  KVD_CHECK_OK(CheckSchema(format.PathOf("json_schema.schema"), schema));
  return schema;
}

// The schema of the answer: of response_format, or else of json_schema.
Result<Value> ReadAnswerSchema(const Fields& fields, const Settings& settings) {
  KVD_TRY(Value schema, ReadResponseFormat(fields));
  const Value& own = fields.Find("json_schema");
  if (!own.is_missing() && fields.Has("grammar")) {
    return Fail(Code::kInvalidArgument, "grammar: not together with json_schema");
  }
  if (!own.is_missing()) KVD_CHECK_OK(CheckSchema(fields.PathOf("json_schema"), own));
  if (!schema.is_missing()) return schema;
  if (!own.is_missing()) return own;
  return fields.Has("grammar") ? Value() : settings.defaults.json_schema;
}

Status ReadContinuation(const Fields& fields, ChatInput& input) {
  KVD_TRY(const auto add, fields.OptionalBool("add_generation_prompt"));
  bool continues = false;
  if (const Value& value = fields.Find("continue_final_message"); !value.is_missing()) {
    if (value.is_bool()) {
      continues = value.truth();
    } else if (value.is_string() && value.view() == "content") {
      continues = true;
    } else {
      return fields.Wrong("continue_final_message", "true, false or \"content\"", value);
    }
  }
  if (continues && add.value_or(false)) {
    return Fail(Code::kInvalidArgument,
                "continue_final_message: not together with add_generation_prompt");
  }
  input.has_continuation = continues || add == false;
  input.chat.continue_final_message = continues;
  input.chat.add_generation_prompt = add.value_or(true) && !continues;
  return {};
}

// "none" switches reasoning off; any other effort is a variable of the template.
Status ReadReasoning(const Fields& fields, ChatInput& input) {
  KVD_TRY(input.chat.enable_thinking, fields.OptionalBool("enable_thinking"));
  KVD_TRY(const Value variables, fields.Object("chat_template_kwargs"));
  if (!variables.is_missing()) input.chat.variables = variables;
  KVD_TRY(const std::string effort, fields.String("reasoning_effort"));
  if (effort == "none") {
    input.chat.enable_thinking = false;
  } else if (!effort.empty()) {
    Dict changed = input.chat.variables.dict();
    changed.Set("reasoning_effort", Value::String(effort));
    input.chat.variables = Value::Of(std::move(changed));
  }
  KVD_TRY(input.reasoning_format, ReadReasoningFormat(fields));
  const std::string_view budget =
      fields.Has("reasoning_budget_tokens") ? "reasoning_budget_tokens" : "thinking_budget_tokens";
  constexpr std::int64_t kBudgetMax = 1 << 30;
  KVD_TRY(const std::int64_t tokens, fields.Int(budget, -1, -1, kBudgetMax));
  input.reasoning_budget = static_cast<std::int32_t>(tokens);
  if (fields.Has("reasoning_budget_message")) {
    KVD_TRY(input.budget_message, fields.String("reasoning_budget_message"));
  }
  return {};
}

Status ReadLogprobs(const Fields& fields, AnswerRequest& request) {
  const Value& logprobs = fields.Find("logprobs");
  const bool wants = logprobs.is_bool() && logprobs.truth();
  if (!logprobs.is_missing() && !logprobs.is_bool() && !logprobs.is_int()) {
    return fields.Wrong("logprobs", "true or false", logprobs);
  }
  if (!wants) {
    if (!fields.Has("top_logprobs") || request.wants_logprobs) return {};
    return Fail(Code::kInvalidArgument, "top_logprobs: needs logprobs to be true");
  }
  KVD_TRY(const std::int64_t count,
          fields.Int("top_logprobs", kTopLogprobs, 0, wire::kLogprobsMax));
  request.wants_logprobs = true;
  request.logprob_count = static_cast<std::uint32_t>(count);
  return {};
}

}  // namespace

Result<ChatInput> ReadChatInput(const Fields& fields, const Settings& settings) {
  ChatInput input;
  const Value& messages = fields.Find("messages");
  if (messages.is_missing()) return Fail(Code::kInvalidArgument, "'messages' is required");
  input.chat.messages = messages;
  if (fields.Has("tools")) input.chat.tools = fields.Find("tools");
  const bool has_tools = input.chat.tools.is_list() && !input.chat.tools.items().empty();
  if (has_tools && !settings.uses_jinja) {
    return Fail(Code::kInvalidArgument, "tools: not with --no-jinja");
  }
  if (fields.Has("documents")) input.chat.documents = fields.Find("documents");
  KVD_TRY(input.tool_choice, ParseToolChoice(fields.Find("tool_choice")));
  KVD_TRY(input.parallel_calls, fields.Bool("parallel_tool_calls", true));
  KVD_TRY(input.answer_schema, ReadAnswerSchema(fields, settings));
  KVD_CHECK_OK(ReadContinuation(fields, input));
  KVD_CHECK_OK(ReadReasoning(fields, input));
  KVD_TRY(input.chat.chat_template, fields.String("chat_template"));
  return input;
}

Await<Result<ChatCall>> ReadChatCall(TenantSession& tenant, const Value& body,
                                     const Request& request) {
  const Settings& settings = tenant.model().settings();
  const Fields fields(body);
  ChatCall call;
  KVD_CO_TRY(call.input, ReadChatInput(fields, settings));
  call.input.id_seed = request.nonce;
  KVD_CO_TRY(call.reply, ReadReplyFields(fields, settings));
  KVD_CO_TRY(call.request, co_await ReadAnswerRequest(tenant, body));
  KVD_CO_CHECK_OK(ReadLogprobs(fields, call.request));
  // Tools have a grammar of their own, which precedes that of the command line.
  if (call.input.chat.tools.is_list() && !call.input.chat.tools.items().empty()) {
    call.request.grammar.clear();
  }
  KVD_CO_TRY(call.request.grammar, fields.String("grammar", call.request.grammar));
  if (call.request.grammar.size() > wire::kGrammarBytesMax) {
    co_return Fail(Code::kInvalidArgument, "grammar: ", call.request.grammar.size(),
                   " bytes, at most ", wire::kGrammarBytesMax);
  }
  if (call.request.grammar.empty()) call.request.triggers.clear();
  PrepareProbs(tenant.model(), call.request, call.reply);
  co_return call;
}

}  // namespace kvd::http
