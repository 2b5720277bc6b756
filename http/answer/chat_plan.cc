// The prompt is the text that the template writes, as tokens. Thinking that is switched off is
// closed in the prompt where the template opens it, or does not know the switch.
#include "http/answer/chat_plan.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "http/loop/loop_workers.h"
#include "shm/wire_messages.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// Chats with more values than this are formatted on a worker.
constexpr std::uint64_t kLoopValuesMax = 2000;

std::string_view TextOf(const Value& message, std::string_view name) {
  return message.dict().Find(name).view();
}

Value With(const Value& message, std::string_view name, Value value) {
  Dict changed = message.dict();
  changed.Set(name, std::move(value));
  return Value::Of(std::move(changed));
}

bool IsImage(const Value& part) {
  const std::string_view type = TextOf(part, "type");
  return type == "image_url" || type == "input_image" || type == "image";
}

Status RefuseImages(const Value& messages) {
  if (!messages.is_list()) return {};
  for (const Value& message : messages.items()) {
    const Value& content = message.dict().Find("content");
    if (!content.is_list()) continue;
    if (std::ranges::any_of(content.items(), IsImage)) {
      return Fail(Code::kUnsupported, kNoImages);
    }
  }
  return {};
}

// The message with the text that is continued: its parts are joined as llama-server joins them; no
// content is an empty text.
Value ContinuedText(const Value& message) {
  const Value& content = message.dict().Find("content");
  if (content.is_string()) return message;
  std::string text;
  for (const Value& part : content.items()) {
    if (!text.empty()) text += "\n\n";
    text += TextOf(part, "text");
  }
  return With(message, "content", Value::String(std::move(text)));
}

bool HasCalls(const Value& message) {
  const Value& calls = message.dict().Find("tool_calls");
  return calls.is_list() && !calls.items().empty();
}

bool IsAssistant(const Value& message) { return TextOf(message, "role") == "assistant"; }

// Decides whether the last message is continued.
Status SetContinuation(const Settings& settings, bool has_continuation, ChatRequest& chat) {
  std::vector<Value> messages = chat.messages.items();
  if (messages.empty() || !IsAssistant(messages.back())) return {};
  if (!has_continuation) {
    if (!settings.continues_answers || HasCalls(messages.back())) return {};
    if (messages.size() > 1 && IsAssistant(messages[messages.size() - 2])) {
      return Fail(Code::kInvalidArgument,
                  "messages: two or more messages of the assistant at the end of the list");
    }
    chat.continue_final_message = true;
  }
  if (!chat.continue_final_message) return {};
  Value last = ContinuedText(messages.back());
  messages.pop_back();
  // A message without text begins the answer where a new message of the assistant begins.
  const bool is_empty = !HasCalls(last) && TextOf(last, "content").empty() && !messages.empty();
  if (is_empty) {
    chat.continue_final_message = false;
    chat.add_generation_prompt = true;
  } else {
    messages.push_back(std::move(last));
  }
  chat.messages = Value::List(std::move(messages));
  return {};
}

// Firefunction's template has the functions as a text in a variable of its own.
void SetFunctions(const TemplateReading& reading, ChatRequest& chat) {
  const std::string_view source = reading.formatter.source();
  if (source.find("+ functions") == std::string_view::npos) return;
  if (chat.variables.dict().Contains("functions")) return;
  JsonStyle style;
  style.indent = "  ";
  auto functions = chat.tools.is_none() ? Result<std::string>("") : WriteJson(chat.tools, style);
  Dict variables = chat.variables.dict();
  variables.Set("functions", Value::String(functions ? std::move(*functions) : std::string()));
  chat.variables = Value::Of(std::move(variables));
}

// Templates other than Harmony's know no role "developer".
void RenameDevelopers(ToolFormat format, Value& messages) {
  if (format == ToolFormat::kHarmony) return;
  std::vector<Value> renamed = messages.items();
  for (Value& message : renamed) {
    if (TextOf(message, "role") == "developer") {
      message = With(message, "role", Value::String("system"));
    }
  }
  messages = Value::List(std::move(renamed));
}

// The dates that llama-server gives to templates: "Nov 24 2026" and "24 Nov 2026".
void SetDates(Dict& variables) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  for (const auto& [name, format] :
       {std::pair("datetime", "%b %d %Y"), std::pair("date_string", "%d %b %Y")}) {
    char text[32];
    const std::size_t bytes = std::strftime(text, sizeof text, format, &local);
    if (!variables.Contains(name)) {
      variables.Set(name, Value::String(std::string(text, bytes)));
    }
  }
}

