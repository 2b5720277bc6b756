#include "text/jinja/budget.h"

namespace kvd::jinja {
namespace {

constexpr std::uint64_t kValueBytes = 64;  // of a value and its part of a container

Status CheckNesting(const Value& value) {
  if (value.nesting() <= Budget::kNestingMax) return {};
  return Fail(Code::kTooLarge, "a value is nested deeper than ", Budget::kNestingMax, " levels");
}

}  // namespace

Status Budget::CheckRoom(std::uint64_t count, std::uint64_t bytes) const {
  const std::uint64_t left = options_.value_bytes_max - value_bytes_;
  return bytes == 0 || count <= left / bytes ? Status() : TooManyBytes();
}

Status Budget::TooManySteps() const {
  return Fail(Code::kTooLarge, "the template takes more than ", options_.steps_max, " steps");
}

Status Budget::TooManyBytes() const {
  return Fail(Code::kTooLarge, "the template makes values of more than ", options_.value_bytes_max,
              " bytes");
}

Status Budget::TooMuchOutput() const {
  return Fail(Code::kTooLarge, "the template writes more than ", options_.output_bytes_max,
              " bytes");
}

Status Budget::TooDeep() const {
  return Fail(Code::kTooLarge, "the template is evaluated deeper than ", options_.depth_max,
              " levels");
}

Result<Value> Budget::String(std::string bytes, bool is_safe) {
  KVD_CHECK_OK(Charge(kValueBytes + bytes.size()));
  return Value::String(std::move(bytes), is_safe);
}

Result<Value> Budget::List(std::vector<Value> items) {
  KVD_CHECK_OK(Charge(kValueBytes * (1 + items.size())));
  Value list = Value::List(std::move(items));
  KVD_CHECK_OK(CheckNesting(list));
  return list;
}

Result<Value> Budget::Tuple(std::vector<Value> items) {
  KVD_CHECK_OK(Charge(kValueBytes * (1 + items.size())));
  Value tuple = Value::Tuple(std::move(items));
  KVD_CHECK_OK(CheckNesting(tuple));
  return tuple;
}

Result<Value> Budget::Of(Dict dict) {
  KVD_CHECK_OK(Charge(2 * kValueBytes * (1 + dict.size())));
  Value value = Value::Of(std::move(dict));
  KVD_CHECK_OK(CheckNesting(value));
  return value;
}

}  // namespace kvd::jinja
