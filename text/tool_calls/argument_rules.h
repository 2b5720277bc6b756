// ArgumentRules: collects the rules of a GBNF grammar for calls, and makes rules of JSON Schemas.
//
// STUB: AddSchema gives every schema the rule of any JSON value of its types, until the converter of
// text/schema (SchemaGrammarBuilder, which has the same functions) takes its place.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/value.h"

namespace kvd {

class ArgumentRules {
 public:
  // Adds the rule `name` for the JSON texts of the values that the schema allows, and returns the
  // rule's name. Errors: kInvalidArgument: the name is taken.
  Result<std::string> AddSchema(std::string_view name, const Value& schema);
  // Adds a rule with this body. Errors: kInvalidArgument: the name is taken.
  Status AddRule(std::string_view name, std::string_view body);
  // Returns the text of the grammar.
  std::string Finish() const { return text_; }

 private:
  std::string text_;
  std::set<std::string, std::less<>> names_;
  bool has_json_ = false;
};

}  // namespace kvd
