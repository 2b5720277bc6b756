// A probe is a small chat with words that occur nowhere else. The template reads a form if the
// rendered text has the words, and not in the notation of a Python object or of a quoted string,
// which a template writes by accident if it prints a value of a form that it does not expect.
#include "text/chat/template_traits.h"

#include <optional>
#include <utility>
#include <vector>

#include "text/json.h"
#include "text/json_builder.h"

namespace kvd {
namespace {

constexpr std::string_view kKey = "kvdkey";
constexpr std::string_view kWord = "kvdword";

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Value TextParts(const Value& text) {
  return Value::List({Json({{"type", TextValue("text")}, {"text", text}}).Take()});
}

class Probe {
 public:
  Probe(const jinja::Template& program, const Value& variables)
      : program_(program), variables_(variables) {}

  // Returns the text of the chat; empty if the template refuses the chat.
  std::string Render(std::vector<Value> messages, const Value& tools = Value::None()) const {
    Dict variables = variables_.dict();
    variables.Set("messages", Value::List(std::move(messages)));
    variables.Set("tools", tools);
    variables.Set("documents", Value::None());
    variables.Set("add_generation_prompt", Value::Bool(true));
    const auto text = program_.Render(Value::Of(std::move(variables)), kLimits);
    return text ? *text : std::string();
  }

  std::string WithContent(const Value& content) const {
    return Render({Json({{"role", TextValue("user")}, {"content", content}}).Take()});
  }

  std::string WithArguments(const Value& arguments) const {
    const Value function = Json({{"name", TextValue("probe")}, {"arguments", arguments}}).Take();
    const Value call = Json({{"id", TextValue("call00001")},
                             {"type", TextValue("function")},
                             {"function", function}})
                           .Take();
    const Value parameters =
        Json({{"type", TextValue("object")}, {"properties", Value::Of(Dict())}}).Take();
    const Value tool = Json({{"type", TextValue("function")},
                             {"function", Json({{"name", TextValue("probe")},
                                                {"description", TextValue("A probe.")},
                                                {"parameters", parameters}})
                                              .Take()}})
                           .Take();
    return Render({Json({{"role", TextValue("user")}, {"content", TextValue("Probe.")}}).Take(),
                   Json({{"role", TextValue("assistant")},
                         {"content", TextValue("")},
                         {"tool_calls", Value::List({call})}})
                       .Take(),
                   Json({{"role", TextValue("tool")},
                         {"tool_call_id", TextValue("call00001")},
                         {"name", TextValue("probe")},
                         {"content", TextValue("Probed.")}})
                       .Take()},
                  Value::List({tool}));
  }

