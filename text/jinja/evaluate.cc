// Evaluates expressions, and finds the attributes and items of values.
#include <utility>

#include "text/characters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {

// ---- evaluate
std::unexpected<Error> Interpreter::Locate(const Error& error, const Place& place) {
  is_located_ = true;
  return Fail(error.code, AtPlace(place, error.message));
}

Result<Value> Interpreter::Evaluate(const Expression& expression) {
  if (expression.kind == ExpressionKind::kConstant) {
    return static_cast<const Constant&>(expression).value;
  }
  if (expression.kind == ExpressionKind::kName) {
    return EvaluateName(static_cast<const Name&>(expression));
  }
  const Budget::Level level(&budget_);
  const Status depth = level.Check();
  Result<Value> value =
      depth ? EvaluateKind(expression) : Fail(depth.error().code, depth.error().message);
  if (!value && !is_located_) return Locate(value.error(), expression.place);
  return value;
}

Result<Value> Interpreter::EvaluateKind(const Expression& expression) {
  KVD_CHECK_OK(budget_.Step());
  switch (expression.kind) {
    case ExpressionKind::kConstant:
    case ExpressionKind::kName: return Evaluate(expression);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple: return EvaluateItems(expression);
    case ExpressionKind::kDict: return EvaluateDict(static_cast<const DictDisplay&>(expression));
    case ExpressionKind::kUnary: return EvaluateUnary(static_cast<const Unary&>(expression));
    case ExpressionKind::kBinary: return EvaluateBinary(static_cast<const Binary&>(expression));
    case ExpressionKind::kLogical: return EvaluateLogical(static_cast<const Logical&>(expression));
    case ExpressionKind::kConcatenation:
      return EvaluateConcatenation(static_cast<const Concatenation&>(expression));
    case ExpressionKind::kComparison:
      return EvaluateComparison(static_cast<const Comparison&>(expression));
    case ExpressionKind::kConditional:
      return EvaluateConditional(static_cast<const Conditional&>(expression));
    case ExpressionKind::kAttribute: {
      const auto& attribute = static_cast<const Attribute&>(expression);
      KVD_TRY(const Value object, Evaluate(*attribute.object));
      return GetAttribute(object, attribute.name);
    }
    case ExpressionKind::kItem: return EvaluateItem(static_cast<const Item&>(expression));
    case ExpressionKind::kSlice: return Fail(Code::kInternal, "a slice outside a subscript");
    case ExpressionKind::kCall:
      return EvaluateCall(static_cast<const CallExpression&>(expression), nullptr);
    case ExpressionKind::kFilter:
      return EvaluateFilter(static_cast<const FilterExpression&>(expression));
    case ExpressionKind::kTest: return EvaluateTest(static_cast<const TestExpression&>(expression));
  }
  return Fail(Code::kInternal, "an unknown expression");
}

Result<Value> Interpreter::EvaluateName(const Name& name) {
  const Value& value = SlotAt(name.slot);
  if (!value.is_missing()) return value;
  return Value::Undefined({.kind = UndefinedReason::Kind::kName, .text = name.name, .object = {}});
}

Result<Value> Interpreter::EvaluateItems(const Expression& expression) {
  const bool is_list = expression.kind == ExpressionKind::kList;
  const std::vector<ExpressionPtr>& parts =
      is_list ? static_cast<const ListDisplay&>(expression).items
              : static_cast<const TupleDisplay&>(expression).items;
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const ExpressionPtr& part : parts) {
    KVD_TRY(Value item, Evaluate(*part));
    items.push_back(std::move(item));
  }
  return is_list ? budget_.List(std::move(items)) : budget_.Tuple(std::move(items));
}

Result<Value> Interpreter::EvaluateDict(const DictDisplay& display) {
  Dict dict;
  for (const auto& [key_expression, value_expression] : display.items) {
    KVD_TRY(Value key, Evaluate(*key_expression));
    KVD_TRY(Value value, Evaluate(*value_expression));
    if (!dict.Set(key, std::move(value))) {
      return Fail(Code::kInvalidArgument, "unhashable type: '", TypeName(key), "'");
    }
  }
  return budget_.Of(std::move(dict));
}

Result<Value> Interpreter::EvaluateUnary(const Unary& unary) {
  KVD_TRY(Value operand, Evaluate(*unary.operand));
  if (unary.op == UnaryOperator::kNot) {
    KVD_TRY(const bool is_true, IsTrue(operand));
    return Value::Bool(!is_true);
  }
  if (unary.op == UnaryOperator::kNegate) return Negate(operand);
  if (operand.is_undefined()) return FailUndefined(operand);
  if (operand.is_float()) return operand;
  if (operand.is_integral()) return Value::Int(operand.integer());
  return Fail(Code::kInvalidArgument, "bad operand type for unary +: '", TypeName(operand), "'");
}

Result<Value> Interpreter::EvaluateBinary(const Binary& binary) {
  KVD_TRY(const Value left, Evaluate(*binary.left));
  KVD_TRY(const Value right, Evaluate(*binary.right));
  return Calculate(*this, binary.op, left, right);
}

Result<Value> Interpreter::EvaluateLogical(const Logical& logical) {
  KVD_TRY(Value left, Evaluate(*logical.left));
  KVD_TRY(const bool is_true, IsTrue(left));
  if (is_true != logical.is_and) return left;
  return Evaluate(*logical.right);
}

