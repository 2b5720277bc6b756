// ToolTable: the functions that a model may call, by name, and the types of their parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "text/value.h"

namespace kvd {

// A set of JSON's types.
enum TypeSet : std::uint8_t {
  kTypeNull = 1,
  kTypeBool = 2,
  kTypeNumber = 4,
  kTypeString = 8,
  kTypeArray = 16,
  kTypeObject = 32,
  kTypeAny = 63,
};

class ToolTable {
 public:
  // `tools` is a list of tools in OpenAI's form, or none. What does not have the form is ignored.
  explicit ToolTable(Value tools) : tools_(std::move(tools)) {}

  bool is_empty() const { return !tools_.is_list() || tools_.items().empty(); }
  // Returns the function's description ({"name", "parameters"}), or null.
  const Dict* Find(std::string_view name) const;
  // Returns the types that the parameter's schema allows; kTypeAny if nothing is known.
  TypeSet TypesOf(std::string_view name, std::string_view parameter) const;

 private:
  Value tools_;
};

// The types of the values that a schema allows, or more. `root` is the schema that references
// ("#/$defs/unit") look into.
TypeSet TypesOfSchema(const Value& schema, const Value& root);

// Returns the JSON text of a value that a model wrote without JSON's quotes. A text that is JSON,
// or Python's True, False or None, of one of the types is that value; every other text is a string.
std::string JsonOfText(std::string_view text, TypeSet types);

}  // namespace kvd
