#include "text/tool_calls/tool_table.h"

#include "text/json.h"
#include "text/tool_calls/json_scanner.h"

namespace kvd {
namespace {

// Schemas that a look at one parameter visits; a parameter with more has any type.
constexpr int kSchemasMax = 1000;
constexpr int kSchemaDepthMax = 16;

TypeSet Join(TypeSet a, TypeSet b) { return static_cast<TypeSet>(a | b); }

TypeSet TypeNamed(std::string_view name) {
  if (name == "null") return kTypeNull;
  if (name == "boolean") return kTypeBool;
  if (name == "number" || name == "integer") return kTypeNumber;
  if (name == "string") return kTypeString;
  if (name == "array") return kTypeArray;
  if (name == "object") return kTypeObject;
  return kTypeAny;
}

TypeSet TypeOf(const Value& value) {
  if (value.is_none()) return kTypeNull;
  if (value.is_bool()) return kTypeBool;
  if (value.is_number()) return kTypeNumber;
  if (value.is_string()) return kTypeString;
  if (value.is_list()) return kTypeArray;
  return value.is_dict() ? kTypeObject : kTypeAny;
}

// Returns the part of `root` that a reference inside of it names; missing: none. Keys with "~" or
// "%" are not looked up.
Value Referred(std::string_view reference, const Value& root) {
  if (!reference.starts_with("#")) return {};
  reference.remove_prefix(1);
  Value part = root;
  while (!reference.empty()) {
    if (reference.front() != '/') return {};
    reference.remove_prefix(1);
    const std::string_view key = reference.substr(0, reference.find('/'));
    part = Value(part.dict().Find(key));
    if (part.is_missing()) return part;
    reference.remove_prefix(key.size());
  }
  return part;
}

TypeSet TypesOf(const Value& schema, const Value& root, int depth, int& schemas_left) {
  if (!schema.is_dict() || depth == 0 || schemas_left-- <= 0) return kTypeAny;
  const Dict& fields = schema.dict();
  if (const Value& type = fields.Find("type"); !type.is_missing()) {
    if (type.is_string()) return TypeNamed(type.view());
    if (!type.is_list()) return kTypeAny;
    TypeSet types{};
    for (const Value& item : type.items()) {
      types = Join(types, item.is_string() ? TypeNamed(item.view()) : kTypeAny);
    }
    return types;
  }
  if (const Value& reference = fields.Find("$ref"); !reference.is_missing()) {
    const Value part = Referred(reference.view(), root);
    return part.is_missing() ? kTypeAny : TypesOf(part, root, depth - 1, schemas_left);
  }
  if (const Value& value = fields.Find("const"); !value.is_missing()) return TypeOf(value);
  if (const Value& values = fields.Find("enum"); values.is_list()) {
    TypeSet types{};
    for (const Value& item : values.items()) types = Join(types, TypeOf(item));
    return types;
  }
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const Value& schemas = fields.Find(key);
    if (!schemas.is_list()) continue;
    TypeSet types{};
    for (const Value& item : schemas.items()) {
      types = Join(types, TypesOf(item, root, depth - 1, schemas_left));
      if (types == kTypeAny) break;
    }
    return types;
  }
  return kTypeAny;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

TypeSet TypesOfSchema(const Value& schema, const Value& root) {
  int schemas_left = kSchemasMax;
  return TypesOf(schema, root, kSchemaDepthMax, schemas_left);
}

const Dict* ToolTable::Find(std::string_view name) const {
  if (!tools_.is_list()) return nullptr;
  for (const Value& tool : tools_.items()) {
    if (!tool.is_dict()) continue;
    const Value& nested = tool.dict().Find("function");
    const Dict& function = nested.is_dict() ? nested.dict() : tool.dict();
    const Value& own_name = function.Find("name");
    if (own_name.is_string() && own_name.view() == name) return &function;
  }
  return nullptr;
}

TypeSet ToolTable::TypesOf(std::string_view name, std::string_view parameter) const {
  const Dict* function = Find(name);
  if (function == nullptr) return kTypeAny;
  const Value& parameters = function->Find("parameters");
  if (!parameters.is_dict()) return kTypeAny;
  const Value& properties = parameters.dict().Find("properties");
  if (!properties.is_dict()) return kTypeAny;
  const Value& schema = properties.dict().Find(parameter);
  return schema.is_missing() ? kTypeAny : TypesOfSchema(schema, parameters);
}

std::string JsonOfText(std::string_view text, TypeSet types) {
  const std::string_view word = Trimmed(text);
  if ((types & kTypeBool) != 0 && word == "True") return "true";
  if ((types & kTypeBool) != 0 && word == "False") return "false";
  if ((types & kTypeNull) != 0 && word == "None") return "null";
  if (types != kTypeString) {
    const auto value = ParseJson(word);
    if (value && (TypeOf(*value) & types & ~kTypeString) != 0) return std::string(word);
    // A model that is used to JSON writes quotes also where the format has none. Where no string is
    // allowed, the string itself is what the model meant.
    if (value && value->is_string() && (types & kTypeString) == 0) return std::string(word);
  }
  return QuotedJson(text);
}

}  // namespace kvd
