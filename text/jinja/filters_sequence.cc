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

// Yields lists of `count` items of `source`, the last one filled up.
class BatchIterator : public Iterator {
 public:
  BatchIterator(Interpreter* interpreter, IteratorPtr source, std::int64_t count, Value fill)
      : interpreter_(*interpreter),
        source_(std::move(source)),
        count_(count),
        fill_(std::move(fill)) {}

  Result<std::optional<Value>> Next() override {
    std::vector<Value> batch;
    if (!ahead_.is_missing()) batch.push_back(std::exchange(ahead_, Value()));
    while (true) {
      KVD_TRY(std::optional<Value> item, source_->Next());
      if (!item) break;
      KVD_CHECK_OK(interpreter_.budget().Step());
      if (static_cast<std::int64_t>(batch.size()) == count_) {
        ahead_ = std::move(*item);
        KVD_TRY(Value list, interpreter_.budget().List(std::move(batch)));
        return std::optional(std::move(list));
      }
      batch.push_back(std::move(*item));
    }
    if (batch.empty()) return std::optional<Value>();
    const auto size = static_cast<std::int64_t>(batch.size());
    if (!fill_.is_missing() && !fill_.is_none() && size < count_) {
      KVD_CHECK_OK(interpreter_.budget().CheckRoom(static_cast<std::uint64_t>(count_ - size),
                                                   sizeof(Value)));
      batch.insert(batch.end(), static_cast<std::size_t>(count_ - size), fill_);
    }
    KVD_TRY(Value list, interpreter_.budget().List(std::move(batch)));
    return std::optional(std::move(list));
  }

 private:
  Interpreter& interpreter_;
  const IteratorPtr source_;
  const std::int64_t count_;
  const Value fill_;
  Value ahead_;
};

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

// Divides a list into `count` lists when it is used first.
class SliceIterator : public Iterator {
 public:
  SliceIterator(Interpreter* interpreter, Value value, Value count, Value fill)
      : interpreter_(*interpreter),
        value_(std::move(value)),
        count_value_(std::move(count)),
        fill_(std::move(fill)) {}

  Result<std::optional<Value>> Next() override {
    if (next_ < 0) KVD_CHECK_OK(Begin());
    if (next_ >= count_) return std::optional<Value>();
    const std::int64_t number = next_++;
    const auto size = static_cast<std::int64_t>(items_.size());
    const std::int64_t per_slice = size / count_, longer = size % count_;
    const std::int64_t start = number * per_slice + std::min(number, longer);
    const std::int64_t end = start + per_slice + (number < longer ? 1 : 0);
    std::vector<Value> slice(items_.begin() + start, items_.begin() + end);
    if (!fill_.is_missing() && !fill_.is_none() && number >= longer) slice.push_back(fill_);
    KVD_TRY(Value list, interpreter_.budget().List(std::move(slice)));
    return std::optional(std::move(list));
  }

 private:
  Status Begin() {
    KVD_TRY(items_, ItemsOf(interpreter_, value_));
    KVD_TRY(count_, IntegerOf(count_value_, "slice"));
    if (count_ == 0) return Fail(Code::kInvalidArgument, "integer division or modulo by zero");
    next_ = 0;
    return {};
  }

  Interpreter& interpreter_;
  const Value value_;
  const Value count_value_;
  const Value fill_;
  std::vector<Value> items_;
  std::int64_t count_ = 0;
  std::int64_t next_ = -1;  // -1: not begun
};

}  // namespace

Result<Value> FilterAttr(Invocation& call) {
  if (!call[0].is_string()) {
    return Fail(Code::kInvalidArgument, "attr: attribute name must be string, not ",
                TypeName(call[0]));
  }
  KVD_TRY(Value attribute, call.interpreter.FindAttribute(call.subject, call[0].view()));
  if (!attribute.is_missing()) return attribute;
  return Value::Undefined({.kind = UndefinedReason::Kind::kAttribute,
                           .text = std::string(call[0].view()),
                           .object = DescribeType(call.subject)});
}

Result<Value> FilterBatch(Invocation& call) {
  KVD_TRY(IteratorPtr source, IterateOver(call.interpreter, call.subject));
  const std::int64_t count = call[0].is_integral() ? call[0].integer() : -1;
  return MakeGenerator(call.interpreter, std::make_unique<BatchIterator>(
                                             &call.interpreter, std::move(source), count, call[1]));
}

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

Result<Value> FilterSlice(Invocation& call) {
  return MakeGenerator(call.interpreter, std::make_unique<SliceIterator>(
                                             &call.interpreter, call.subject, call[0], call[1]));
}

Result<Value> FilterSum(Invocation& call) {
  const AttributePath path(call[0]);
  Value sum = call.Has(1) ? call[1] : Value::Int(0);
  if (sum.is_string()) return Fail(Code::kInvalidArgument, "sum() can't sum strings");
  KVD_TRY(const IteratorPtr iterator, IterateOver(call.interpreter, call.subject));
  while (true) {
    KVD_TRY(std::optional<Value> item, iterator->Next());
    if (!item) return sum;
    KVD_CHECK_OK(call.interpreter.budget().Step());
    KVD_TRY(const Value part, path.Of(call.interpreter, std::move(*item)));
    KVD_TRY(sum, Calculate(call.interpreter, BinaryOperator::kAdd, sum, part));
  }
}

}  // namespace kvd::jinja
