// ShapeReader: computes the shapes of a schema's parts, each once.
//
// Lives as long as the conversion of one schema. The errors of all functions: kInvalidArgument: a
// keyword has a value that JSON Schema forbids; kUnsupported: a keyword that no grammar expresses,
// or a limit. A message begins with the JSON pointer of the keyword.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/schema/shape.h"

namespace kvd::schema {

struct ShapeLimits {
  std::uint32_t depth_max = 64;              // references and combined schemas inside each other
  std::size_t alternatives_max = 1024;       // of one shape
  std::size_t alternatives_total = 1 << 16;  // of all shapes
  std::size_t comparisons_max = 1 << 20;     // of values with alternatives, and of alternatives
};

using ShapePointer = std::shared_ptr<const Shape>;

class ShapeReader {
 public:
  ShapeReader(SchemaDocument& document, const ShapeLimits& limits)
      : document_(document), limits_(limits) {}

  // The values that satisfy all `nodes`.
  Result<ShapePointer> Of(const NodeSet& nodes);

  // Returns whether `value` satisfies every node of `nodes`. `with_formats`: the keyword "format"
  // is enforced, otherwise ignored.
  Result<bool> Accepts(const NodeSet& nodes, const Value& value, bool with_formats);

  // Returns whether no text that is written for `written` satisfies `nodes`; false if that is not
  // known. REQUIRES: written.is_written(), and it has no constants.
  Result<bool> AreDisjoint(const Alternative& written, const NodeSet& nodes);

  // The schemas that the property `name` of an object has to satisfy.
  Result<NodeSet> PropertyNodes(const ObjectSet& object, const std::string& name);

  SchemaDocument& document() { return document_; }

 private:
  friend class KeywordReader;

  Result<ShapePointer> OfNode(NodeId node);
  Result<Shape> ReadNode(NodeId node);
  Status ReadCombined(NodeId node, const Dict& keywords, Shape& shape);
  Status ReadOneOf(NodeId node, const Value& branches, Shape& shape);
  Result<Shape> Intersect(const Shape& a, const Shape& b, NodeId node);
  Result<Alternative> IntersectSameKind(const Alternative& a, const Alternative& b);
  Result<bool> AcceptsAlternative(const Alternative& one, const Value& value, bool with_formats);
  Result<bool> AcceptsString(const StringSet& set, std::string_view text, bool with_formats);
  Result<bool> AcceptsArray(const ArraySet& set, const Value& value, bool with_formats);
  Result<bool> AcceptsObject(const ObjectSet& set, const Dict& value, bool with_formats);
  Result<bool> AreDisjointKinds(const Alternative& written, const Alternative& other);
  Result<bool> AreDisjointArrays(const ArraySet& written, const ArraySet& other);
  Result<bool> AreDisjointObjects(const Alternative& written, const Alternative& other);
  // Every text written for `written` violates `other`, or the other way round.
  Result<bool> AreDisjointSets(const NodeSet& written, const NodeSet& other);
  // Returns whether an object that is written may have the property.
  Result<bool> MayWrite(const ObjectSet& object, const std::string& name);
  Status Spend(const std::string& pointer);
  Result<SharedRegex> Pattern(const std::string& pointer, std::string_view text);

  SchemaDocument& document_;
  const ShapeLimits limits_;
  std::unordered_map<std::uint32_t, ShapePointer> shapes_;  // null: being computed
  std::map<NodeSet, ShapePointer> set_shapes_;
  std::unordered_map<std::string, SharedRegex> patterns_;
  std::size_t alternative_count_ = 0;
  std::size_t comparison_count_ = 0;
  std::uint32_t depth_ = 0;
};

}  // namespace kvd::schema
