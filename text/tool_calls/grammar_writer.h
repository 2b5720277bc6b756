// GrammarWriter: writes the rules of calls in one format. A part of tool_grammar.cc.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/schema/schema_grammar.h"
#include "text/tool_calls/tool_grammar.h"
#include "text/tool_calls/tool_table.h"

namespace kvd {

struct ToolRules {
  std::string name;
  Value parameters;  // a schema
  std::string path;  // "tools[1].function.parameters"
};

class GrammarWriter {
 public:
  GrammarWriter(ToolFormat format, const ToolGrammarOptions& options)
      : format_(format), options_(options) {}

  // Adds the rule "root": the calls, after reasoning if `with_reasoning`. Errors: of the schemas.
  Status Write(const std::vector<ToolRules>& tools, bool parallel, bool with_reasoning);
  // Adds the rule "root": a value of the schema, or calls if there are tools, after reasoning.
  // Errors: of the schemas, the schema's with its path in front.
  Status WriteAnswer(const Value& schema, std::string_view schema_path,
                     const std::vector<ToolRules>& tools, bool parallel);
  Result<std::string> Finish() { return rules_.Finish(); }

  // The texts or tokens that begin the calls.
  std::vector<GrammarStart> Triggers() const;

 private:
  // The text of a marker as GBNF: a token or a literal.
  std::string Marker(std::string_view text) const;
  // Everything up to and with the marker, which occurs only at the end.
  Result<std::string> Until(std::string_view marker);

  Result<std::string> Call(const ToolRules& tool, std::size_t index);
  Result<std::string> JsonArguments(const ToolRules& tool, std::size_t index);
  Result<std::string> TaggedArguments(const ToolRules& tool, std::size_t index);
  Result<std::string> TaggedValue(const Value& schema, const std::string& rule,
                                  const ToolRules& tool);
  Result<std::string> LooseArguments(const ToolRules& tool, std::size_t index);
  Result<std::string> LooseValue(const Value& schema, const Value& root);
  Status AddLooseRules();
  Result<std::string> Reasoning();
  Result<std::string> HarmonyAnswer(const std::string& content, const std::string& calls);
  // Adds the rules of the tools, and returns the body of their calls.
  Result<std::string> AddCalls(const std::vector<ToolRules>& tools, bool parallel);
  Result<std::string> Calls(const std::string& call, bool parallel);

  ToolFormat format_;
  const ToolGrammarOptions& options_;
  SchemaGrammarBuilder rules_;
  std::map<std::string, std::string, std::less<>> until_;  // names of rules by their marker
  bool has_loose_rules_ = false;
};

// A literal of GBNF.
std::string QuotedGbnf(std::string_view text);

}  // namespace kvd
