// namespace(...): the only value whose parts a template can change.
#pragma once

#include <string>
#include <utility>

#include "text/jinja/script_object.h"

namespace kvd::jinja {

class NamespaceObject : public ScriptObject {
 public:
  explicit NamespaceObject(Dict attributes) : attributes_(std::move(attributes)) {}

  // Errors: kInvalidArgument: `value` is not a namespace.
  static Status Check(const Value& value);

  void Set(const Value& name, const Value& value) { attributes_.Set(name, value); }

  std::string_view type_name() const override { return "Namespace"; }
  Result<Value> AttributeNamed(Interpreter&, std::string_view name) override {
    return attributes_.Find(name);
  }
  Status Represent(Interpreter& interpreter, std::string* text) override;

 private:
  Dict attributes_;
};

}  // namespace kvd::jinja
