// SchemaDocument: one schema, its parts by number, and its references.
//
// The document holds the schema's value; parts are pointers into it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/value.h"

namespace kvd::schema {

enum class NodeId : std::uint32_t {};

class SchemaDocument {
 public:
  explicit SchemaDocument(Value schema) : root_(std::move(schema)) { Add(root_, "#", false); }
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;

  static constexpr NodeId kRoot{0};

  const Value& schema(NodeId node) const { return *nodes_[Index(node)].schema; }
  // The JSON pointer of the part: "#/properties/a".
  const std::string& pointer(NodeId node) const { return nodes_[Index(node)].pointer; }

  // Returns the number of the part `schema`, which is the member `key` of `parent`. The part gets
  // its number when Part is first called with this object, which is known by its address in memory.
  NodeId Part(NodeId parent, const Value& schema, std::string_view key);

  // The part that `reference`, the text of "$ref" in `node`, refers to. Errors: kInvalidArgument:
  // no such part; kUnsupported: it refers to another document or to an anchor. The messages lack
  // the pointer.
  Result<NodeId> Resolve(NodeId node, std::string_view reference);

 private:
  struct Node {
    const Value* schema = nullptr;
    std::string pointer;
    bool has_other_base = false;  // inside a part with an "$id" of its own
  };

  static std::size_t Index(NodeId node) { return static_cast<std::size_t>(node); }
  NodeId Add(const Value& schema, std::string pointer, bool has_other_base);

  Value root_;
  std::vector<Node> nodes_;
  std::unordered_map<const Value*, NodeId> ids_;
};

}  // namespace kvd::schema
