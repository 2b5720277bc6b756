// SchemaWriter: writes the rules of one schema into a rule book.
//
// Each set of parts that a value has to satisfy becomes one rule, so a recursive schema becomes a
// recursive grammar. Lives as long as the conversion of one schema; the errors are those of
// ShapeReader.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/schema/rule_book.h"
#include "text/schema/shape_reader.h"
#include "text/schema/string_rules.h"

namespace kvd::schema {

class SchemaWriter {
 public:
  SchemaWriter(ShapeReader& shapes, RuleBook& book) : shapes_(shapes), book_(book) {}

  // Defines `rule` as the values of the whole schema, and the rules that it uses.
  Status Write(RuleId rule);

 private:
  friend class ObjectWriter;

  // The values that satisfy `nodes`: a reference to a rule. A new rule is named after `hint`.
  Result<GrammarExpression> ValueOf(const NodeSet& nodes, std::string_view hint);
  Result<GrammarExpression> WriteShape(const Shape& shape, const std::string& hint);
  Result<GrammarExpression> WriteAlternative(const Alternative& one, const std::string& hint);
  Result<GrammarExpression> WriteConstants(const Alternative& one);
  Result<GrammarExpression> WriteString(const Alternative& one, const std::string& hint);
  Result<GrammarExpression> WriteArray(const Alternative& one, const std::string& hint);
  Result<GrammarExpression> WritePrefix(const ArraySet& array, std::uint64_t count_max,
                                        const std::string& hint);
  // Fails unless no written text of `one` is in one of its exclusions.
  Status CheckExclusions(const Alternative& one);
  AutomatonLimits TextLimits();

  GrammarExpression Space() { return book_.Shared(SharedRule::kSpace); }
  GrammarExpression Comma() { return Sequence({Literal(","), Space()}); }

  ShapeReader& shapes_;
  RuleBook& book_;
  std::map<NodeSet, RuleId> rules_;
  std::vector<std::pair<NodeSet, RuleId>> open_;  // rules that are declared and not defined
  std::size_t text_steps_left_ = std::size_t{1} << 24;
};

}  // namespace kvd::schema
