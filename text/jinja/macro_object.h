// A macro, or the body of a call block: a function of a template with the variables around it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/script_object.h"
#include "text/jinja/syntax.h"

namespace kvd::jinja {

class MacroObject : public ScriptObject {
 public:
  MacroObject(const MacroFunction& function, std::optional<std::string> name,
              std::shared_ptr<Activation> closure)
      : function_(function), name_(std::move(name)), closure_(std::move(closure)) {}

  const MacroFunction& function() const { return function_; }
  // None: the body of a call block.
  const std::optional<std::string>& name() const { return name_; }
  std::string QuotedName() const { return name_ ? "'" + *name_ + "'" : "None"; }
  const std::shared_ptr<Activation>& closure() const { return closure_; }

  std::string_view type_name() const override { return "Macro"; }
  Result<Value> Call(Interpreter& interpreter, Arguments arguments) override {
    return interpreter.CallMacro(*this, std::move(arguments));
  }
  Result<Value> AttributeNamed(Interpreter& interpreter, std::string_view name) override;
  Status Represent(Interpreter& interpreter, std::string* text) override;

 private:
  const MacroFunction& function_;
  const std::optional<std::string> name_;
  const std::shared_ptr<Activation> closure_;
};

}  // namespace kvd::jinja
