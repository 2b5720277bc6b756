// cycler(...) and joiner(...): objects that count how often they were used.
#pragma once

#include <utility>
#include <vector>

#include "text/jinja/script_object.h"

namespace kvd::jinja {

class CyclerObject : public ScriptObject {
 public:
  // REQUIRES: at least one item.
  explicit CyclerObject(std::vector<Value> items) : items_(std::move(items)) {}

  // Returns the current item and moves to the next one.
  Value Next() {
    Value item = items_[next_];
    next_ = (next_ + 1) % items_.size();
    return item;
  }
  void Reset() { next_ = 0; }

  std::string_view type_name() const override { return "Cycler"; }
  Result<Value> AttributeNamed(Interpreter& interpreter, std::string_view name) override;

 private:
  const std::vector<Value> items_;
  std::size_t next_ = 0;
};

class JoinerObject : public ScriptObject {
 public:
  explicit JoinerObject(Value separator) : separator_(std::move(separator)) {}

  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  // Returns "" for the first time, then the separator.
  Result<Value> Call(Interpreter& interpreter, Arguments arguments) override;
  Result<Value> AttributeNamed(Interpreter& interpreter, std::string_view name) override;

 private:
  const Value separator_;
  bool is_used_ = false;
};

}  // namespace kvd::jinja
