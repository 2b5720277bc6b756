// The flags of chats: templates, reasoning and calls of functions.
#include <array>

#include "http/options/parse_flags.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// Sets a variable of the chat template.
void SetVariable(Settings& settings, std::string_view name, Value value) {
  Dict variables;
  if (settings.template_variables.is_dict()) variables = settings.template_variables.dict();
  variables.Set(name, std::move(value));
  settings.template_variables = Value::Of(std::move(variables));
}

Status TakeVariables(Settings& settings, const FlagValue& value) {
  Result<Value> parsed = ParseJson(value.text);
  if (!parsed) return value.Wrong("JSON: " + parsed.error().message);
  if (!parsed->is_dict()) return value.Wrong("a JSON object");
  for (const auto& [name, item] : parsed->dict().items()) SetVariable(settings, name.view(), item);
  return {};
}

Status TakeReasoning(Settings& settings, const FlagValue& value) {
  if (value.text == "auto" || value.text == "-1") {
    settings.thinking.reset();
    return {};
  }
  Result<bool> wanted = value.Truth();
  if (!wanted) return value.Wrong("on, off or auto");
  settings.thinking = *wanted;
  return {};
}

Status TakeReasoningFormat(Settings& settings, const FlagValue& value) {
  KVD_TRY(const std::size_t index, value.Choice("auto none deepseek deepseek-legacy"));
  settings.reasoning_format = static_cast<ReasoningFormat>(index);
  return {};
}
static_assert(static_cast<int>(ReasoningFormat::kDeepseekLegacy) == 3);

constexpr std::array kChatFlags = {
    Flag{.names = "--chat-template",
         .argument = "TEMPLATE",
         .environment = "LLAMA_ARG_CHAT_TEMPLATE",
         .help = "name of a known template, or a Jinja program; default: the model's",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.chat_template = value.text;
           return {};
         }},
    Flag{.names = "--chat-template-file",
         .argument = "FILE",
         .environment = "LLAMA_ARG_CHAT_TEMPLATE_FILE",
         .help = "file with a Jinja program",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(settings.chat_template, value.FileText());
           return {};
         }},
    Flag{.names = "--chat-template-kwargs",
         .argument = "JSON",
         .environment = "LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
         .help = "object with variables of the template",
         .take = TakeVariables},
    Flag{.names = "--jinja",
         .negatives = "--no-jinja",
         .environment = "LLAMA_ARG_JINJA",
         .help = "use Jinja templates with all their features; off: no calls of functions [on]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.uses_jinja = value.is_on;
           return {};
         }},
    Flag{.names = "--tool-format",
         .argument = "NAME",
         .help = "how the model writes calls (hermes, llama3, mistral, ...); default: as the "
                 "template shows",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.tool_format); }},
    Flag{.names = "--reasoning-format",
         .argument = "FORMAT",
         .environment = "LLAMA_ARG_THINK",
         .help = "where reasoning is in replies: none (in the content), deepseek (in "
                 "reasoning_content), deepseek-legacy (in both) or auto [auto]",
         .take = TakeReasoningFormat},
    Flag{.names = "-rea --reasoning",
         .argument = "on|off|auto",
         .environment = "LLAMA_ARG_REASONING",
         .help = "whether the model reasons before it answers; auto: as its template says [auto]",
         .take = TakeReasoning},
    Flag{.names = "--reasoning-effort",
         .argument = "LEVEL",
         .environment = "LLAMA_ARG_REASONING_EFFORT",
         .help = "level that the template receives; default: the template's",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           if (value.text != "default") {
             SetVariable(settings, "reasoning_effort", Value::String(std::string(value.text)));
           }
           return {};
         }},
    Flag{.names = "--reasoning-budget",
         .argument = "N",
         .environment = "LLAMA_ARG_THINK_BUDGET",
         .help = "tokens of reasoning; 0: none, -1: no limit [-1]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.reasoning_budget, -1, 0x7fffffff);
             }},
    Flag{.names = "--reasoning-budget-message",
         .argument = "TEXT",
         .environment = "LLAMA_ARG_THINK_BUDGET_MESSAGE",
         .help = "text before the end of reasoning whose budget is used up",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.budget_message = value.text;
           return {};
         }},
    Flag{.names = "--reasoning-preserve",
         .negatives = "--no-reasoning-preserve",
         .environment = "LLAMA_ARG_REASONING_PRESERVE",
         .help = "whether the template shows the reasoning of all earlier answers",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           SetVariable(settings, "preserve_reasoning", Value::Bool(value.is_on));
           return {};
         }},
    Flag{.names = "--skip-chat-parsing",
         .negatives = "--no-skip-chat-parsing",
         .environment = "LLAMA_ARG_SKIP_CHAT_PARSING",
         .help = "leave reasoning and calls of functions in the content",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.parses_answers = !value.is_on;
           return {};
         }},
    Flag{.names = "--prefill-assistant",
         .negatives = "--no-prefill-assistant",
         .environment = "LLAMA_ARG_PREFILL_ASSISTANT",
         .help = "continue an assistant message that comes last [on]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.continues_answers = value.is_on;
           return {};
         }},
};

}  // namespace

std::span<const Flag> ChatFlags() { return kChatFlags; }

}  // namespace kvd::http
