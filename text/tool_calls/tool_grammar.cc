#include "text/tool_calls/tool_grammar.h"

#include <set>

#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/grammar_writer.h"

namespace kvd {
namespace {

Result<std::vector<ToolRules>> ReadTools(const Value& tools) {
  std::vector<ToolRules> read;
  if (!tools.is_list()) return read;
  if (tools.items().size() > ToolGrammarOptions::kToolsMax) {
    return Fail(Code::kTooLarge, "tools: ", tools.items().size(), " tools, at most ",
                ToolGrammarOptions::kToolsMax);
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < tools.items().size(); ++i) {
    const std::string path = Concat("tools[", i, "].function");
    const Value& tool = tools.items()[i];
    const Value& function = tool.dict().Find("function");
    if (!function.is_dict()) {
      return Fail(Code::kInvalidArgument, path, ": not an object");
    }
    const Value& name = function.dict().Find("name");
    if (!name.is_string() || !IsFunctionName(name.view())) {
      return Fail(Code::kInvalidArgument, path,
                  ".name: not 1 to 256 letters, digits, '_', '-', '.', ':' or '/'");
    }
    if (!names.emplace(name.view()).second) {
      return Fail(Code::kInvalidArgument, path, ".name: '", name.view(), "' is there twice");
    }
    const Value& parameters = function.dict().Find("parameters");
    Value schema = parameters.is_missing() || parameters.is_none() ? Value::Of(Dict()) : parameters;
    if (!schema.is_dict()) {
      return Fail(Code::kInvalidArgument, path, ".parameters: not an object");
    }
    // The arguments of a call are an object, also where the schema does not say so.
    if (!schema.dict().Contains("type")) {
      Dict typed;
      typed.Set("type", Value::String("object"));
      for (const auto& [key, value] : schema.dict().items()) typed.Set(key, value);
      schema = Value::Of(std::move(typed));
    }
    read.push_back({std::string(name.view()), std::move(schema), path + ".parameters"});
  }
  return read;
}

// The tools that the model may call.
Result<std::vector<ToolRules>> ChosenTools(const Value& tools, const ToolChoice& choice) {
  using Kind = ToolChoice::Kind;
  KVD_TRY(std::vector<ToolRules> read, ReadTools(tools));
  if (choice.kind == Kind::kNone) return std::vector<ToolRules>();
  if (choice.kind == Kind::kFunction) {
    std::erase_if(read, [&](const ToolRules& tool) { return tool.name != choice.function; });
    if (read.empty()) {
      return Fail(Code::kInvalidArgument, "tool_choice.function.name: no tool is named '",
                  std::string_view(choice.function).substr(0, 64), "'");
    }
  }
  if (read.empty() && choice.kind != Kind::kAuto) {
    return Fail(Code::kInvalidArgument, "tool_choice: 'required' needs at least one tool");
  }
  return read;
}

}  // namespace

Result<ToolChoice> ParseToolChoice(const Value& choice) {
  using Kind = ToolChoice::Kind;
  if (choice.is_undefined() || choice.is_none()) return ToolChoice{};
  if (choice.is_string()) {
    if (choice.view() == "auto") return ToolChoice{Kind::kAuto, {}};
    if (choice.view() == "required") return ToolChoice{Kind::kRequired, {}};
    if (choice.view() == "none") return ToolChoice{Kind::kNone, {}};
    return Fail(Code::kInvalidArgument, "tool_choice: '", choice.view().substr(0, 64),
                "' is not auto, required or none");
  }
  if (!choice.is_dict()) {
    return Fail(Code::kInvalidArgument, "tool_choice: neither a text nor an object");
  }
  const Value& function = choice.dict().Find("function");
  const Value& name = function.dict().Find("name");
  if (!name.is_string() || name.view().empty()) {
    return Fail(Code::kInvalidArgument, "tool_choice.function.name: missing");
  }
  return ToolChoice{Kind::kFunction, std::string(name.view())};
}

Result<ToolGrammar> MakeToolGrammar(ToolFormat format, const Value& tools, const ToolChoice& choice,
                                    const ToolGrammarOptions& options) {
  using Kind = ToolChoice::Kind;
  KVD_TRY(const std::vector<ToolRules> read, ChosenTools(tools, choice));
  if (read.empty()) return ToolGrammar{};
  GrammarWriter writer(format, options);
  const bool is_lazy = choice.kind == Kind::kAuto;
  const bool parallel = options.parallel_calls && choice.kind != Kind::kFunction;
  KVD_CHECK_OK(writer.Write(read, parallel, !is_lazy));
  KVD_TRY(std::string gbnf, writer.Finish());
  ToolGrammar grammar{.gbnf = std::move(gbnf), .triggers = {}};
  if (is_lazy) grammar.triggers = writer.Triggers();
  return grammar;
}

Result<ToolGrammar> MakeAnswerGrammar(ToolFormat format, const Value& schema,
                                      std::string_view schema_path, const Value& tools,
                                      const ToolChoice& choice, const ToolGrammarOptions& options) {
  using Kind = ToolChoice::Kind;
  if (choice.kind == Kind::kRequired || choice.kind == Kind::kFunction) {
    return MakeToolGrammar(format, tools, choice, options);
  }
  KVD_TRY(const std::vector<ToolRules> read, ChosenTools(tools, choice));
  GrammarWriter writer(format, options);
  KVD_CHECK_OK(writer.WriteAnswer(schema, schema_path, read, options.parallel_calls));
  KVD_TRY(std::string gbnf, writer.Finish());
  return ToolGrammar{.gbnf = std::move(gbnf), .triggers = {}};
}

std::vector<std::string> GrammarMarkers(ToolFormat format, const ReasoningTags& reasoning) {
  std::vector<std::string> markers;
  // Parts of markers ("<function=", "{") are never tokens of their own.
  const auto add = [&](std::string_view text) {
    const bool is_tag = text.starts_with('<') && text.ends_with('>');
    const bool is_bracket = text.starts_with('[') && text.ends_with(']');
    if (is_tag || is_bracket) markers.emplace_back(text);
  };
  add(reasoning.open);
  add(reasoning.close);
  switch (format) {
    case ToolFormat::kHarmony:
      for (const std::string_view text :
           {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"}) {
        add(text);
      }
      return markers;
    case ToolFormat::kHermes:
      add("<tool_call>");
      add("</tool_call>");
      return markers;
    case ToolFormat::kApriel:
      add("<tool_calls>");
      add("</tool_calls>");
      return markers;
    case ToolFormat::kLfm2:
      add("<|tool_call_start|>");
      add("<|tool_call_end|>");
      return markers;
    case ToolFormat::kGemma4:
      add("<|tool_call>");
      add("<tool_call|>");
      add("<|\"|>");
      add("<|channel>");
      return markers;
    case ToolFormat::kJson:
    case ToolFormat::kLlama3: return markers;
    case ToolFormat::kQwen3Coder:
    case ToolFormat::kGlm:
    case ToolFormat::kSeed:
    case ToolFormat::kMiniMax: {
      const TaggedCallForm form = TaggedFormOf(format);
      add(FormOf(format).markers[0].text);
      for (const std::string_view text : {form.key_open, form.key_close, form.value_open,
                                          form.value_close, form.call_close, form.section_close}) {
        add(text);
      }
      return markers;
    }
    default: break;
  }
  const NamedCallForm form = NamedFormOf(format);
  add(FormOf(format).markers[0].text);
  add(form.call_open);
  for (const NamedCallForm::Marker& marker : form.markers) add(marker.text);
  add(form.call_close);
  add(form.section_close);
  return markers;
}

}  // namespace kvd
