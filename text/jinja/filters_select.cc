// map, select, reject, selectattr and rejectattr: generators, which apply a filter or a test when
// an item is asked for.
#include <functional>
#include <utility>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
namespace {

using Apply = std::function<Result<Value>(Value item)>;
using Prepare = std::function<Result<Apply>()>;

// Applies a function to each item and yields its result, or the item if the result decides so. The
// source and the arguments are looked at when the first item is asked for.
class ApplyIterator : public Iterator {
 public:
  enum class Yields : std::uint8_t { kResult, kItemIfTrue, kItemIfFalse };

  ApplyIterator(Interpreter* interpreter, Value source, Prepare prepare, Yields yields)
      : interpreter_(*interpreter),
        source_(std::move(source)),
        prepare_(std::move(prepare)),
        yields_(yields) {}

  Result<std::optional<Value>> Next() override {
    if (is_done_) return std::optional<Value>();
    if (iterator_ == nullptr) KVD_CHECK_OK(Begin());
    while (!is_done_) {
      KVD_TRY(std::optional<Value> item, iterator_->Next());
      if (!item) break;
      KVD_CHECK_OK(interpreter_.budget().Step());
      KVD_TRY(Value result, apply_(*item));
      if (yields_ == Yields::kResult) return std::optional(std::move(result));
      KVD_TRY(const bool is_true, IsTrue(result));
      if (is_true == (yields_ == Yields::kItemIfTrue)) return item;
    }
    is_done_ = true;
    return std::optional<Value>();
  }

 private:
  Status Begin() {
    KVD_TRY(const bool has_items, IsTrue(source_));
    if (!has_items) {
      is_done_ = true;
      return {};
    }
    KVD_TRY(apply_, prepare_());
    KVD_TRY(iterator_, IterateOver(interpreter_, source_));
    return {};
  }

  Interpreter& interpreter_;
  const Value source_;
  const Prepare prepare_;
  const Yields yields_;
  Apply apply_;
  IteratorPtr iterator_;
  bool is_done_ = false;
};

// The filter or test with the name `arguments.positional[index]`, applied with the arguments after
// it.
Result<Apply> ApplyNamed(Interpreter* interpreter, const Arguments& arguments, std::size_t index,
                         std::string_view kind, const BuiltinRow* (*find)(std::string_view)) {
  const Value& name = arguments.positional[index];
  const BuiltinRow* row = name.is_string() ? find(name.view()) : nullptr;
  if (row == nullptr) {
    KVD_TRY(const std::string text, Str(*interpreter, name));
    return Fail(Code::kInvalidArgument, "no ", kind, " named '", text, "'");
  }
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(index) + 1);
  return [interpreter, row, rest = std::move(rest)](Value item) {
    return interpreter->Apply(*row, std::move(item), rest);
  };
}

Result<Apply> PrepareMap(Interpreter* interpreter, const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    return ApplyNamed(interpreter, arguments, 0, "filter", FindFilter);
  }
  Value attribute, fallback;
  for (const auto& [name, value] : arguments.named) {
    if (name.view() == "attribute") {
      attribute = value;
    } else if (name.view() == "default") {
      fallback = value;
    } else {
      return Fail(Code::kInvalidArgument, "unexpected keyword argument '", name.view(), "'");
    }
  }
  if (attribute.is_missing()) {
    return Fail(Code::kInvalidArgument, "map requires a filter argument");
  }
  return [interpreter, path = AttributePath(attribute), fallback](Value item) {
    return path.Of(*interpreter, std::move(item), fallback);
  };
}

Result<Apply> PrepareSelect(Interpreter* interpreter, const Arguments& arguments,
                            bool takes_attribute) {
  const std::size_t test_index = takes_attribute ? 1 : 0;
  Value attribute;
  if (takes_attribute) {
    if (arguments.positional.empty()) {
      return Fail(Code::kInvalidArgument, "missing parameter for attribute name");
    }
    attribute = arguments.positional[0];
  }
  Apply test = [](Value item) -> Result<Value> { return item; };
  if (arguments.positional.size() > test_index) {
    KVD_TRY(test, ApplyNamed(interpreter, arguments, test_index, "test", FindTest));
  }
  return [interpreter, path = AttributePath(attribute), test](Value item) -> Result<Value> {
    KVD_TRY(Value value, path.Of(*interpreter, std::move(item)));
    return test(std::move(value));
  };
}

Result<Value> Select(Invocation& call, bool takes_attribute, bool rejects) {
  Interpreter* const interpreter = &call.interpreter;
  auto prepare = [interpreter, arguments = call.arguments, takes_attribute] {
    return PrepareSelect(interpreter, arguments, takes_attribute);
  };
  return MakeGenerator(call.interpreter, std::make_unique<ApplyIterator>(
                                             interpreter, call.subject, std::move(prepare),
                                             rejects ? ApplyIterator::Yields::kItemIfFalse
                                                     : ApplyIterator::Yields::kItemIfTrue));
}

}  // namespace

Result<Value> FilterMap(Invocation& call) {
  Interpreter* const interpreter = &call.interpreter;
  auto prepare = [interpreter, arguments = call.arguments] {
    return PrepareMap(interpreter, arguments);
  };
  return MakeGenerator(call.interpreter, std::make_unique<ApplyIterator>(
                                             interpreter, call.subject, std::move(prepare),
                                             ApplyIterator::Yields::kResult));
}

Result<Value> FilterReject(Invocation& call) { return Select(call, false, true); }
Result<Value> FilterRejectAttr(Invocation& call) { return Select(call, true, true); }
Result<Value> FilterSelect(Invocation& call) { return Select(call, false, false); }
Result<Value> FilterSelectAttr(Invocation& call) { return Select(call, true, false); }

}  // namespace kvd::jinja
