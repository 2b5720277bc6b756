// Callable objects made of builtins: a method with its receiver, and a global function.
#pragma once

#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/script_object.h"

namespace kvd::jinja {

class BoundMethod : public ScriptObject {
 public:
  BoundMethod(Value receiver, const BuiltinRow& row) : receiver_(std::move(receiver)), row_(row) {}

  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Result<Value> Call(Interpreter& interpreter, Arguments arguments) override {
    return interpreter.Apply(row_, receiver_, std::move(arguments));
  }

 private:
  const Value receiver_;
  const BuiltinRow& row_;
};

class GlobalFunction : public ScriptObject {
 public:
  explicit GlobalFunction(const BuiltinRow& row) : row_(row) {}

  std::string_view type_name() const override { return "function"; }
  Result<Value> Call(Interpreter& interpreter, Arguments arguments) override {
    return interpreter.Apply(row_, Value(), std::move(arguments));
  }

 private:
  const BuiltinRow& row_;
};

}  // namespace kvd::jinja
