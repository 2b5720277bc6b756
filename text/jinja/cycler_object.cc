#include "text/jinja/cycler_object.h"

#include "text/jinja/bound_method.h"
#include "text/jinja/interpreter.h"

namespace kvd::jinja {
namespace {

CyclerObject& CyclerOf(const Invocation& call) {
  return static_cast<CyclerObject&>(call.subject.object());
}

constexpr BuiltinRow kNext = {
    "next", "", [](Invocation& call) -> Result<Value> { return CyclerOf(call).Next(); }};
constexpr BuiltinRow kReset = {"reset", "", [](Invocation& call) -> Result<Value> {
                                 CyclerOf(call).Reset();
                                 return Value::None();
                               }};

}  // namespace

Result<Value> CyclerObject::AttributeNamed(Interpreter& interpreter, std::string_view name) {
  if (name == "current") return items_[next_];
  if (name == "pos") return Value::Int(static_cast<std::int64_t>(next_));
  if (name == "items") return interpreter.budget().Tuple(items_);
  if (name == "next") return interpreter.Make<BoundMethod>(Value::Of(*this), kNext);
  if (name == "reset") return interpreter.Make<BoundMethod>(Value::Of(*this), kReset);
  return Value();
}

Result<Value> JoinerObject::Call(Interpreter&, Arguments arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    return Fail(Code::kInvalidArgument, "a joiner takes no arguments");
  }
  if (std::exchange(is_used_, true)) return separator_;
  return Value::String("");
}

Result<Value> JoinerObject::AttributeNamed(Interpreter&, std::string_view name) {
  if (name == "sep") return separator_;
  if (name == "used") return Value::Bool(is_used_);
  return Value();
}

}  // namespace kvd::jinja
