// The objects that the interpreter makes: bound methods, ranges, views of dicts, namespaces and
// macros.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/script_object.h"
#include "text/jinja/syntax.h"

namespace kvd::jinja {

// Callable objects made of builtins: a method with its receiver, and a global function.
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

// range(start, stop, step): a sequence of integers that are not stored.
class RangeObject : public ScriptObject {
 public:
  static constexpr std::int64_t kItemsMax = 100'000;

  // REQUIRES: no item overflows.
  RangeObject(std::int64_t start, std::int64_t stop, std::int64_t step, std::int64_t count)
      : start_(start), stop_(stop), step_(step), count_(count) {}

  std::int64_t count() const { return count_; }
  Value At(std::int64_t index) const { return Value::Int(start_ + index * step_); }

  std::string_view type_name() const override { return "range"; }
  // Ranges are equal if they have the same items.
  bool Equals(const Object& other) const override;
  std::size_t Hash() const override { return static_cast<std::size_t>(count_); }
  bool is_iterable() const override { return true; }
  bool has_items() const override { return true; }
  Result<Value> AttributeNamed(Interpreter&, std::string_view name) override;
  Result<Value> ItemAt(Interpreter&, const Value& index) override;
  Result<Value> SliceAt(Interpreter& interpreter, const Value& start, const Value& stop,
                        const Value& step) override;
  Result<IteratorPtr> Iterate(Interpreter&) override;
  Result<IteratorPtr> Reverse(Interpreter&) override;
  Result<std::optional<std::int64_t>> Length() override { return std::optional(count_); }
  Status Represent(Interpreter&, std::string* text) override;

 private:
  const std::int64_t start_;
  const std::int64_t stop_;
  const std::int64_t step_;
  const std::int64_t count_;
};

// Errors: kInvalidArgument: step 0, or more than kItemsMax items.
Result<Value> MakeRange(Interpreter& interpreter, std::int64_t start, std::int64_t stop,
                        std::int64_t step);

// dict.keys(), dict.values() and dict.items().
class DictView : public ScriptObject {
 public:
  enum class Part : std::uint8_t { kKeys, kValues, kItems };

  // REQUIRES: `dict` is a dict.
  DictView(Value dict, Part part) : dict_(std::move(dict)), part_(part) {}

  std::size_t count() const { return dict_.dict().size(); }
  Result<Value> At(Interpreter& interpreter, std::size_t index) const;

  std::string_view type_name() const override;
  bool is_hashable() const override { return part_ == Part::kValues; }
  bool is_iterable() const override { return true; }
  Result<IteratorPtr> Iterate(Interpreter& interpreter) override;
  Result<IteratorPtr> Reverse(Interpreter& interpreter) override;
  Result<std::optional<std::int64_t>> Length() override {
    return std::optional(static_cast<std::int64_t>(count()));
  }
  Status Represent(Interpreter& interpreter, std::string* text) override;

 private:
  const Value dict_;
  const Part part_;
};

// namespace(...): the only value whose parts a template can change.
class NamespaceObject : public ScriptObject {
 public:
  explicit NamespaceObject(Dict attributes) : attributes_(std::move(attributes)) {}

  // Errors: kInvalidArgument: `value` is not a namespace.
  static Status Check(const Value& value);

  void Set(const Value& name, const Value& value) { attributes_.Set(name, value); }

  std::string_view type_name() const override { return "Namespace"; }
  Result<Value> AttributeNamed(Interpreter&, std::string_view name) override {
    return attributes_.Find(name);
  }
  Status Represent(Interpreter& interpreter, std::string* text) override;

 private:
  Dict attributes_;
};

// A macro, or the body of a call block: a function of a template with the variables around it.
class MacroObject : public ScriptObject {
 public:
  MacroObject(const MacroFunction& function, std::optional<std::string> name,
              std::shared_ptr<CallFrame> closure)
      : function_(function), name_(std::move(name)), closure_(std::move(closure)) {}

  const MacroFunction& function() const { return function_; }
  // None: the body of a call block.
  const std::optional<std::string>& name() const { return name_; }
  std::string QuotedName() const { return name_ ? "'" + *name_ + "'" : "None"; }
  const std::shared_ptr<CallFrame>& closure() const { return closure_; }

  std::string_view type_name() const override { return "Macro"; }
  Result<Value> Call(Interpreter& interpreter, Arguments arguments) override {
    return interpreter.CallMacro(*this, std::move(arguments));
  }
  Result<Value> AttributeNamed(Interpreter& interpreter, std::string_view name) override;
  Status Represent(Interpreter& interpreter, std::string* text) override;

 private:
  const MacroFunction& function_;
  const std::optional<std::string> name_;
  const std::shared_ptr<CallFrame> closure_;
};

}  // namespace kvd::jinja
