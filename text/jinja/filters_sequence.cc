#include <algorithm>
#include <utility>

#include "text/characters.h"
#include "text/jinja/attribute_path.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
namespace {

Value Hint(const char* text) {
  return Value::Undefined({.kind = UndefinedReason::Kind::kHint, .text = text, .object = {}});
}

// Yields the items of a dict as tuples, or fails at its first step.
class ItemsIterator : public Iterator {
 public:
  ItemsIterator(Interpreter* interpreter, Value dict)
      : interpreter_(*interpreter), dict_(std::move(dict)) {}

  Result<std::optional<Value>> Next() override {
    if (dict_.is_undefined()) return std::optional<Value>();
    if (!dict_.is_dict()) {
      return Fail(Code::kInvalidArgument, "can only get item pairs from a mapping");
    }
    if (next_ == dict_.dict().size()) return std::optional<Value>();
    const auto& [key, value] = dict_.dict().items()[next_++];
    KVD_TRY(Value pair, interpreter_.budget().Tuple({key, value}));
    return std::optional(std::move(pair));
  }

 private:
  Interpreter& interpreter_;
  const Value dict_;
  std::size_t next_ = 0;
};

}  // namespace

Result<Value> FilterDefault(Invocation& call) {
  KVD_TRY(const bool replaces_false, BoolArgument(call, 1, false));
  bool is_replaced = call.subject.is_undefined();
  if (!is_replaced && replaces_false) {
    KVD_TRY(const bool is_true, IsTrue(call.subject));
    is_replaced = !is_true;
  }
  if (!is_replaced) return call.subject;
  return call.Has(0) ? call[0] : Value::String("");
}

Result<Value> FilterFirst(Invocation& call) {
  KVD_TRY(const IteratorPtr iterator, IterateOver(call.interpreter, call.subject));
  KVD_TRY(const std::optional<Value> first, iterator->Next());
  return first.value_or(Hint("No first item, sequence was empty."));
}

Result<Value> FilterLast(Invocation& call) {
  if (call.subject.is_undefined()) return Hint("No last item, sequence was empty.");
  KVD_TRY(const IteratorPtr iterator, ReverseOver(call.interpreter, call.subject));
  if (iterator == nullptr) {
    return Fail(Code::kInvalidArgument, "'", TypeName(call.subject), "' object is not reversible");
  }
  KVD_TRY(const std::optional<Value> last, iterator->Next());
  return last.value_or(Hint("No last item, sequence was empty."));
}

Result<Value> FilterItems(Invocation& call) {
  return MakeGenerator(call.interpreter,
                       std::make_unique<ItemsIterator>(&call.interpreter, call.subject));
}

Result<Value> FilterJoin(Invocation& call) {
  const AttributePath path(call[1]);
  std::string separator;
  if (call.Has(0)) {
    KVD_TRY(separator, Str(call.interpreter, call[0]));
  }
  KVD_TRY(const IteratorPtr iterator, IterateOver(call.interpreter, call.subject));
  std::string text;
  bool is_first = true;
  while (true) {
    KVD_TRY(std::optional<Value> item, iterator->Next());
    if (!item) break;
    KVD_CHECK_OK(call.interpreter.budget().Step());
    KVD_TRY(const Value part, path.Of(call.interpreter, std::move(*item)));
    if (!std::exchange(is_first, false)) text += separator;
    KVD_CHECK_OK(AppendStr(call.interpreter, part, &text));
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(text.size()));
  }
  return call.interpreter.budget().String(std::move(text));
}

Result<Value> FilterLength(Invocation& call) {
  KVD_TRY(const std::optional<std::int64_t> length, LengthOf(call.subject));
  if (length) return Value::Int(*length);
  return Fail(Code::kInvalidArgument, "object of type '", TypeName(call.subject), "' has no len()");
}

Result<Value> FilterList(Invocation& call) {
  KVD_TRY(std::vector<Value> items, ItemsOf(call.interpreter, call.subject));
  return call.interpreter.budget().List(std::move(items));
}

Result<Value> FilterReverse(Invocation& call) {
  const Value& value = call.subject;
  if (value.is_string()) {
    std::vector<std::uint32_t> characters = CodePointsOf(value.view());
    std::ranges::reverse(characters);
    return TextResult(call, TextOf(characters));
  }
  KVD_TRY(IteratorPtr iterator, ReverseOver(call.interpreter, value));
  if (iterator != nullptr) {
    const std::string_view name = value.is_list()   ? "list_reverseiterator"
                                  : value.is_dict() ? "dict_reversekeyiterator"
                                                    : "reversed";
    return MakeGenerator(call.interpreter, std::move(iterator), name);
  }
  KVD_TRY(std::vector<Value> items, ItemsOf(call.interpreter, value));
  std::ranges::reverse(items);
  return call.interpreter.budget().List(std::move(items));
}

}  // namespace kvd::jinja