Result<Value> Interpreter::EvaluateConcatenation(const Concatenation& concatenation) {
  std::vector<Value> parts;
  for (const ExpressionPtr& part : concatenation.parts) {
    KVD_TRY(Value value, Evaluate(*part));
    parts.push_back(std::move(value));
  }
  std::string text;
  for (const Value& part : parts) {
    KVD_CHECK_OK(AppendStr(*this, part, &text));
    KVD_CHECK_OK(budget_.CheckOutput(text.size()));
  }
  return budget_.String(std::move(text));
}

Result<Value> Interpreter::EvaluateComparison(const Comparison& comparison) {
  KVD_TRY(Value left, Evaluate(*comparison.first));
  for (const auto& [op, other] : comparison.others) {
    KVD_TRY(Value right, Evaluate(*other));
    KVD_TRY(const bool is_true, Compare(*this, op, left, right));
    if (!is_true) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Interpreter::EvaluateConditional(const Conditional& conditional) {
  KVD_TRY(const Value test, Evaluate(*conditional.test));
  KVD_TRY(const bool is_true, IsTrue(test));
  if (is_true) return Evaluate(*conditional.then);
  if (conditional.otherwise != nullptr) return Evaluate(*conditional.otherwise);
  return Value::Undefined({.kind = UndefinedReason::Kind::kHint,
                           .text =
                               "the inline if-expression evaluated to false and no else section "
                               "was defined.",
                           .object = {}});
}

Result<Value> Interpreter::EvaluateItem(const Item& item) {
  KVD_TRY(const Value object, Evaluate(*item.object));
  if (item.index->kind == ExpressionKind::kSlice) {
    const bool is_sliceable = object.is_string() || object.is_sequence() || object.is_object();
    if (item.is_constant && !is_sliceable && !object.is_undefined()) {
      // Jinja2 looks up constant items when it compiles the template; there a slice is an index.
      return Value::Undefined({.kind = UndefinedReason::Kind::kItem,
                               .text = "slice(...)",
                               .object = DescribeType(object)});
    }
    return EvaluateSlice(object, static_cast<const Slice&>(*item.index));
  }
  KVD_TRY(const Value index, Evaluate(*item.index));
  return GetItem(object, index);
}

Result<Value> Interpreter::EvaluateSlice(const Value& object, const Slice& slice) {
  Value start, stop, step;
  if (slice.start != nullptr) {
    KVD_TRY(start, Evaluate(*slice.start));
  }
  if (slice.stop != nullptr) {
    KVD_TRY(stop, Evaluate(*slice.stop));
  }
  if (slice.step != nullptr) {
    KVD_TRY(step, Evaluate(*slice.step));
  }
  if (object.is_undefined()) return FailUndefined(object);
  if (object.is_object()) return ScriptOf(object).SliceAt(*this, start, stop, step);
  if (!object.is_string() && !object.is_sequence()) {
    return Fail(Code::kInvalidArgument, "'", TypeName(object), "' object is not subscriptable");
  }
  const auto count = static_cast<std::int64_t>(object.is_string() ? object.text().code_points
                                                                  : object.items().size());
  KVD_TRY(const SliceRange range, FindSlice(count, start, stop, step));
  if (object.is_string()) return SliceString(object, range);
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(range.count));
  for (std::int64_t i = 0; i < range.count; ++i) {
    items.push_back(object.items()[static_cast<std::size_t>(range.start + i * range.step)]);
  }
  return object.is_list() ? budget_.List(std::move(items)) : budget_.Tuple(std::move(items));
}

Result<Value> Interpreter::SliceString(const Value& object, const SliceRange& range) {
  const Text& text = object.text();
  const auto start = static_cast<std::size_t>(range.start);
  const auto count = static_cast<std::size_t>(range.count);
  if (count == 0) return budget_.String("", text.is_safe);
  if (range.step == 1) {
    if (text.is_ascii()) return budget_.String(text.bytes.substr(start, count), text.is_safe);
    const std::string_view rest = std::string_view(text.bytes).substr(OffsetOf(text.bytes, start));
    return budget_.String(std::string(rest.substr(0, OffsetOf(rest, count))), text.is_safe);
  }
  const std::vector<std::uint32_t> characters = CodePointsOf(text.bytes);
  std::vector<std::uint32_t> chosen;
  for (std::int64_t i = 0; i < range.count; ++i) {
    chosen.push_back(characters[static_cast<std::size_t>(range.start + i * range.step)]);
  }
  return budget_.String(TextOf(chosen), text.is_safe);
}

Result<Value> Interpreter::EvaluateFilter(const FilterExpression& filter) {
  if (filter.filter == nullptr) {
    return Fail(Code::kInvalidArgument, "no filter named '", filter.name, "'");
  }
  Value subject;
  if (filter.subject != nullptr) {
    KVD_TRY(subject, Evaluate(*filter.subject));
  } else if (filter_text_ != nullptr) {
    subject = *filter_text_;
  }
  KVD_TRY(Arguments arguments, EvaluateArguments(filter.arguments));
  return Apply(*filter.filter, std::move(subject), std::move(arguments));
}

Result<Value> Interpreter::EvaluateTest(const TestExpression& test) {
  if (test.test == nullptr) return Fail(Code::kInvalidArgument, "no test named '", test.name, "'");
  KVD_TRY(Value subject, Evaluate(*test.subject));
  KVD_TRY(Arguments arguments, EvaluateArguments(test.arguments));
  return Apply(*test.test, std::move(subject), std::move(arguments));
}

// ---- attributes
// The attributes and items of values. As in Jinja2's immutable sandbox, object.name prefers an
// attribute (a method) and object["name"] an item; a method that changes its object is found, and
// is undefined in a way that names the reason.

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
