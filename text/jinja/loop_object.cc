#include "text/jinja/loop_object.h"

#include "text/jinja/iteration.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace kvd::jinja {
namespace {

Value MissingItem(const char* text) {
  return Value::Undefined({.kind = UndefinedReason::Kind::kHint, .text = text, .object = {}});
}

LoopObject& LoopOf(const Invocation& call) {
  return static_cast<LoopObject&>(call.subject.object());
}

constexpr BuiltinRow kCycle = {"cycle", "*",
                               [](Invocation& call) { return LoopOf(call).Cycle(call.arguments); }};
constexpr BuiltinRow kChanged = {"changed", "*", [](Invocation& call) {
                                   return LoopOf(call).Changed(call.interpreter, call.arguments);
                                 }};

// Iterating over `loop` itself takes items away from the loop.
class LoopIterator : public Iterator {
 public:
  explicit LoopIterator(LoopObject* loop) : loop_(loop) {}
  Result<std::optional<Value>> Next() override {
    KVD_TRY(std::optional<Value> item, loop_->Next());
    if (!item) return item;
    return std::optional(Value::Tuple({std::move(*item), Value::Of(*loop_)}));
  }

 private:
  LoopObject* loop_;
};

}  // namespace

Result<std::optional<Value>> LoopObject::Next() {
  Value next = std::exchange(after_, Value());
  if (next.is_missing()) {
    if (is_exhausted_) return std::optional<Value>();
    KVD_TRY(std::optional<Value> item, iterator_->Next());
    if (!item) {
      is_exhausted_ = true;
      return std::optional<Value>();
    }
    next = std::move(*item);
  }
  ++index_;
  before_ = std::exchange(current_, next);
  return std::optional(next);
}

Result<Value> LoopObject::Peek() {
  if (!after_.is_missing() || is_exhausted_) return after_;
  KVD_TRY(std::optional<Value> item, iterator_->Next());
  if (item) {
    after_ = std::move(*item);
  } else {
    is_exhausted_ = true;
  }
  return after_;
}

Result<std::int64_t> LoopObject::CountItems() {
  if (count_) return *count_;
  KVD_TRY(count_, LengthOf(iterable_));
  if (count_) return *count_;
  std::vector<Value> rest;
  while (true) {
    KVD_TRY(std::optional<Value> item, iterator_->Next());
    if (!item) break;
    rest.push_back(std::move(*item));
  }
  count_ = static_cast<std::int64_t>(rest.size()) + index_ + 1 + (after_.is_missing() ? 0 : 1);
  iterator_ = MakeListIterator(Value::List(std::move(rest)));
  return *count_;
}

Result<std::optional<std::int64_t>> LoopObject::Length() {
  KVD_TRY(const std::int64_t count, CountItems());
  return std::optional(count);
}

Result<IteratorPtr> LoopObject::Iterate(Interpreter&) {
  return std::make_unique<LoopIterator>(this);
}

Result<Value> LoopObject::AttributeNamed(Interpreter& interpreter, std::string_view name) {
  if (name == "index") return Value::Int(index_ + 1);
  if (name == "index0") return Value::Int(index_);
  if (name == "first") return Value::Bool(index_ == 0);
  if (name == "depth") return Value::Int(depth_ + 1);
  if (name == "depth0") return Value::Int(depth_);
  if (name == "last") {
    KVD_TRY(const Value next, Peek());
    return Value::Bool(next.is_missing());
  }
  if (name == "nextitem") {
    KVD_TRY(const Value next, Peek());
    return next.is_missing() ? MissingItem("there is no next item") : next;
  }
  if (name == "previtem") return index_ == 0 ? MissingItem("there is no previous item") : before_;
  if (name == "length" || name == "revindex" || name == "revindex0") {
    KVD_TRY(const std::int64_t count, CountItems());
    if (name == "length") return Value::Int(count);
    return Value::Int(count - index_ - (name == "revindex0" ? 1 : 0));
  }
  if (name == "cycle") return interpreter.Make<BoundMethod>(Value::Of(*this), kCycle);
  if (name == "changed") return interpreter.Make<BoundMethod>(Value::Of(*this), kChanged);
  return Value();
}

Result<Value> LoopObject::Call(Interpreter& interpreter, Arguments arguments) {
  if (!loop_.is_recursive) {
    return Fail(Code::kInvalidArgument,
                "the loop must have the 'recursive' marker to be called recursively");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return Fail(Code::kInvalidArgument, "loop() takes one argument");
  }
  return interpreter.CallLoop(loop_, closure_, arguments.positional[0], depth_ + 1);
}

Result<Value> LoopObject::Cycle(const Arguments& arguments) const {
  if (!arguments.named.empty()) return Fail(Code::kInvalidArgument, "cycle() takes no keywords");
  const std::vector<Value>& items = arguments.positional;
  if (items.empty()) return Fail(Code::kInvalidArgument, "no items for cycling given");
  return items[static_cast<std::size_t>(index_) % items.size()];
}

Result<Value> LoopObject::Changed(Interpreter& interpreter, const Arguments& arguments) {
  if (!arguments.named.empty()) return Fail(Code::kInvalidArgument, "changed() takes no keywords");
  KVD_TRY(const Value values, interpreter.budget().Tuple(arguments.positional));
  if (last_changed_) {
    KVD_TRY(const bool is_same, AreEqual(interpreter, *last_changed_, values));
    if (is_same) return Value::Bool(false);
  }
  last_changed_ = values;
  return Value::Bool(true);
}

Status LoopObject::Represent(Interpreter&, std::string* text) {
  KVD_TRY(const std::int64_t count, CountItems());
  text->append(Concat("<LoopContext ", index_ + 1, "/", count, ">"));
  return {};
}

}  // namespace kvd::jinja