Status SetVariables(const Settings& settings, ChatRequest& chat) {
  Dict variables;
  if (settings.template_variables.is_dict()) variables = settings.template_variables.dict();
  for (const auto& [key, value] : chat.variables.dict().items()) variables.Set(key, value);
  if (const Value& thinking = variables.Find("enable_thinking"); !thinking.is_missing()) {
    if (!thinking.is_bool()) {
      return Fail(Code::kInvalidArgument,
                  "chat_template_kwargs.enable_thinking: true or false is needed");
    }
    chat.enable_thinking = thinking.truth();
  }
  SetDates(variables);
  chat.variables = Value::Of(std::move(variables));
  if (!chat.enable_thinking) chat.enable_thinking = settings.thinking;
  // Some templates close the reasoning unless the variable is true, which it is in llama-server.
  if (!chat.enable_thinking) chat.enable_thinking = settings.reasoning_budget != 0;
  return {};
}

// A chat without messages, of which some clients ask the tokens, is not refused.
Status Check(ChatRequest& chat) {
  if (!chat.messages.is_list() || !chat.messages.items().empty()) return CheckChatRequest(chat);
  Dict message;
  message.Set("role", Value::String("user"));
  ChatRequest other = chat;
  other.messages = Value::List({Value::Of(std::move(message))});
  other.continue_final_message = false;
  KVD_CHECK_OK(CheckChatRequest(other));
  chat.tools = other.tools;
  chat.continue_final_message = false;
  return {};
}

bool EndsWithTag(std::string_view text, std::string_view tag) {
  const std::size_t last = text.find_last_not_of(" \n\t\r");
  return last != std::string_view::npos && text.substr(0, last + 1).ends_with(tag);
}

// Closes the reasoning that the template has opened, or that it would leave to the model.
void CloseReasoning(const TemplateReading& reading, std::string& prompt) {
  const ReasoningTags& tags = reading.reasoning;
  if (tags.close.empty() || reading.tool_format == ToolFormat::kHarmony) return;
  if (EndsInReasoning(prompt, tags)) {
    prompt += tags.close;
    return;
  }
  const std::string_view source = reading.formatter.source();
  const bool knows_switch = source.find("thinking") != std::string_view::npos;
  if (knows_switch || tags.open.empty() || EndsWithTag(prompt, tags.close)) return;
  prompt += tags.open + tags.close;
}

Await<Result<std::string>> Format(TenantSession& tenant, const TemplateReading& reading,
                                  const ChatRequest& chat) {
  if (chat.messages.node_count() <= kLoopValuesMax) co_return reading.formatter.Format(chat);
  const auto format = [&reading, &chat] { return reading.formatter.Format(chat); };
  co_return co_await tenant.workers().Run(format);
}

// Brings the input into the format that PlanChat and FormatChat read.
Status Prepare(const Settings& settings, ChatInput& input) {
  KVD_CHECK_OK(RefuseImages(input.chat.messages));
  KVD_CHECK_OK(Check(input.chat));
  KVD_CHECK_OK(SetContinuation(settings, input.has_continuation, input.chat));
  return SetVariables(settings, input.chat);
}

Await<Result<FormattedChat>> FormatPrepared(TenantSession& tenant, ChatRequest& chat) {
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant.session());
  const bool has_tools = !chat.tools.is_none();
  KVD_CO_TRY(const std::shared_ptr<const TemplateReading> reading,
             co_await tenant.model().ReadTemplate(*session, chat.chat_template, has_tools));
  RenameDevelopers(reading->tool_format, chat.messages);
  SetFunctions(*reading, chat);
  KVD_CO_TRY(std::string prompt, co_await Format(tenant, *reading, chat));
  const bool thinks = chat.enable_thinking.value_or(true);
  if (!thinks && !chat.continue_final_message) CloseReasoning(*reading, prompt);
  FormattedChat text{.prompt = std::move(prompt),
                     .tool_format = reading->tool_format,
                     .reasoning = reading->reasoning,
                     .markers = reading->markers};
  text.starts_in_reasoning = EndsInReasoning(text.prompt, text.reasoning);
  co_return text;
}

// Errors about schemas are errors of the request.
Result<ToolGrammar> AsRequestError(Result<ToolGrammar> grammar) {
  if (!grammar && grammar.error().code == Code::kUnsupported) {
    return Fail(Code::kInvalidArgument, std::move(grammar).error().message);
  }
  return grammar;
}

Result<ToolGrammar> GrammarOf(const ChatInput& input, const FormattedChat& text) {
  const bool thinks = input.chat.enable_thinking.value_or(true) || text.starts_in_reasoning;
  const ToolGrammarOptions options{.parallel_calls = input.parallel_calls,
                                   .starts_in_reasoning = text.starts_in_reasoning,
                                   .reasoning = thinks ? text.reasoning : ReasoningTags(),
                                   .tokens = text.markers};
  const Value& tools = input.chat.tools;
  if (input.answer_schema.is_missing()) {
    return AsRequestError(MakeToolGrammar(text.tool_format, tools, input.tool_choice, options));
  }
  return AsRequestError(MakeAnswerGrammar(text.tool_format, input.answer_schema, "response_format",
                                          tools, input.tool_choice, options));
}

