// A text that continues the last message is rendered with a marker after the content of that
// message and cut at the marker, so that it ends with the content whatever the template puts after
// a message, and so that a template that trims contents does not trim this one's end.
#include "text/chat/chat_formatter.h"

#include "base/text.h"
#include "text/chat/named_formats.h"

namespace kvd {
namespace {

// Not white space for Python, whose strip() knows the separators \x1c to \x1f as white space.
constexpr std::string_view kEndMarker = "\x01kvd-end\x01";

struct ChosenTemplate {
  std::string text;
  bool is_fallback = false;
};

std::unexpected<Error> NoSuchTemplate(const ChatTexts& texts, std::string_view choice) {
  std::string names;
  for (const auto& [name, text] : texts.templates) {
    if (!name.empty()) names += name + ", ";
  }
  for (const std::string_view name : NamedFormats()) names.append(name).append(", ");
  names.resize(names.size() - 2);
  return Fail(Code::kNotFound, "chat_template: no template is named '", choice.substr(0, 64),
              "'; the names are ", names);
}

Result<ChosenTemplate> Choose(const ChatTexts& texts, std::string_view choice, bool has_tools) {
  if (choice.empty()) {
    const std::string* with_tools = has_tools ? texts.FindTemplate("tool_use") : nullptr;
    if (with_tools != nullptr) return ChosenTemplate{*with_tools};
    const std::string* own = texts.FindTemplate("");
    if (own == nullptr) own = texts.FindTemplate("default");
    if (own != nullptr) return ChosenTemplate{*own};
    return ChosenTemplate{*NamedFormatText(kDefaultFormat), true};
  }
  if (const std::string* named = texts.FindTemplate(choice)) return ChosenTemplate{*named};
  if (auto format = NamedFormatText(choice)) return ChosenTemplate{std::move(*format)};
  if (choice.find('{') != choice.npos) return ChosenTemplate{std::string(choice)};
  return NoSuchTemplate(texts, choice);
}

// The special tokens have the names of Hugging Face's tokenizers: bos_token, eos_token, ... A token
// that the vocabulary lacks is undefined.
Value TokenVariables(const ChatTexts& texts) {
  Dict tokens;
  for (const auto& [name, text] : texts.tokens) tokens.Set(name + "_token", Value::String(text));
  return Value::Of(std::move(tokens));
}

Value WithMarker(const Value& messages) {
  std::vector<Value> marked = messages.items();
  Dict last = marked.back().dict();
  last.Set("content", Value::String(Concat(last.Find("content").view(), kEndMarker)));
  marked.back() = Value::Of(std::move(last));
  return Value::List(std::move(marked));
}

}  // namespace

Result<ChatFormatter> ChatFormatter::Create(const ChatTexts& texts, std::string_view choice,
                                            bool has_tools) {
  KVD_TRY(ChosenTemplate chosen, Choose(texts, choice, has_tools));
  return Parse(texts, std::move(chosen.text), chosen.is_fallback);
}

Result<ChatFormatter> ChatFormatter::FromProgram(const ChatTexts& texts, std::string program) {
  return Parse(texts, std::move(program), false);
}

Result<ChatFormatter> ChatFormatter::Parse(const ChatTexts& texts, std::string program,
                                           bool is_fallback) {
  KVD_TRY(jinja::Template parsed, jinja::Template::Parse(program));
  Value tokens = TokenVariables(texts);
  TemplateTraits traits = FindTraits(parsed, program, tokens);
  return ChatFormatter(std::move(program), std::move(parsed), std::move(traits), std::move(tokens),
                       is_fallback);
}

Result<std::string> ChatFormatter::Format(const ChatRequest& request) const {
  const bool continues = request.continue_final_message;
  KVD_TRY(const Value messages,
          AdaptMessages(continues ? WithMarker(request.messages) : request.messages, traits_));
  Dict variables = tokens_.dict();
  variables.Set("messages", messages);
  variables.Set("tools", request.tools);
  variables.Set("documents", request.documents);
  variables.Set("add_generation_prompt", Value::Bool(request.add_generation_prompt && !continues));
  if (request.enable_thinking) {
    const Value enabled = Value::Bool(*request.enable_thinking);
    variables.Set("enable_thinking", enabled);
    if (traits_.names_it_thinking) variables.Set("thinking", enabled);
  }
  for (const auto& [key, value] : request.variables.dict().items()) variables.Set(key, value);
  KVD_TRY(std::string text, program_.Render(Value::Of(std::move(variables))));
  if (!continues) return text;
  const std::size_t end = text.rfind(kEndMarker);
  if (end == std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "continue_final_message: the template does not print the content of the last "
                "message");
  }
  text.resize(end);
  return text;
}

}  // namespace kvd
