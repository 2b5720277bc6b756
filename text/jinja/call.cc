// Calls of macros, methods, filters, tests and functions.
#include <algorithm>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
namespace {

// Takes the argument with the name away from `arguments`; missing if there is none.
Value TakeNamed(Arguments* arguments, std::string_view name) {
  const auto found = std::ranges::find_if(
      arguments->named, [name](const auto& argument) { return argument.first.view() == name; });
  if (found == arguments->named.end()) return Value();
  Value value = std::move(found->second);
  arguments->named.erase(found);
  return value;
}

// One parameter of a row's list.
struct DeclaredParameter {
  std::string_view name;
  bool is_optional = false;
};

// Removes the first parameter from `parameters` and returns it.
DeclaredParameter NextParameter(std::string_view* parameters) {
  const std::size_t end = std::min(parameters->find(' '), parameters->size());
  DeclaredParameter parameter{.name = parameters->substr(0, end)};
  parameters->remove_prefix(std::min(end + 1, parameters->size()));
  if (parameter.name.ends_with('?')) {
    parameter.is_optional = true;
    parameter.name.remove_suffix(1);
  }
  return parameter;
}

}  // namespace

Status BindArguments(const BuiltinRow& row, Invocation* invocation) {
  std::string_view parameters = row.parameters;
  if (parameters == "*") return {};
  const bool is_positional_only = parameters.starts_with('/');
  if (is_positional_only) parameters.remove_prefix(std::min<std::size_t>(2, parameters.size()));
  Arguments rest = invocation->arguments;
  std::size_t index = 0;
  for (; !parameters.empty(); ++index) {
    const DeclaredParameter parameter = NextParameter(&parameters);
    if (index < rest.positional.size()) {
      invocation->bound[index] = rest.positional[index];
      continue;
    }
    if (!is_positional_only) invocation->bound[index] = TakeNamed(&rest, parameter.name);
    if (invocation->bound[index].is_missing() && !parameter.is_optional) {
      return Fail(Code::kInvalidArgument, row.name, ": the argument '", parameter.name,
                  "' is missing");
    }
  }
  if (rest.positional.size() > index) {
    return Fail(Code::kInvalidArgument, row.name, ": takes ", index, " arguments, got ",
                rest.positional.size());
  }
  if (!rest.named.empty()) {
    return Fail(Code::kInvalidArgument, row.name, ": got an unexpected keyword argument '",
                rest.named[0].first.view(), "'");
  }
  return {};
}

Result<Value> Interpreter::Apply(const BuiltinRow& row, Value subject, Arguments arguments) {
  if (row.function == nullptr) {
    return Fail(Code::kUnsupported, row.name, ": not supported");
  }
  Invocation invocation{.interpreter = *this,
                        .name = row.name,
                        .subject = std::move(subject),
                        .arguments = std::move(arguments),
                        .bound = {}};
  KVD_CHECK_OK(BindArguments(row, &invocation));
  return row.function(invocation);
}

Result<Arguments> Interpreter::EvaluateArguments(const CallArguments& arguments) {
  Arguments evaluated;
  evaluated.positional.reserve(arguments.positional.size());
  for (const ExpressionPtr& expression : arguments.positional) {
    KVD_TRY(Value value, Evaluate(*expression));
    evaluated.positional.push_back(std::move(value));
  }
  if (arguments.more_positional != nullptr) {
    KVD_TRY(const Value more, Evaluate(*arguments.more_positional));
    KVD_CHECK_OK(AddMorePositional(more, &evaluated));
  }
  for (const auto& [name, expression] : arguments.named) {
    KVD_TRY(Value value, Evaluate(*expression));
    evaluated.named.emplace_back(name, std::move(value));
  }
  if (arguments.more_named != nullptr) {
    KVD_TRY(const Value more, Evaluate(*arguments.more_named));
    KVD_CHECK_OK(AddMoreNamed(more, &evaluated));
  }
  return evaluated;
}

Status Interpreter::AddMorePositional(const Value& more, Arguments* arguments) {
  KVD_TRY(const std::vector<Value> values, ItemsOf(*this, more));
  arguments->positional.insert(arguments->positional.end(), values.begin(), values.end());
  return {};
}

Status Interpreter::AddMoreNamed(const Value& more, Arguments* arguments) {
  if (more.is_undefined()) return FailUndefined(more);
  if (!more.is_dict()) {
    return Fail(Code::kInvalidArgument, "argument after ** must be a mapping, not ",
                TypeName(more));
  }
  for (const auto& [name, value] : more.dict().items()) {
    if (!name.is_string()) return Fail(Code::kInvalidArgument, "keywords must be strings");
    KVD_CHECK_OK(budget_.Step(1 + arguments->named.size()));
    for (const auto& [other, other_value] : arguments->named) {
      if (other.view() == name.view()) {
        return Fail(Code::kInvalidArgument, "got multiple values for keyword argument '",
                    name.view(), "'");
      }
    }
    arguments->named.emplace_back(name, value);
  }
  return {};
}

