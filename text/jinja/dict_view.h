// dict.keys(), dict.values() and dict.items().
#pragma once

#include <cstdint>
#include <utility>

#include "text/jinja/script_object.h"

namespace kvd::jinja {

class DictView : public ScriptObject {
 public:
  enum class Part : std::uint8_t { kKeys, kValues, kItems };

  // REQUIRES: `dict` is a dict.
  DictView(Value dict, Part part) : dict_(std::move(dict)), part_(part) {}

  std::size_t count() const { return dict_.dict().size(); }
  Result<Value> At(Interpreter& interpreter, std::size_t index) const;

  std::string_view type_name() const override;
  bool is_hashable() const override { return part_ == Part::kValues; }
  bool is_iterable() const override { return true; }
  Result<IteratorPtr> Iterate(Interpreter& interpreter) override;
  Result<IteratorPtr> Reverse(Interpreter& interpreter) override;
  Result<std::optional<std::int64_t>> Length() override {
    return std::optional(static_cast<std::int64_t>(count()));
  }
  Status Represent(Interpreter& interpreter, std::string* text) override;

 private:
  const Value dict_;
  const Part part_;
};

}  // namespace kvd::jinja
