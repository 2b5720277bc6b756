#include "text/jinja/macro_object.h"

namespace kvd::jinja {

Result<Value> MacroObject::AttributeNamed(Interpreter& interpreter, std::string_view name) {
  if (name == "name") return name_ ? Value::String(*name_) : Value::None();
  if (name == "catch_kwargs") return Value::Bool(function_.takes_named);
  if (name == "catch_varargs") return Value::Bool(function_.takes_more);
  if (name == "caller") return Value::Bool(function_.takes_caller);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const Target& parameter : function_.parameters) {
      names.push_back(Value::String(parameter.name));
    }
    return interpreter.budget().Tuple(std::move(names));
  }
  return Value();
}

Status MacroObject::Represent(Interpreter&, std::string* text) {
  text->append("<Macro ").append(name_ ? QuotedName() : "anonymous").append(">");
  return {};
}

}  // namespace kvd::jinja
