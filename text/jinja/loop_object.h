// The variable `loop` of a for loop. It is also the iterator of the loop, because it looks one item
// ahead for loop.last and loop.nextitem.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/script_object.h"
#include "text/jinja/syntax.h"

namespace kvd::jinja {

class LoopObject : public ScriptObject {
 public:
  LoopObject(const For& loop, std::shared_ptr<CallFrame> closure, Value iterable,
             IteratorPtr iterator, std::int64_t depth)
      : loop_(loop),
        closure_(std::move(closure)),
        iterable_(std::move(iterable)),
        iterator_(std::move(iterator)),
        depth_(depth) {}

  // Moves to the next item; none after the last one.
  Result<std::optional<Value>> Next();

  std::string_view type_name() const override { return "LoopContext"; }
  Result<Value> AttributeNamed(Interpreter& interpreter, std::string_view name) override;
  // Renders a recursive loop with other items.
  Result<Value> Call(Interpreter& interpreter, Arguments arguments) override;
  Result<std::optional<std::int64_t>> Length() override;
  bool is_iterable() const override { return true; }
  Result<IteratorPtr> Iterate(Interpreter& interpreter) override;
  Status Represent(Interpreter& interpreter, std::string* text) override;

  // loop.cycle(...) and loop.changed(...).
  Result<Value> Cycle(const Arguments& arguments) const;
  Result<Value> Changed(Interpreter& interpreter, const Arguments& arguments);

 private:
  Result<std::int64_t> CountItems();
  // The next item without moving to it; missing after the last one.
  Result<Value> Peek();

  const For& loop_;
  const std::shared_ptr<CallFrame> closure_;
  const Value iterable_;
  IteratorPtr iterator_;
  const std::int64_t depth_;
  std::int64_t index_ = -1;
  std::optional<std::int64_t> count_;
  Value before_, current_, after_;  // each may be missing
  bool is_exhausted_ = false;
  std::optional<Value> last_changed_;
};

}  // namespace kvd::jinja
