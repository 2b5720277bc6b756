#include "text/tool_calls/argument_rules.h"

#include "text/tool_calls/tool_table.h"

namespace kvd {
namespace {

constexpr std::string_view kJsonRules = R"(json-space ::= [ \n]{0,20}
json-value ::= json-object | json-array | json-string | json-number | json-bool | json-null
json-object ::= "{" json-space (json-pair ("," json-space json-pair)*)? "}"
json-pair ::= json-string json-space ":" json-space json-value json-space
json-array ::= "[" json-space (json-value json-space ("," json-space json-value json-space)*)? "]"
json-string ::= "\"" json-char* "\""
json-char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
json-number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [+-]? [0-9]{1,2})?
json-bool ::= "true" | "false"
json-null ::= "null"
)";

}  // namespace

Status ArgumentRules::AddRule(std::string_view name, std::string_view body) {
  if (!names_.emplace(name).second) {
    return Fail(Code::kInvalidArgument, "grammar: the rule '", name, "' is there already");
  }
  text_.append(name).append(" ::= ").append(body).append("\n");
  return {};
}

Result<std::string> ArgumentRules::AddSchema(std::string_view name, const Value& schema) {
  if (!has_json_) text_.insert(0, kJsonRules);
  has_json_ = true;
  struct Row {
    TypeSet type;
    std::string_view rule;
  };
  constexpr Row kRows[] = {{kTypeObject, "json-object"}, {kTypeArray, "json-array"},
                           {kTypeString, "json-string"}, {kTypeNumber, "json-number"},
                           {kTypeBool, "json-bool"},     {kTypeNull, "json-null"}};
  const TypeSet types = TypesOfSchema(schema, schema);
  std::string body;
  for (const Row& row : kRows) {
    if ((types & row.type) == 0) continue;
    if (!body.empty()) body += " | ";
    body += row.rule;
  }
  KVD_CHECK_OK(AddRule(name, body));
  return std::string(name);
}

}  // namespace kvd
