// The attributes and items of values. As in Jinja2's immutable sandbox, object.name prefers an
// attribute (a method) and object["name"] an item; a method that changes its object is found, and
// is undefined in a way that names the reason.
#include <utility>

#include "text/characters.h"
#include "text/jinja/bound_method.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
namespace {

Value NoAttribute(const Value& object, std::string_view name) {
  return Value::Undefined({.kind = UndefinedReason::Kind::kAttribute,
                           .text = std::string(name),
                           .object = DescribeType(object)});
}

// The item of a list, tuple or string; missing if the index is none.
Result<Value> ItemOfSequence(Interpreter& interpreter, const Value& object, const Value& index) {
  if (!index.is_integral()) return Value();
  const auto count = static_cast<std::int64_t>(object.is_string() ? object.text().code_points
                                                                  : object.items().size());
  std::int64_t at = index.integer();
  if (at < 0) at += count;
  if (at < 0 || at >= count) return Value();
  const auto offset = static_cast<std::size_t>(at);
  if (!object.is_string()) return object.items()[offset];
  const Text& text = object.text();
  if (text.is_ascii())
    return interpreter.budget().String(text.bytes.substr(offset, 1), text.is_safe);
  KVD_CHECK_OK(interpreter.budget().Step(1 + text.bytes.size() / 64));
  const std::string_view rest = std::string_view(text.bytes).substr(OffsetOf(text.bytes, offset));
  return interpreter.budget().String(std::string(rest.substr(0, CharacterBytes(rest))),
                                     text.is_safe);
}

// object[index]; missing if Python raises TypeError or LookupError.
Result<Value> FindItem(Interpreter& interpreter, const Value& object, const Value& index) {
  switch (object.kind()) {
    case Value::Kind::kUndefined: return FailUndefined(object);
    case Value::Kind::kString:
    case Value::Kind::kList:
    case Value::Kind::kTuple: return ItemOfSequence(interpreter, object, index);
    case Value::Kind::kDict: {
      return object.dict().Find(index);
    }
    case Value::Kind::kObject: return ScriptOf(object).ItemAt(interpreter, index);
    default: return Value();
  }
}

}  // namespace

Result<Value> Interpreter::FindAttribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return FailUndefined(object);
  if (name.starts_with('_')) return Value();
  if (const BuiltinRow* method = FindMethod(object, name)) {
    if (!IsUnsafe(*method)) return Make<BoundMethod>(object, *method);
    return Value::Undefined({.kind = UndefinedReason::Kind::kHint,
                             .text = Concat("access to attribute '", name, "' of '",
                                            TypeName(object), "' object is unsafe."),
                             .object = {}});
  }
  if (object.is_object()) return ScriptOf(object).AttributeNamed(*this, name);
  return Value();
}

Result<Value> Interpreter::GetAttribute(const Value& object, const Value& name) {
  if (object.is_dict() && FindMethod(object, name.view()) == nullptr) {
    const Value& found = object.dict().Find(name);
    return found.is_missing() ? NoAttribute(object, name.view()) : found;
  }
  KVD_TRY(Value attribute, FindAttribute(object, name.view()));
  if (!attribute.is_missing()) return attribute;
  KVD_TRY(Value item, FindItem(*this, object, name));
  return item.is_missing() ? NoAttribute(object, name.view()) : std::move(item);
}

Result<Value> Interpreter::GetItem(const Value& object, const Value& index) {
  KVD_TRY(Value item, FindItem(*this, object, index));
  if (!item.is_missing()) return item;
  if (index.is_string()) {
    KVD_TRY(Value attribute, FindAttribute(object, index.view()));
    return attribute.is_missing() ? NoAttribute(object, index.view()) : std::move(attribute);
  }
  KVD_TRY(std::string text, Repr(*this, index));
  return Value::Undefined({.kind = UndefinedReason::Kind::kItem,
                           .text = std::move(text),
                           .object = DescribeType(object)});
}

}  // namespace kvd::jinja