Await<Result<std::vector<TokenId>>> TokensOf(TenantSession& tenant, const std::string& prompt) {
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant.session());
  const std::uint16_t flags = wire::kFlagParseSpecial;
  KVD_CO_TRY(std::vector<TokenId> tokens, co_await session->Tokenize(prompt, flags));
  const std::string bos = tenant.model().bos_text();
  const bool begins_with_bos = !bos.empty() && prompt.starts_with(bos);
  if (!begins_with_bos && tenant.model().info().adds_bos != 0) {
    tokens.insert(tokens.begin(), tenant.model().info().bos_token);
  }
  co_return tokens;
}

// The tokens of reasoning that the answer may have; -1: no limit.
std::int32_t BudgetOf(const Settings& settings, const ChatInput& input, const FormattedChat& text) {
  if (text.reasoning.close.empty()) return -1;
  return input.reasoning_budget < 0 ? settings.reasoning_budget : input.reasoning_budget;
}

// The limit of the reasoning; nullopt: none. A budget of 0 closes reasoning that the prompt begins.
Await<Result<std::optional<ReasoningLimit>>> LimitOf(TenantSession& tenant, const ChatInput& input,
                                                     FormattedChat& text) {
  const Settings& settings = tenant.model().settings();
  std::optional<ReasoningLimit> limit;
  const std::int32_t budget = BudgetOf(settings, input, text);
  if (budget < 0) co_return limit;
  const std::string message = input.budget_message.value_or(settings.budget_message);
  if (budget == 0 && text.starts_in_reasoning) {
    text.prompt += message + text.reasoning.close;
    text.starts_in_reasoning = false;
  }
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant.session());
  const std::uint16_t flags = wire::kFlagParseSpecial;
  ReasoningLimit read{.token_count = static_cast<std::uint32_t>(budget),
                      .open = {},
                      .close = {},
                      .forced = {},
                      .open_text = text.reasoning.open,
                      .close_text = text.reasoning.close,
                      .starts_in_reasoning = text.starts_in_reasoning};
  KVD_CO_TRY(read.close, co_await session->Tokenize(text.reasoning.close, flags));
  KVD_CO_TRY(read.forced, co_await session->Tokenize(message, flags));
  read.forced.insert(read.forced.end(), read.close.begin(), read.close.end());
  if (!text.reasoning.open.empty()) {
    KVD_CO_TRY(read.open, co_await session->Tokenize(text.reasoning.open, flags));
  }
  if (!read.close.empty()) limit = std::move(read);
  co_return limit;
}

}  // namespace

Await<Result<FormattedChat>> FormatChat(TenantSession& tenant, ChatInput input) {
  KVD_CO_CHECK_OK(Prepare(tenant.model().settings(), input));
  KVD_CO_TRY(FormattedChat text, co_await FormatPrepared(tenant, input.chat));
  co_return text;
}

Await<Result<ChatPlan>> PlanChat(TenantSession& tenant, ChatInput input, AnswerRequest request) {
  const Settings& settings = tenant.model().settings();
  KVD_CO_CHECK_OK(Prepare(settings, input));
  ChatPlan plan;
  plan.messages = input.chat.messages;
  KVD_CO_TRY(plan.text, co_await FormatPrepared(tenant, input.chat));
  plan.has_tools = !input.chat.tools.is_none() &&
                   input.tool_choice.kind != ToolChoice::Kind::kNone && settings.parses_answers;
  if (plan.has_tools && !request.grammar.empty()) {
    co_return Fail(Code::kInvalidArgument, "grammar: not together with tools");
  }
  KVD_CO_TRY(request.reasoning_limit, co_await LimitOf(tenant, input, plan.text));
  KVD_CO_TRY(ToolGrammar grammar, GrammarOf(input, plan.text));
  if (!grammar.gbnf.empty()) {
    request.grammar = std::move(grammar.gbnf);
    request.triggers = std::move(grammar.triggers);
  }
  plan.reasoning_format = input.reasoning_format;
  if (plan.reasoning_format == ReasoningFormat::kAuto) {
    plan.reasoning_format = settings.reasoning_format;
  }
  if (plan.reasoning_format == ReasoningFormat::kAuto) {
    plan.reasoning_format = ReasoningFormat::kDeepseek;
  }
  const bool divides = settings.parses_answers && plan.reasoning_format != ReasoningFormat::kNone;
  plan.parser = {.tools = input.chat.tools,
                 .parses_calls = plan.has_tools,
                 .starts_in_reasoning = divides && plan.text.starts_in_reasoning,
                 .reasoning = divides ? plan.text.reasoning : ReasoningTags(),
                 .id_seed = input.id_seed};
  request.shows_special = request.shows_special || !plan.text.markers.empty();
  KVD_CO_TRY(request.prompt, co_await TokensOf(tenant, plan.text.prompt));
  plan.request = std::move(request);
  co_return plan;
}

}  // namespace kvd::http
