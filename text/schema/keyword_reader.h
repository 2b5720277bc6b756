// KeywordReader: reads the keywords of one part of a schema that constrain one kind of value.
//
// The errors of all functions are those of ShapeReader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/schema/shape.h"
#include "text/schema/shape_reader.h"

namespace kvd::schema {

class KeywordReader {
 public:
  KeywordReader(ShapeReader& shapes, NodeId node, const Dict& keywords)
      : shapes_(shapes), node_(node), keywords_(keywords) {}

  // Refuses keywords that no grammar expresses, unless they demand nothing.
  Status RefuseUnsupported() const;
  // The alternatives by type, with the constraints of each kind.
  Result<Shape> ReadKinds();

  // Checks a list of schemas: allOf, anyOf, oneOf. The keyword may be absent.
  Status CheckList(std::string_view keyword) const;

  std::unexpected<Error> Invalid(std::string_view keyword, std::string_view what) const;
  std::unexpected<Error> Unsupported(std::string_view keyword, std::string_view what) const;

 private:
  const Value& Find(std::string_view keyword) const { return keywords_.Find(keyword); }
  bool Contains(std::string_view keyword) const { return keywords_.Contains(keyword); }
  bool HasAny(std::initializer_list<std::string_view> keywords) const;
  bool Mentions(ValueKind kind) const;
  // A whole number from 0 on. none: the keyword is absent.
  Result<std::optional<std::uint64_t>> Count(std::string_view keyword) const;
  // Checks a number. The keyword may be absent.
  Status CheckNumber(std::string_view keyword) const;

  Status ReadTypes();
  Result<Alternative> ReadKind(ValueKind kind);
  Status ReadNumber(NumberSet& number) const;
  Status ReadString(StringSet& string) const;
  Status ReadArray(ArraySet& array) const;
  Status ReadObject(ObjectSet& object) const;
  Status ReadProperties(const Dict& properties, ObjectPart& part) const;
  Status ReadPatterns(const Dict& patterns, ObjectPart& part) const;
  Result<std::optional<NodeId>> Additional() const;

  ShapeReader& shapes_;
  NodeId node_;
  const Dict& keywords_;
  bool has_types_ = false;
  bool allows_[kTypeCount] = {};
  bool is_whole_ = false;  // "integer" without "number"
};

}  // namespace kvd::schema
