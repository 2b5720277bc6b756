// The base of all objects that the interpreter makes, and the iterators over values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/value.h"

namespace kvd::jinja {

class Interpreter;

// Yields values until the first none. Belongs to one render.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual Result<std::optional<Value>> Next() = 0;
};
using IteratorPtr = std::unique_ptr<Iterator>;

// What an object does if Python's class of the same name does it. Each default is that of an object
// without the ability.
class ScriptObject : public Object {
 public:
  // Missing if there is none. Names that begin with "_" never reach this.
  virtual Result<Value> AttributeNamed(Interpreter&, std::string_view) { return Value(); }
  // object[index]; missing if the object or the index does not allow it.
  virtual Result<Value> ItemAt(Interpreter&, const Value&) { return Value(); }
  // object[start:stop:step]; absent parts are missing.
  virtual Result<Value> SliceAt(Interpreter&, const Value& start, const Value& stop,
                                const Value& step);
  virtual Result<Value> Call(Interpreter&, Arguments);
  // Null if the object cannot be iterated over.
  virtual Result<IteratorPtr> Iterate(Interpreter&) { return IteratorPtr(); }
  virtual bool is_iterable() const { return false; }
  // Null if the object cannot be iterated over backwards.
  virtual Result<IteratorPtr> Reverse(Interpreter&) { return IteratorPtr(); }
  // None if the object has no length.
  virtual Result<std::optional<std::int64_t>> Length() { return std::optional<std::int64_t>(); }
  virtual bool has_items() const { return false; }  // object[...] is defined
  // Python's repr().
  virtual Status Represent(Interpreter&, std::string* text);
};

inline ScriptObject& ScriptOf(const Value& value) {
  return static_cast<ScriptObject&>(value.object());
}

}  // namespace kvd::jinja
