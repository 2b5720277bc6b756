// One SchemaDocument, ShapeReader and SchemaWriter per schema; the rule book is common.
#include "text/schema/schema_grammar.h"

#include <utility>

#include "text/json.h"
#include "text/schema/json_value.h"
#include "text/schema/rule_book.h"
#include "text/schema/schema_document.h"
#include "text/schema/schema_writer.h"
#include "text/schema/shape_reader.h"

namespace kvd {

struct SchemaGrammarBuilder::State {
  explicit State(const SchemaGrammarOptions& chosen)
      : options(chosen), book(chosen.rules_max, chosen.grammar_bytes_max) {}

  SchemaGrammarOptions options;
  schema::RuleBook book;
};

SchemaGrammarBuilder::SchemaGrammarBuilder(const SchemaGrammarOptions& options)
    : state_(std::make_unique<State>(options)) {}
SchemaGrammarBuilder::~SchemaGrammarBuilder() = default;
SchemaGrammarBuilder::SchemaGrammarBuilder(SchemaGrammarBuilder&&) noexcept = default;
SchemaGrammarBuilder& SchemaGrammarBuilder::operator=(SchemaGrammarBuilder&&) noexcept = default;

Status SchemaGrammarBuilder::Convert(std::uint32_t rule, const Value& schema) {
  const SchemaGrammarOptions& options = state_->options;
  KVD_CHECK_OK(schema::CheckJson(schema, options.nesting_max, options.node_count_max));
  schema::SchemaDocument document(schema);
  schema::ShapeLimits limits;
  limits.depth_max = options.depth_max;
  schema::ShapeReader shapes(document, limits);
  KVD_CHECK_OK(schema::SchemaWriter(shapes, state_->book).Write(rule));
  state_->book.Keep(rule);
  return {};
}

Result<std::string> SchemaGrammarBuilder::AddSchema(std::string_view name, const Value& schema) {
  const std::size_t rule_count = state_->book.rule_count();
  const schema::RuleId rule = state_->book.Declare(name);
  if (Status converted = Convert(rule, schema); !converted) {
    state_->book.Truncate(rule_count);
    return std::unexpected(std::move(converted).error());
  }
  return state_->book.name(rule);
}

Status SchemaGrammarBuilder::AddRule(std::string_view name, std::string body) {
  if (body.empty()) return Fail(Code::kInvalidArgument, "the rule \"", name, "\" has no body");
  KVD_TRY(const schema::RuleId rule, state_->book.DeclareExactly(name));
  state_->book.DefineText(rule, std::move(body));
  state_->book.Keep(rule);
  return {};
}

Result<std::string> SchemaGrammarBuilder::Finish() { return state_->book.Print(); }

Result<std::string> SchemaGrammar(const Value& schema, const SchemaGrammarOptions& options) {
  SchemaGrammarBuilder builder(options);
  KVD_TRY(const schema::RuleId root, builder.state_->book.DeclareExactly(options.root));
  KVD_CHECK_OK(builder.Convert(root, schema));
  return builder.Finish();
}

Result<std::string> SchemaGrammar(std::string_view json, const SchemaGrammarOptions& options) {
  if (json.size() > options.schema_bytes_max)
    return Fail(Code::kUnsupported, "a schema of ", json.size(), " bytes, at most ",
                options.schema_bytes_max);
  JsonLimits limits;
  limits.nesting_max = options.nesting_max;
  KVD_TRY(const Value schema, ParseJson(json, limits));
  return SchemaGrammar(schema, options);
}

}  // namespace kvd
