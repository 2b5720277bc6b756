// ObjectWriter: writes the rules of one object.
//
// Properties that the schema names are written in the order of `properties`, required ones that it
// does not name there after them, and properties with other names at the end.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/schema/schema_writer.h"

namespace kvd::schema {

class ObjectWriter {
 public:
  // REQUIRES: `one` is an object; writer and `one` outlive the ObjectWriter.
  ObjectWriter(SchemaWriter& writer, const Alternative& one, const std::string& hint)
      : writer_(writer), one_(one), object_(one.object), hint_(hint) {}

  Result<GrammarExpression> Write();

 private:
  struct Member {
    GrammarExpression text;  // name, colon and value
    bool is_required = false;
  };

  // Fills members_. Returns false if a required property cannot have a value.
  Result<bool> CollectMembers();
  std::vector<std::string> Names() const;

  // Properties with names that the schema does not name: one of them; Nothing: none is written.
  Result<GrammarExpression> WriteOther();
  Result<GrammarExpression> OtherKey(const std::vector<const RegexNode*>& required,
                                     const std::vector<const RegexNode*>& excluded);
  std::vector<SharedRegex> Patterns() const;
  bool IsOpen() const;
  // The schemas of a property's value if the property is listed nowhere and its name matches all of
  // `matched` and no other pattern.
  NodeSet OtherNodes(const std::vector<SharedRegex>& matched) const;

  GrammarExpression WithoutCounts();
  GrammarExpression AfterFirst(std::size_t next);
  Result<GrammarExpression> WithCounts();
  // What follows `count` members if member `next` is the next one.
  GrammarExpression Step(std::size_t next, std::uint64_t count);
  GrammarExpression OthersAfter(std::uint64_t count);
  GrammarExpression MemberRule(std::size_t index);

  SchemaWriter& writer_;
  const Alternative& one_;
  const ObjectSet& object_;
  const std::string& hint_;
  std::vector<std::string> names_;
  RegexNode name_texts_;  // the names, as a set of texts
  std::vector<Member> members_;
  GrammarExpression other_;
  std::map<std::pair<std::size_t, std::uint64_t>, RuleId> steps_;
};

}  // namespace kvd::schema
