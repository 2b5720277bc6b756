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

// Returns the part of `root` that a reference inside of it names, or null. Keys with "~" or "%" are
// not looked up.
const Value* Referred(std::string_view reference, const Value& root) {
  if (!reference.starts_with("#")) return nullptr;
  reference.remove_prefix(1);
  const Value* part = &root;
  while (!reference.empty()) {
    if (reference.front() != '/' || !part->is_dict()) return nullptr;
    reference.remove_prefix(1);
    const std::string_view key = reference.substr(0, reference.find('/'));
    part = part->dict().Find(key);
    if (part == nullptr) return nullptr;
    reference.remove_prefix(key.size());
  }
  return part;
}

TypeSet TypesOf(const Value& schema, const Value& root, int depth, int& schemas_left) {
  if (!schema.is_dict() || depth == 0 || schemas_left-- <= 0) return kTypeAny;
  const Dict& fields = schema.dict();
  if (const Value* type = fields.Find("type"); type != nullptr) {
    if (type->is_string()) return TypeNamed(type->view());
    if (!type->is_list()) return kTypeAny;
    TypeSet types{};
    for (const Value& item : type->items()) {
      types = Join(types, item.is_string() ? TypeNamed(item.view()) : kTypeAny);
    }
    return types;
  }
  if (const Value* reference = fields.Find("$ref"); reference != nullptr) {
    const Value* part = reference->is_string() ? Referred(reference->view(), root) : nullptr;
    return part == nullptr ? kTypeAny : TypesOf(*part, root, depth - 1, schemas_left);
  }
  if (const Value* value = fields.Find("const"); value != nullptr) return TypeOf(*value);
  if (const Value* values = fields.Find("enum"); values != nullptr && values->is_list()) {
    TypeSet types{};
    for (const Value& item : values->items()) types = Join(types, TypeOf(item));
    return types;
  }
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const Value* schemas = fields.Find(key);
    if (schemas == nullptr || !schemas->is_list()) continue;
    TypeSet types{};
    for (const Value& item : schemas->items()) {
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
    const Value* function = tool.dict().Find("function");
    if (function == nullptr || !function->is_dict()) function = &tool;
    const Value* own_name = function->dict().Find("name");
    if (own_name != nullptr && own_name->is_string() && own_name->view() == name) {
      return &function->dict();
    }
  }
  return nullptr;
}

TypeSet ToolTable::TypesOf(std::string_view name, std::string_view parameter) const {
  const Dict* function = Find(name);
  if (function == nullptr) return kTypeAny;
  const Value* parameters = function->Find("parameters");
  if (parameters == nullptr || !parameters->is_dict()) return kTypeAny;
  const Value* properties = parameters->dict().Find("properties");
  if (properties == nullptr || !properties->is_dict()) return kTypeAny;
  const Value* schema = properties->dict().Find(parameter);
  return schema == nullptr ? kTypeAny : TypesOfSchema(*schema, *parameters);
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
