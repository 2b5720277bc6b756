#include "text/jinja/iteration.h"

#include <utility>

#include "text/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
namespace {

class EmptyIterator : public Iterator {
 public:
  Result<std::optional<Value>> Next() override { return std::optional<Value>(); }
};

class ListIterator : public Iterator {
 public:
  explicit ListIterator(Value sequence) : sequence_(std::move(sequence)) {}
  Result<std::optional<Value>> Next() override {
    const std::vector<Value>& items = sequence_.items();
    return next_ < items.size() ? std::optional(items[next_++]) : std::nullopt;
  }

 private:
  const Value sequence_;
  std::size_t next_ = 0;
};

class ReverseIterator : public Iterator {
 public:
  explicit ReverseIterator(std::vector<Value> items) : items_(std::move(items)) {}
  Result<std::optional<Value>> Next() override {
    if (items_.empty()) return std::optional<Value>();
    Value last = std::move(items_.back());
    items_.pop_back();
    return std::optional(std::move(last));
  }

 private:
  std::vector<Value> items_;
};

class KeyIterator : public Iterator {
 public:
  explicit KeyIterator(Value dict) : dict_(std::move(dict)) {}
  Result<std::optional<Value>> Next() override {
    const auto& items = dict_.dict().items();
    return next_ < items.size() ? std::optional(items[next_++].first) : std::nullopt;
  }

 private:
  const Value dict_;
  std::size_t next_ = 0;
};

class CharacterIterator : public Iterator {
 public:
  CharacterIterator(Interpreter* interpreter, Value text)
      : interpreter_(*interpreter), text_(std::move(text)) {}
  Result<std::optional<Value>> Next() override {
    const std::string_view rest = text_.view().substr(at_);
    if (rest.empty()) return std::optional<Value>();
    const std::size_t bytes = CharacterBytes(rest);
    at_ += bytes;
    KVD_TRY(Value character, interpreter_.budget().String(std::string(rest.substr(0, bytes))));
    return std::optional(std::move(character));
  }

 private:
  Interpreter& interpreter_;
  const Value text_;
  std::size_t at_ = 0;
};

class Generator : public ScriptObject {
 public:
  Generator(IteratorPtr iterator, std::string_view type_name)
      : iterator_(std::move(iterator)), type_name_(type_name) {}

  std::string_view type_name() const override { return type_name_; }
  bool is_iterable() const override { return true; }
  Result<IteratorPtr> Iterate(Interpreter&) override;
  Result<std::optional<Value>> Next() { return iterator_->Next(); }

 private:
  const IteratorPtr iterator_;
  const std::string_view type_name_;
};

class GeneratorIterator : public Iterator {
 public:
  explicit GeneratorIterator(Generator* generator) : generator_(generator) {}
  Result<std::optional<Value>> Next() override { return generator_->Next(); }

 private:
  Generator* generator_;
};

Result<IteratorPtr> Generator::Iterate(Interpreter&) {
  return std::make_unique<GeneratorIterator>(this);
}

class ConditionIterator : public Iterator {
 public:
  ConditionIterator(Interpreter* interpreter, const For* loop, std::shared_ptr<CallFrame> frame,
                    IteratorPtr source)
      : interpreter_(*interpreter),
        loop_(*loop),
        frame_(std::move(frame)),
        source_(std::move(source)) {}
  Result<std::optional<Value>> Next() override {
    while (true) {
      KVD_TRY(std::optional<Value> item, source_->Next());
      if (!item) return item;
      KVD_CHECK_OK(interpreter_.budget().Step());
      KVD_TRY(const bool is_chosen, interpreter_.CheckCondition(loop_, frame_, &*item));
      if (is_chosen) return item;
    }
  }

 private:
  Interpreter& interpreter_;
  const For& loop_;
  const std::shared_ptr<CallFrame> frame_;
  const IteratorPtr source_;
};

}  // namespace

IteratorPtr MakeListIterator(Value sequence) {
  return std::make_unique<ListIterator>(std::move(sequence));
}

Result<IteratorPtr> IterateOver(Interpreter& interpreter, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined: return std::make_unique<EmptyIterator>();
    case Value::Kind::kString: return std::make_unique<CharacterIterator>(&interpreter, value);
    case Value::Kind::kList:
    case Value::Kind::kTuple: return MakeListIterator(value);
    case Value::Kind::kDict: return std::make_unique<KeyIterator>(value);
    case Value::Kind::kObject: {
      KVD_TRY(IteratorPtr iterator, ScriptOf(value).Iterate(interpreter));
      if (iterator != nullptr) return iterator;
      break;
    }
    default: break;
  }
  return Fail(Code::kInvalidArgument, "'", TypeName(value), "' object is not iterable");
}

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNone:
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kFloat: return false;
    case Value::Kind::kObject: return ScriptOf(value).is_iterable();
    default: return true;
  }
}

Result<IteratorPtr> ReverseOver(Interpreter& interpreter, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Value::Kind::kObject: return ScriptOf(value).Reverse(interpreter);
    case Value::Kind::kString:
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kDict: break;
    default: return IteratorPtr();
  }
  KVD_TRY(items, ItemsOf(interpreter, value));
  return std::make_unique<ReverseIterator>(std::move(items));
}

Result<std::vector<Value>> ItemsOf(Interpreter& interpreter, const Value& value) {
  KVD_TRY(const IteratorPtr iterator, IterateOver(interpreter, value));
  std::vector<Value> items;
  while (true) {
    KVD_TRY(std::optional<Value> item, iterator->Next());
    if (!item) return items;
    KVD_CHECK_OK(interpreter.budget().Step());
    KVD_CHECK_OK(interpreter.budget().Charge(sizeof(Value)));
    items.push_back(std::move(*item));
  }
}

Result<std::optional<std::int64_t>> LengthOf(const Value& value) {
  const auto of = [](std::size_t size) { return std::optional(static_cast<std::int64_t>(size)); };
  switch (value.kind()) {
    case Value::Kind::kUndefined: return of(0);
    case Value::Kind::kString: return of(value.text().code_points);
    case Value::Kind::kList:
    case Value::Kind::kTuple: return of(value.items().size());
    case Value::Kind::kDict: return of(value.dict().size());
    case Value::Kind::kObject: return ScriptOf(value).Length();
    default: return std::optional<std::int64_t>();
  }
}

Result<Value> MakeGenerator(Interpreter& interpreter, IteratorPtr iterator,
                            std::string_view type_name) {
  return interpreter.Make<Generator>(std::move(iterator), type_name);
}

Result<Value> MakeConditionIterator(Interpreter& interpreter, const For& loop,
                                    std::shared_ptr<CallFrame> frame, const Value& iterable) {
  KVD_TRY(IteratorPtr source, IterateOver(interpreter, iterable));
  return MakeGenerator(interpreter, std::make_unique<ConditionIterator>(
                                        &interpreter, &loop, std::move(frame), std::move(source)));
}

}  // namespace kvd::jinja
