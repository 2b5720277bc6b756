#include "text/jinja/dict_view.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
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

}  // namespace kvd::jinja