Result<Value> Interpreter::EvaluateCall(const CallExpression& call, const Value* caller) {
  const auto evaluate_arguments = [&]() -> Result<Arguments> {
    KVD_TRY(Arguments arguments, EvaluateArguments(call.arguments));
    if (caller == nullptr) return arguments;
    if (!TakeNamed(&arguments, "caller").is_missing()) {
      return Fail(Code::kInvalidArgument, "a call block passes caller itself");
    }
    arguments.named.emplace_back(Value::String("caller"), *caller);
    return arguments;
  };
  if (call.callee->kind == ExpressionKind::kAttribute) {
    // Calls a method without making an object of it.
    const auto& attribute = static_cast<const Attribute&>(*call.callee);
    KVD_TRY(const Value object, Evaluate(*attribute.object));
    const BuiltinRow* const method = FindMethod(object, attribute.name.view());
    if (method != nullptr && !IsUnsafe(*method)) {
      KVD_TRY(Arguments arguments, evaluate_arguments());
      return Apply(*method, object, std::move(arguments));
    }
    KVD_TRY(const Value callee, GetAttribute(object, attribute.name));
    KVD_TRY(Arguments arguments, evaluate_arguments());
    return Call(callee, std::move(arguments));
  }
  KVD_TRY(const Value callee, Evaluate(*call.callee));
  KVD_TRY(Arguments arguments, evaluate_arguments());
  return Call(callee, std::move(arguments));
}

Result<Value> Interpreter::Call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) return FailUndefined(callee);
  if (!callee.is_object()) {
    return Fail(Code::kInvalidArgument, "'", TypeName(callee), "' object is not callable");
  }
  return ScriptOf(callee).Call(*this, std::move(arguments));
}

Result<Value> Interpreter::CallMacro(const MacroObject& macro, Arguments arguments) {
  const Budget::Level level(&budget_);
  KVD_CHECK_OK(level.Check());
  const MacroFunction& function = macro.function();
  const std::size_t count = function.parameters.size();
  const std::size_t given = std::min(arguments.positional.size(), count);
  auto inner = std::make_shared<CallFrame>();
  inner->outer = macro.closure();
  inner->slots.resize(function.function.slot_count);
  KVD_CHECK_OK(budget_.Charge(kObjectBytes + inner->slots.size() * sizeof(Value)));

  std::vector<Value> values(count);
  bool has_caller = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = function.parameters[i].name;
    has_caller |= name == "caller";
    values[i] = i < given ? arguments.positional[i] : TakeNamed(&arguments, name);
  }
  Value caller;
  if (function.takes_caller && !has_caller) {
    caller = TakeNamed(&arguments, "caller");
    if (caller.is_missing() || caller.is_none()) {
      caller = Value::Undefined(
          {.kind = UndefinedReason::Kind::kHint, .text = "No caller defined", .object = {}});
    }
  }
  Value named;
  if (function.takes_named) {
    Dict dict;
    for (auto& [name, value] : arguments.named) dict.Set(name, std::move(value));
    KVD_TRY(named, budget_.Of(std::move(dict)));
  } else if (!arguments.named.empty()) {
    return Fail(Code::kInvalidArgument, "macro ", macro.QuotedName(),
                " takes no keyword argument '", arguments.named[0].first.view(), "'");
  }
  Value more;
  if (function.takes_more) {
    KVD_TRY(more, budget_.Tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                                 arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    return Fail(Code::kInvalidArgument, "macro ", macro.QuotedName(), " takes at most ", count,
                " argument(s)");
  }

  const std::shared_ptr<CallFrame> outer = std::exchange(frame_, std::move(inner));
  std::string text;
  const auto run = [&]() -> Status {
    if (function.takes_caller) SlotAt(function.caller_slot) = caller;
    if (function.takes_named) SlotAt(function.named_slot) = named;
    if (function.takes_more) SlotAt(function.more_slot) = more;
    for (std::size_t i = 0; i < count; ++i) SlotAt(function.parameters[i].slot) = values[i];
    KVD_CHECK_OK(Enter(function.scope));
    const std::size_t required = count - function.defaults.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Target& parameter = function.parameters[i];
      if (!values[i].is_missing()) continue;
      if (i >= required) {
        KVD_TRY(Value value, Evaluate(*function.defaults[i - required]));
        SlotAt(parameter.slot) = std::move(value);
      } else {
        SlotAt(parameter.slot) =
            Value::Undefined({.kind = UndefinedReason::Kind::kHint,
                              .text = Concat("parameter '", parameter.name, "' was not provided"),
                              .object = {}});
      }
    }
    KVD_TRY([[maybe_unused]] const Flow flow, Execute(function.body));
    return {};
  };
  const Status status = Collect(&text, run);
  frame_ = outer;
  KVD_CHECK_OK(status);
  return budget_.String(std::move(text));
}

}  // namespace kvd::jinja