 private:
  static constexpr jinja::RenderOptions kLimits = {
      .steps_max = 200'000, .output_bytes_max = 256u << 10, .now = std::nullopt};

  const jinja::Template& program_;
  const Value& variables_;
};

bool IsIdentifierByte(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns whether a template's text contains `name` as a whole word.
bool Names(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !IsIdentifierByte(text[at - 1])) &&
        (end == text.size() || !IsIdentifierByte(text[end]))) {
      return true;
    }
  }
  return false;
}

// Returns whether a template's text contains `name` as the name of a field: as a whole word after a
// point or a quote. Prose may contain the same word.
bool NamesField(std::string_view text, std::string_view name) {
  for (const char before : {'.', '\'', '"'}) {
    const std::string field = before + std::string(name);
    for (std::size_t at = text.find(field); at != text.npos; at = text.find(field, at + 1)) {
      const std::size_t end = at + field.size();
      if (end == text.size() || !IsIdentifierByte(text[end])) return true;
    }
  }
  return false;
}

Result<Value> AdaptedFunction(const Value& function, const TemplateTraits& traits,
                              const std::string& path) {
  const Value& arguments = function.dict().Find("arguments");
  if (arguments.is_missing()) return function;
  Value adapted = arguments;
  if (arguments.is_string() && !traits.reads_text_arguments && traits.reads_object_arguments) {
    auto parsed = ParseJson(arguments.view());
    if (!parsed || !parsed->is_dict()) {
      return Fail(Code::kInvalidArgument, path, ".function.arguments: not the text of an object: ",
                  parsed ? std::string("another value of JSON") : parsed.error().message);
    }
    adapted = std::move(*parsed);
  } else if (arguments.is_dict() && !traits.reads_object_arguments && traits.reads_text_arguments) {
    KVD_TRY(std::string text, WriteJson(arguments));
    adapted = Value::String(std::move(text));
  }
  Dict changed = function.dict();
  changed.Set("arguments", std::move(adapted));
  return Value::Of(std::move(changed));
}

Result<Value> AdaptedCalls(const Value& calls, const TemplateTraits& traits,
                           const std::string& path) {
  std::vector<Value> adapted;
  for (std::size_t i = 0; i < calls.items().size(); ++i) {
    Dict call = calls.items()[i].dict();
    KVD_TRY(Value function,
            AdaptedFunction(call.Find("function"), traits, Concat(path, ".tool_calls[", i, "]")));
    call.Set("function", std::move(function));
    adapted.push_back(Value::Of(std::move(call)));
  }
  return Value::List(std::move(adapted));
}

Value AdaptedContent(const Value& content, const TemplateTraits& traits) {
  if (content.is_string() && !traits.reads_text_content && traits.reads_content_parts) {
    return TextParts(content);
  }
  if (!content.is_list() || traits.reads_content_parts) return content;
  std::string joined;
  for (const Value& part : content.items()) {
    if (!joined.empty()) joined += '\n';
    joined += part.dict().Find("text").view();
  }
  return Value::String(std::move(joined));
}

constexpr std::string_view kReasoningFields[] = {"reasoning_content", "reasoning", "thinking"};

// Gives the reasoning the name that the template reads.
void AdaptReasoning(Dict& message, const TemplateTraits& traits) {
  if (traits.reasoning_field.empty()) return;
  const Value& present = message.Find(traits.reasoning_field);
  if (!present.is_missing() && !present.is_none()) return;
  for (const std::string_view field : kReasoningFields) {
    const Value& other = message.Find(field);
    if (!other.is_string()) continue;
    const Value text = other;
    message.Set(traits.reasoning_field, text);
    return;
  }
}

}  // namespace

TemplateTraits FindTraits(const jinja::Template& program, std::string_view program_text,
                          const Value& variables) {
  const Probe probe(program, variables);
  TemplateTraits traits;
  const std::string text_content = probe.WithContent(TextValue(kWord));
  const std::string parts_content = probe.WithContent(TextParts(TextValue(kWord)));
  traits.reads_content_parts =
      Has(parts_content, kWord) && !Has(parts_content, "'type'") && !Has(parts_content, "\"type\"");
  traits.reads_text_content = Has(text_content, kWord) || !traits.reads_content_parts;

  const std::string json = Concat("{\"", kKey, "\": \"", kWord, "\"}");
  const std::string object_arguments = probe.WithArguments(Json({{kKey, TextValue(kWord)}}).Take());
  const std::string text_arguments = probe.WithArguments(TextValue(json));
  traits.reads_object_arguments = Has(object_arguments, kKey) && Has(object_arguments, kWord) &&
                                  !Has(object_arguments, Concat("'", kKey, "'"));
  // A template that writes objects in a notation of its own passes a text on as it is.
  traits.reads_text_arguments =
      Has(text_arguments, json) && (!traits.reads_object_arguments || Has(object_arguments, json));

  for (const std::string_view field : kReasoningFields) {
    if (!NamesField(program_text, field)) continue;
    traits.reasoning_field = field;
    break;
  }
  traits.names_it_thinking =
      !Names(program_text, "enable_thinking") && Names(program_text, "thinking");
  return traits;
}

Result<Value> AdaptMessages(const Value& messages, const TemplateTraits& traits) {
  std::vector<Value> adapted;
  for (std::size_t i = 0; i < messages.items().size(); ++i) {
    Dict message = messages.items()[i].dict();
    if (const Value& content = message.Find("content"); !content.is_missing()) {
      message.Set("content", AdaptedContent(Value(content), traits));
    }
    if (const Value& calls = message.Find("tool_calls"); calls.is_list()) {
      KVD_TRY(Value changed, AdaptedCalls(Value(calls), traits, Concat("messages[", i, "]")));
      message.Set("tool_calls", std::move(changed));
    }
    AdaptReasoning(message, traits);
    adapted.push_back(Value::Of(std::move(message)));
  }
  return Value::List(std::move(adapted));
}

}  // namespace kvd
