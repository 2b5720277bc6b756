// range(start, stop, step): a sequence of integers that are not stored.
#pragma once

#include <cstdint>

#include "text/jinja/script_object.h"

namespace kvd::jinja {

class RangeObject : public ScriptObject {
 public:
  static constexpr std::int64_t kItemsMax = 100'000;

  // REQUIRES: no item overflows.
  RangeObject(std::int64_t start, std::int64_t stop, std::int64_t step, std::int64_t count)
      : start_(start), stop_(stop), step_(step), count_(count) {}

  std::int64_t count() const { return count_; }
  Value At(std::int64_t index) const { return Value::Int(start_ + index * step_); }

  std::string_view type_name() const override { return "range"; }
  // Ranges are equal if they have the same items.
  bool Equals(const Object& other) const override;
  std::size_t Hash() const override { return static_cast<std::size_t>(count_); }
  bool is_iterable() const override { return true; }
  bool has_items() const override { return true; }
  Result<Value> AttributeNamed(Interpreter&, std::string_view name) override;
  Result<Value> ItemAt(Interpreter&, const Value& index) override;
  Result<Value> SliceAt(Interpreter& interpreter, const Value& start, const Value& stop,
                        const Value& step) override;
  Result<IteratorPtr> Iterate(Interpreter&) override;
  Result<IteratorPtr> Reverse(Interpreter&) override;
  Result<std::optional<std::int64_t>> Length() override { return std::optional(count_); }
  Status Represent(Interpreter&, std::string* text) override;

 private:
  const std::int64_t start_;
  const std::int64_t stop_;
  const std::int64_t step_;
  const std::int64_t count_;
};

// Errors: kInvalidArgument: step 0, or more than kItemsMax items.
Result<Value> MakeRange(Interpreter& interpreter, std::int64_t start, std::int64_t stop,
                        std::int64_t step);

}  // namespace kvd::jinja
