#include "text/jinja/namespace_object.h"

#include "text/jinja/python_text.h"

namespace kvd::jinja {

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

}  // namespace kvd::jinja
