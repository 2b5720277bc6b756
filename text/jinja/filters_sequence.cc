// Filters of sequences, those that order values among them.
#include <algorithm>
#include <utility>

#include "text/characters.h"
#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {

// ---- filters sequence

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

// ---- filters order
// Filters that order values. The sort is stable, as Python's.

namespace {

struct Keyed {
  Value key;
  Value value;
};

// Sorts by key. After an error every comparison is false, which ends the sort quickly.
Status SortByKey(Interpreter& interpreter, std::vector<Keyed>* items, bool is_reversed) {
  Status status;
  std::ranges::stable_sort(*items, [&](const Keyed& a, const Keyed& b) {
    if (!status) return false;
    const Result<bool> is_less =
        is_reversed ? IsLess(interpreter, b.key, a.key) : IsLess(interpreter, a.key, b.key);
    if (!is_less) status = std::unexpected(is_less.error());
    return is_less.value_or(false);
  });
  return status;
}

std::vector<Value> ValuesOf(std::vector<Keyed> items) {
  std::vector<Value> values;
  values.reserve(items.size());
  for (Keyed& item : items) values.push_back(std::move(item.value));
  return values;
}

Result<Value> FindExtreme(Invocation& call, bool is_max) {
  KVD_TRY(const bool is_case_sensitive, BoolArgument(call, 0, false));
  const AttributePath path(call[1]);
  KVD_TRY(const IteratorPtr iterator, IterateOver(call.interpreter, call.subject));
  std::optional<Keyed> best;
  while (true) {
    KVD_TRY(std::optional<Value> item, iterator->Next());
    if (!item) break;
    KVD_CHECK_OK(call.interpreter.budget().Step());
    KVD_TRY(Value key, path.Of(call.interpreter, *item));
    if (!is_case_sensitive) key = IgnoreCase(key);
    if (best) {
      KVD_TRY(const bool is_better,
              Compare(call.interpreter,
                      is_max ? ComparisonOperator::kGreater : ComparisonOperator::kLess, key,
                      best->key));
      if (!is_better) continue;
    }
    best = Keyed{.key = std::move(key), .value = std::move(*item)};
  }
  if (best) return best->value;
  return Value::Undefined({.kind = UndefinedReason::Kind::kHint,
                           .text = "No aggregated item, sequence was empty.",
                           .object = {}});
}

// Yields the items whose key has not occurred before.
class UniqueIterator : public Iterator {
 public:
  UniqueIterator(Interpreter* interpreter, Value source, AttributePath path, bool is_case_sensitive)
      : interpreter_(*interpreter),
        source_(std::move(source)),
        path_(std::move(path)),
        is_case_sensitive_(is_case_sensitive) {}

  Result<std::optional<Value>> Next() override {
    if (iterator_ == nullptr) {
      KVD_TRY(iterator_, IterateOver(interpreter_, source_));
    }
    while (true) {
      KVD_TRY(std::optional<Value> item, iterator_->Next());
      if (!item) return item;
      KVD_CHECK_OK(interpreter_.budget().Step());
      KVD_TRY(Value key, path_.Of(interpreter_, *item));
      if (!is_case_sensitive_) key = IgnoreCase(key);
      if (!key.Hash()) {
        return Fail(Code::kInvalidArgument, "unhashable type: '", TypeName(key), "'");
      }
      if (seen_.Contains(key)) continue;
      KVD_CHECK_OK(interpreter_.budget().Charge(2 * sizeof(Value)));
      seen_.Set(std::move(key), Value::None());
      return item;
    }
  }

 private:
  Interpreter& interpreter_;
  const Value source_;
  IteratorPtr iterator_;
  const AttributePath path_;
  const bool is_case_sensitive_;
  Dict seen_;
};

}  // namespace

Result<Value> FilterDictSort(Invocation& call) {
  KVD_TRY(const bool is_case_sensitive, BoolArgument(call, 0, false));
  KVD_TRY(const bool is_reversed, IntegerFlagArgument(call, 2, false));
  const std::string_view by = !call.Has(1)          ? "key"
                              : call[1].is_string() ? call[1].view()
                                                    : std::string_view();
  if (by != "key" && by != "value") {
    return Fail(Code::kInvalidArgument, "you can only sort by either \"key\" or \"value\"");
  }
  if (!call.subject.is_dict()) {
    if (call.subject.is_undefined()) return FailUndefined(call.subject);
    return Fail(Code::kInvalidArgument, "'", TypeName(call.subject),
                "' object has no attribute 'items'");
  }
  std::vector<Keyed> items;
  for (const auto& [key, value] : call.subject.dict().items()) {
    const Value& chosen = by == "key" ? key : value;
    KVD_TRY(Value pair, call.interpreter.budget().Tuple({key, value}));
    items.push_back({is_case_sensitive ? chosen : IgnoreCase(chosen), std::move(pair)});
  }
  KVD_CHECK_OK(SortByKey(call.interpreter, &items, is_reversed));
  return call.interpreter.budget().List(ValuesOf(std::move(items)));
}

Result<Value> FilterSort(Invocation& call) {
  KVD_TRY(const bool is_reversed, IntegerFlagArgument(call, 0, false));
  KVD_TRY(const bool is_case_sensitive, BoolArgument(call, 1, false));
  const std::vector<AttributePath> paths = AttributePath::Several(call[2]);
  KVD_TRY(const std::vector<Value> values, ItemsOf(call.interpreter, call.subject));
  std::vector<Keyed> items;
  for (const Value& value : values) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      KVD_TRY(Value key, path.Of(call.interpreter, value));
      keys.push_back(is_case_sensitive ? std::move(key) : IgnoreCase(key));
    }
    items.push_back({Value::List(std::move(keys)), value});
  }
  KVD_CHECK_OK(SortByKey(call.interpreter, &items, is_reversed));
  return call.interpreter.budget().List(ValuesOf(std::move(items)));
}

Result<Value> FilterMin(Invocation& call) { return FindExtreme(call, false); }
Result<Value> FilterMax(Invocation& call) { return FindExtreme(call, true); }

Result<Value> FilterUnique(Invocation& call) {
  KVD_TRY(const bool is_case_sensitive, BoolArgument(call, 0, false));
  return MakeGenerator(call.interpreter,
                       std::make_unique<UniqueIterator>(&call.interpreter, call.subject,
                                                        AttributePath(call[1]), is_case_sensitive));
}

}  // namespace kvd::jinja
