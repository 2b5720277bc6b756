// Template: a program in the language Jinja, as chat templates use it.
//
//   auto chat = Template::Parse(source);
//   auto text = chat->Render(variables, {});
//
// The language is that of Jinja2 3.1 in its immutable sandbox, with trim_blocks, lstrip_blocks and
// loop controls, without autoescape and without other templates; docs/text.md lists what is
// supported. A Template is immutable: several threads may render it at once, and it outlives every
// render.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/budget.h"
#include "text/value.h"

namespace kvd::jinja {

struct TemplateTree;

class Template {
 public:
  static constexpr std::size_t kSourceBytesMax = 1u << 20;

  // Errors begin with the place, "template line 3, column 5: ". kInvalidArgument: the source is no
  // template, or no UTF-8; kUnsupported: it needs something that this interpreter lacks; kTooLarge:
  // it is too long or nested too deep.
  static Result<Template> Parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Returns the text that the template makes of `variables`, a dict. Errors begin with the place,
  // except for that of raise_exception(), which is the template's own text. kInvalidArgument: what
  // Jinja2 refuses; kUnsupported: a part of Python that this interpreter lacks; kTooLarge: a limit
  // of `options`, or variables nested too deep.
  Result<std::string> Render(const Value& variables, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::unique_ptr<const TemplateTree> tree);

  std::unique_ptr<const TemplateTree> tree_;
};

}  // namespace kvd::jinja
