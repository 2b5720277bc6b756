#include "text/jinja/script_object.h"

namespace kvd::jinja {

// The objects that can be called keep the arguments.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Result<Value> ScriptObject::Call(Interpreter&, Arguments) {
  return Fail(Code::kInvalidArgument, "'", type_name(), "' object is not callable");
}

Result<Value> ScriptObject::SliceAt(Interpreter&, const Value&, const Value&, const Value&) {
  return Fail(Code::kInvalidArgument, "'", type_name(), "' object is not subscriptable");
}

Status ScriptObject::Represent(Interpreter&, std::string* text) {
  text->append(Concat("<", type_name(), " object>"));
  return {};
}

}  // namespace kvd::jinja
