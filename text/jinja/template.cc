#include "text/jinja/template.h"

#include <utility>

#include "base/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/name_resolver.h"
#include "text/jinja/parser.h"

namespace kvd::jinja {

Template::Template(std::unique_ptr<const TemplateTree> tree) : tree_(std::move(tree)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::Parse(std::string_view source) {
  if (source.size() > kSourceBytesMax) {
    return Fail(Code::kTooLarge, "template: ", source.size(), " bytes, at most ", kSourceBytesMax);
  }
  if (!IsValidUtf8(source)) return Fail(Code::kInvalidArgument, "template: not UTF-8");
  KVD_TRY(std::vector<Token> tokens, Tokenize(source));
  auto tree = std::make_unique<TemplateTree>();
  KVD_TRY(tree->body, Parser(std::move(tokens)).ParseTemplate());
  KVD_CHECK_OK(ResolveNames(tree.get()));
  return Template(std::move(tree));
}

Result<std::string> Template::Render(const Value& variables, const RenderOptions& options) const {
  if (!variables.is_dict()) {
    return Fail(Code::kInvalidArgument, "the variables of a template must be an object");
  }
  if (variables.nesting() > Budget::kNestingMax) {
    return Fail(Code::kTooLarge, "the variables are nested deeper than ", Budget::kNestingMax,
                " levels");
  }
  return Interpreter(*tree_, variables, options).Run();
}

}  // namespace kvd::jinja
