#include "text/jinja/objects.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {

// ---- range object

namespace {

class RangeIterator : public Iterator {
 public:
  // Yields the items at first, first + stride, ... before `end`.
  RangeIterator(const RangeObject* range, std::int64_t first, std::int64_t stride)
      : range_(*range), next_(first), stride_(stride) {}
  Result<std::optional<Value>> Next() override {
    if (next_ < 0 || next_ >= range_.count()) return std::optional<Value>();
    const Value item = range_.At(next_);
    next_ += stride_;
    return std::optional(item);
  }

 private:
  const RangeObject& range_;
  std::int64_t next_;
  const std::int64_t stride_;
};

}  // namespace

Result<Value> MakeRange(Interpreter& interpreter, std::int64_t start, std::int64_t stop,
                        std::int64_t step) {
  if (step == 0) return Fail(Code::kInvalidArgument, "range() arg 3 must not be zero");
  const bool is_empty = step > 0 ? start >= stop : start <= stop;
  std::uint64_t count = 0;
  if (!is_empty) {
    const auto low = static_cast<std::uint64_t>(step > 0 ? start : stop);
    const auto high = static_cast<std::uint64_t>(step > 0 ? stop : start);
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step)
                                          : std::uint64_t{0} - static_cast<std::uint64_t>(step);
    count = (high - low - 1) / stride + 1;
  }
  if (count > static_cast<std::uint64_t>(RangeObject::kItemsMax)) {
    return Fail(Code::kInvalidArgument, "range too big: at most ", RangeObject::kItemsMax,
                " items");
  }
  return interpreter.Make<RangeObject>(start, stop, step, static_cast<std::int64_t>(count));
}

bool RangeObject::Equals(const Object& other) const {
  const auto* range = dynamic_cast<const RangeObject*>(&other);
  if (range == nullptr || range->count_ != count_) return false;
  return count_ == 0 || (range->start_ == start_ && (count_ == 1 || range->step_ == step_));
}

Result<Value> RangeObject::AttributeNamed(Interpreter&, std::string_view name) {
  if (name == "start") return Value::Int(start_);
  if (name == "stop") return Value::Int(stop_);
  if (name == "step") return Value::Int(step_);
  return Value();
}

Result<Value> RangeObject::ItemAt(Interpreter&, const Value& index) {
  if (!index.is_integral()) return Value();
  std::int64_t at = index.integer();
  if (at < 0) at += count_;
  return at < 0 || at >= count_ ? Value() : At(at);
}

Result<Value> RangeObject::SliceAt(Interpreter& interpreter, const Value& start, const Value& stop,
                                   const Value& step) {
  KVD_TRY(const SliceRange slice, FindSlice(count_, start, stop, step));
  std::int64_t stride = 0, end = 0;
  const std::int64_t first = start_ + slice.start * step_;
  if (__builtin_mul_overflow(slice.step, step_, &stride) ||
      __builtin_mul_overflow(slice.count, stride, &end) ||
      __builtin_add_overflow(first, end, &end)) {
    return Fail(Code::kUnsupported, "an integer exceeds 64 bits");
  }
  return MakeRange(interpreter, first, end, stride);
}

Result<IteratorPtr> RangeObject::Iterate(Interpreter&) {
  return std::make_unique<RangeIterator>(this, 0, 1);
}

Result<IteratorPtr> RangeObject::Reverse(Interpreter&) {
  return std::make_unique<RangeIterator>(this, count_ - 1, -1);
}

Status RangeObject::Represent(Interpreter&, std::string* text) {
  text->append(step_ == 1 ? Concat("range(", start_, ", ", stop_, ")")
                          : Concat("range(", start_, ", ", stop_, ", ", step_, ")"));
  return {};
}

// ---- dict view

namespace {

class ViewIterator : public Iterator {
 public:
  ViewIterator(Interpreter* interpreter, const DictView* view, bool is_backward)
      : interpreter_(*interpreter), view_(*view), is_backward_(is_backward) {}
  Result<std::optional<Value>> Next() override {
    if (next_ == view_.count()) return std::optional<Value>();
    const std::size_t index = is_backward_ ? view_.count() - 1 - next_ : next_;
    ++next_;
    KVD_TRY(Value item, view_.At(interpreter_, index));
    return std::optional(std::move(item));
  }

 private:
  Interpreter& interpreter_;
  const DictView& view_;
  const bool is_backward_;
  std::size_t next_ = 0;
};

}  // namespace

Result<Value> DictView::At(Interpreter& interpreter, std::size_t index) const {
  const auto& [key, value] = dict_.dict().items()[index];
  if (part_ == Part::kKeys) return key;
  if (part_ == Part::kValues) return value;
  return interpreter.budget().Tuple({key, value});
}

std::string_view DictView::type_name() const {
  switch (part_) {
    case Part::kKeys: return "dict_keys";
    case Part::kValues: return "dict_values";
    case Part::kItems: return "dict_items";
  }
  return "";
}

Result<IteratorPtr> DictView::Iterate(Interpreter& interpreter) {
  return std::make_unique<ViewIterator>(&interpreter, this, false);
}

Result<IteratorPtr> DictView::Reverse(Interpreter& interpreter) {
  return std::make_unique<ViewIterator>(&interpreter, this, true);
}

Status DictView::Represent(Interpreter& interpreter, std::string* text) {
  text->append(type_name()).append("([");
  for (std::size_t i = 0; i < count(); ++i) {
    if (i > 0) text->append(", ");
    KVD_TRY(const Value item, At(interpreter, i));
    KVD_CHECK_OK(AppendRepr(interpreter, item, text));
  }
  text->append("])");
  return {};
}

// ---- namespace object
Status NamespaceObject::Check(const Value& value) {
  if (value.is_object() && dynamic_cast<NamespaceObject*>(&value.object()) != nullptr) return {};
  return Fail(Code::kInvalidArgument, "cannot assign attribute on non-namespace object");
}

Status NamespaceObject::Represent(Interpreter& interpreter, std::string* text) {
  text->append("<Namespace ");
  KVD_CHECK_OK(AppendRepr(interpreter, attributes_, text));
  text->append(">");
  return {};
}

// ---- macro object
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
