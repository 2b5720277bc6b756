// Converts a JSON Schema (draft 2020-12) into a grammar in GBNF whose texts all satisfy the schema.
//
// The grammar is never looser than the schema: a keyword that no grammar expresses is an error that
// names the part of the schema. The grammar may be stricter: properties have the order of the
// schema, numbers and whitespace have limits, and where the schema says nothing about further
// properties or items, none are written. docs/structured_output.md has the table of keywords.
//
// The conversion needs no model and no daemon. The functions are pure; a builder is used by one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/value.h"

namespace kvd {

struct SchemaGrammarOptions {
  std::size_t schema_bytes_max = 1u << 20;  // of the schema's text
  std::uint64_t node_count_max = 1u << 18;  // values inside the schema
  std::uint32_t nesting_max = 128;          // levels of arrays and objects in the schema
  std::uint32_t depth_max = 64;             // references and combined schemas inside each other
  std::size_t rules_max = 1u << 16;         // of the grammar
  std::size_t grammar_bytes_max = 4u << 20;
  std::string root = "root";  // the name of the grammar's first rule
};

// Returns a grammar whose rule `options.root` is the texts of the schema's values. Errors:
// kInvalidArgument: the schema is not JSON, a keyword has a value that JSON Schema forbids, or no
// text satisfies the schema; kUnsupported: a keyword that no grammar expresses, or a limit. The
// message of an error about a part begins with its JSON pointer, for example
// "#/properties/a/pattern: a lookahead is not supported (at offset 3)".
Result<std::string> SchemaGrammar(const Value& schema, const SchemaGrammarOptions& options = {});
// As above; further errors: kInvalidArgument: `json` is not JSON, with line and column;
// kUnsupported: more than schema_bytes_max bytes.
Result<std::string> SchemaGrammar(std::string_view json, const SchemaGrammarOptions& options = {});

// Builds one grammar from several schemas and from rules of the caller. `options.root` is the name
// of the rule that the caller adds with AddRule, and is otherwise not used.
class SchemaGrammarBuilder {
 public:
  explicit SchemaGrammarBuilder(const SchemaGrammarOptions& options = {});
  ~SchemaGrammarBuilder();
  SchemaGrammarBuilder(SchemaGrammarBuilder&&) noexcept;
  SchemaGrammarBuilder& operator=(SchemaGrammarBuilder&&) noexcept;

  // Adds the texts of a schema, and returns the name of their rule: `name` with hyphens in place of
  // characters that a rule's name lacks, and a number if the name is taken. After an error the
  // builder is unchanged. The errors are those of SchemaGrammar.
  Result<std::string> AddSchema(std::string_view name, const Value& schema);

  // Adds a rule: `body` is the right side of "name ::= body" in GBNF, and is not checked. It may
  // refer to rules by the names that AddSchema has returned, and to the caller's rules. Errors:
  // kInvalidArgument: `name` has other characters than letters, digits and hyphens, or `body` is
  // empty; kExists: the name is taken.
  Status AddRule(std::string_view name, std::string body);

  // Returns the grammar: a line for each rule, in the order of the calls, then the shared ones.
  // Errors: kUnsupported: more than rules_max rules or grammar_bytes_max bytes.
  Result<std::string> Finish();

 private:
  struct State;
  friend Result<std::string> SchemaGrammar(const Value& schema,
                                           const SchemaGrammarOptions& options);
  Status Convert(std::uint32_t rule, const Value& schema);

  std::unique_ptr<State> state_;
};

}  // namespace kvd
