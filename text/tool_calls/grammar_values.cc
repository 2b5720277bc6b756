// The arguments of formats that are not JSON: parameters between tags, and the values of Gemma and
// Python.
//
// A parameter that may be a string is any text up to its end tag, or one of the strings of an enum;
// other constraints of strings (lengths, patterns) have no form here and are not enforced. Other
// parameters are JSON by their schema. The values of Gemma and Python are checked by their types.
#include <algorithm>

#include "base/text.h"
#include "text/json.h"
#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/grammar_writer.h"
#include "text/tool_calls/json_scanner.h"

namespace kvd {
namespace {

struct Parameter {
  std::string name;
  Value schema;
  bool is_required = false;
};

// The properties of a schema of parameters, in their order.
std::vector<Parameter> ParametersOf(const Value& schema) {
  std::vector<Parameter> parameters;
  const Value& properties = schema.dict().Find("properties");
  if (!properties.is_dict()) return parameters;
  const Value& required = schema.dict().Find("required");
  for (const auto& [key, value] : properties.dict().items()) {
    if (!key.is_string()) continue;
    const bool is_required =
        required.is_list() &&
        std::ranges::any_of(required.items(), [&](const Value& name) { return Equal(name, key); });
    parameters.push_back({std::string(key.view()), value, is_required});
  }
  return parameters;
}

// The values of an enum or const if all are strings; otherwise empty.
std::vector<std::string> StringsOf(const Value& schema) {
  std::vector<std::string> strings;
  if (!schema.is_dict()) return strings;
  const Value& one = schema.dict().Find("const");
  if (one.is_string()) strings.emplace_back(one.view());
  const Value& values = schema.dict().Find("enum");
  if (!values.is_list()) return strings;
  for (const Value& value : values.items()) {
    if (!value.is_string()) return {};
    strings.emplace_back(value.view());
  }
  return strings;
}

// The schema of a property with the definitions of the whole schema, for its references.
Value WithDefinitions(const Value& schema, const Value& root) {
  if (!schema.is_dict()) return schema;
  Dict whole = schema.dict();
  for (const std::string_view key : {"$defs", "definitions"}) {
    const Value& definitions = root.dict().Find(key);
    if (!definitions.is_missing() && !whole.Contains(key)) whole.Set(key, definitions);
  }
  return Value::Of(std::move(whole));
}

}  // namespace

Result<std::string> GrammarWriter::TaggedValue(const Value& schema, const std::string& rule,
                                               const ToolRules& tool) {
  const TaggedCallForm form = TaggedFormOf(format_);
  const std::string line = form.has_value_lines ? "\"\\n\" " : "";
  const std::vector<std::string> strings = StringsOf(schema);
  if (!strings.empty()) {
    std::string choices;
    for (const std::string& text : strings) {
      choices += choices.empty() ? "(" : " | ";
      choices += QuotedGbnf(text);
    }
    return line + choices + ") " + line + Marker(form.value_close);
  }
  const TypeSet types = TypesOfSchema(schema, tool.parameters);
  if ((types & kTypeString) != 0) {
    KVD_TRY(const std::string rest, Until(form.value_close));
    return line + rest;
  }
  auto value = rules_.AddSchema(rule, WithDefinitions(schema, tool.parameters));
  if (!value) return FailWithin(tool.path, value.error());
  return line + *value + " " + line + Marker(form.value_close);
}

Result<std::string> GrammarWriter::TaggedArguments(const ToolRules& tool, std::size_t index) {
  const TaggedCallForm form = TaggedFormOf(format_);
  const std::string gap = form.value_open.empty() ? "" : "\"\\n\" " + Marker(form.value_open) + " ";
  std::string body;
  if (format_ == ToolFormat::kMiniMax) {
    body = QuotedGbnf(Concat(form.call_open, tool.name, form.name_close, "\n"));
  } else if (format_ == ToolFormat::kGlm) {
    body = Marker("<tool_call>") + " " + QuotedGbnf(tool.name + "\n");
  } else {
    body = Marker(FormOf(format_).markers[0].text) + " \"\\n\" " +
           QuotedGbnf(Concat(form.call_open, tool.name, form.name_close, "\n"));
  }
  const std::vector<Parameter> parameters = ParametersOf(tool.parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const std::string rule = Concat("arguments-", index, "-", i);
    KVD_TRY(const std::string value, TaggedValue(parameter.schema, rule + "-value", tool));
    KVD_CHECK_OK(
        rules_.AddRule(rule, Concat(Marker(form.key_open), " ", QuotedGbnf(parameter.name), " ",
                                    Marker(form.key_close), " ", gap, value, " \"\\n\"")));
    body += " " + rule + (parameter.is_required ? "" : "?");
  }
  if (!tool.parameters.dict().Contains("properties")) {
    KVD_TRY(const std::string rest, Until(form.value_close));
    const std::string rule = Concat("arguments-", index);
    KVD_CHECK_OK(rules_.AddRule(rule, Marker(form.key_open) + " [a-zA-Z0-9_-]{1,64} " +
                                          Marker(form.key_close) + " " + gap + rest + " \"\\n\""));
    body += " " + rule + "*";
  }
  body += " " + Marker(form.call_close);
  if (!form.section_close.empty() && format_ != ToolFormat::kMiniMax) {
    body += " \"\\n\" " + Marker(form.section_close);
  }
  return body;
}

Status GrammarWriter::AddLooseRules() {
  if (has_loose_rules_) return {};
  has_loose_rules_ = true;
  const bool is_python = format_ == ToolFormat::kLfm2;
  const std::string comma = is_python ? "\", \"" : "\",\"";
  const std::string colon = is_python ? "\": \"" : "\":\"";
  if (is_python) {
    KVD_CHECK_OK(rules_.AddRule(
        "loose-string",
        R"("\"" ([^"\\\x00-\x1F] | "\\" ["\\'nrt])* "\"" | "'" ([^'\\\x00-\x1F] | "\\" ["\\'nrt])* "'")"));
    KVD_CHECK_OK(rules_.AddRule("loose-key", "loose-string"));
    KVD_CHECK_OK(rules_.AddRule("loose-bool", R"("True" | "False")"));
    KVD_CHECK_OK(rules_.AddRule("loose-null", R"("None")"));
  } else {
    KVD_TRY(const std::string rest, Until("<|\"|>"));
    KVD_CHECK_OK(rules_.AddRule("loose-string", Marker("<|\"|>") + " " + rest));
    KVD_CHECK_OK(rules_.AddRule("loose-key", "[a-zA-Z0-9_-]{1,64} | loose-string"));
    KVD_CHECK_OK(rules_.AddRule("loose-bool", R"("true" | "false")"));
    KVD_CHECK_OK(rules_.AddRule("loose-null", R"("null" | "None")"));
  }
  KVD_CHECK_OK(rules_.AddRule(
      "loose-number",
      R"("-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [+-]? [0-9]{1,2})?)"));
  KVD_CHECK_OK(rules_.AddRule("loose-integer", R"("-"? ("0" | [1-9] [0-9]{0,15}))"));
  KVD_CHECK_OK(rules_.AddRule("loose-pair", "loose-key " + colon + " loose-value"));
  KVD_CHECK_OK(
      rules_.AddRule("loose-object", "\"{\" (loose-pair (" + comma + " loose-pair)*)? \"}\""));
  KVD_CHECK_OK(
      rules_.AddRule("loose-array", "\"[\" (loose-value (" + comma + " loose-value)*)? \"]\""));
  return rules_.AddRule("loose-value",
                        "loose-string | loose-number | loose-bool | loose-null | loose-array | "
                        "loose-object");
}

Result<std::string> GrammarWriter::LooseValue(const Value& schema, const Value& root) {
  const std::vector<std::string> strings = StringsOf(schema);
  if (!strings.empty()) {
    const bool is_python = format_ == ToolFormat::kLfm2;
    std::string choices;
    for (const std::string& text : strings) {
      choices += choices.empty() ? "(" : " | ";
      choices += is_python ? QuotedGbnf(QuotedJson(text))
                           : Marker("<|\"|>") + " " + QuotedGbnf(text) + " " + Marker("<|\"|>");
    }
    return choices + ")";
  }
  const TypeSet types = TypesOfSchema(schema, root);
  if (types == kTypeAny) return std::string("loose-value");
  const Value& type = schema.dict().Find("type");
  const bool is_integer = type.is_string() && type.view() == "integer";
  const std::pair<TypeSet, std::string_view> rows[] = {
      {kTypeString, "loose-string"}, {kTypeNumber, is_integer ? "loose-integer" : "loose-number"},
      {kTypeBool, "loose-bool"},     {kTypeNull, "loose-null"},
      {kTypeArray, "loose-array"},   {kTypeObject, "loose-object"}};
  std::string choices;
  for (const auto& [kind, rule] : rows) {
    if ((types & kind) == 0) continue;
    choices += choices.empty() ? "(" : " | ";
    choices += rule;
  }
  return choices + ")";
}

// Parameters in one order with optional ones: after the first parameter that is there, each one has
// a comma in front of it. Rule i is what may follow when a comma is needed.
Result<std::string> GrammarWriter::LooseArguments(const ToolRules& tool, std::size_t index) {
  KVD_CHECK_OK(AddLooseRules());
  const bool is_python = format_ == ToolFormat::kLfm2;
  std::vector<Parameter> parameters = ParametersOf(tool.parameters);
  // Gemma's template sorts the parameters.
  if (!is_python) std::ranges::sort(parameters, {}, &Parameter::name);
  std::vector<std::string> pairs;
  for (const Parameter& parameter : parameters) {
    KVD_TRY(const std::string value, LooseValue(parameter.schema, tool.parameters));
    pairs.push_back(QuotedGbnf(parameter.name + (is_python ? "=" : ":")) + " " + value);
  }
  std::string arguments;
  // From the last parameter to the first: `rest` follows a parameter, `start` follows the bracket.
  std::string rest;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const std::string rule = Concat("arguments-", index, "-", i);
    const std::string pair = rule + "-pair";
    KVD_CHECK_OK(rules_.AddRule(pair, pairs[i]));
    const std::string here = rest.empty() ? pair : Concat(pair, " ", rest);
    const bool is_required = parameters[i].is_required;
    arguments = is_required         ? here
                : arguments.empty() ? Concat(here, " | \"\"")
                                    : Concat(here, " | ", arguments);
    std::string body = Concat(is_python ? "\", \" " : "\",\" ", here);
    if (!is_required) body += rest.empty() ? " | \"\"" : Concat(" | ", rest);
    KVD_CHECK_OK(rules_.AddRule(rule, body));
    KVD_CHECK_OK(rules_.AddRule(rule + "-first", arguments));
    arguments = rule + "-first";
    rest = rule;
  }
  if (!tool.parameters.dict().Contains("properties")) {
    const std::string pair = is_python ? "[a-zA-Z0-9_]{1,64} \"=\" loose-value" : "loose-pair";
    const std::string comma = is_python ? "\", \" " : "\",\" ";
    arguments = "(" + pair + " (" + comma + pair + ")*)?";
  }
  if (!arguments.empty()) arguments = " " + arguments;
  if (is_python) return QuotedGbnf(tool.name + "(") + arguments + " \")\"";
  return Marker("<|tool_call>") + " " + QuotedGbnf("call:" + tool.name + "{") + arguments +
         " \"}\" " + Marker("<tool_call|>");
}

}  // namespace kvd
