// Executes a syntax tree: one Interpreter per render, on one thread.
//
// execute.cc has the statements, evaluate.cc the expressions, call.cc calls and macros. Filters,
// tests, methods and functions are builtins (builtins.h), which use the interpreter's public
// functions. The interpreter owns every object of the render; all of them live until the render
// ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/script_object.h"
#include "text/jinja/syntax.h"
#include "text/value.h"

namespace kvd::jinja {

// The variables of one call of a function. Macros keep the frame in which they were defined.
struct CallFrame {
  std::shared_ptr<CallFrame> outer;
  std::vector<Value> slots;
};

class MacroObject;
struct SliceRange;

class Interpreter {
 public:
  // REQUIRES: `tree` and `variables` outlive the interpreter; `variables` is a dict.
  Interpreter(const TemplateTree& tree, const Value& variables, const RenderOptions& options);

  Result<std::string> Run();

  Budget& budget() { return budget_; }

  // Makes an object that lives until the end of the render. Errors: kTooLarge.
  template <class Made, class... Parts>
  Result<Value> Make(Parts&&... parts) {
    KVD_CHECK_OK(budget_.Charge(sizeof(Made) + kObjectBytes));
    objects_.push_back(std::make_unique<Made>(std::forward<Parts>(parts)...));
    return Value::Of(*objects_.back());
  }

  // object.name and object[index], as Jinja2 finds them: undefined if there is no such thing.
  // Errors: the object is undefined.
  Result<Value> GetAttribute(const Value& object, const Value& name);
  Result<Value> GetItem(const Value& object, const Value& index);
  // An attribute that is not an item; missing if there is none.
  Result<Value> FindAttribute(const Value& object, std::string_view name);
  Result<Value> Call(const Value& callee, Arguments arguments);
  Result<Value> Apply(const BuiltinRow& row, Value subject, Arguments arguments);
  Result<Value> CallMacro(const MacroObject& macro, Arguments arguments);
  // Renders a recursive loop over other items.
  Result<Value> CallLoop(const For& loop, const std::shared_ptr<CallFrame>& closure,
                         const Value& iterable, std::int64_t depth);
  Result<bool> CheckCondition(const For& loop, const std::shared_ptr<CallFrame>& frame,
                              Value* item);

  // An error that is the template's own: its message is not given a place.
  std::unexpected<Error> FailVerbatim(std::string message);

 private:
  enum class Flow : std::uint8_t { kNormal, kBreak, kContinue };
  static constexpr std::size_t kObjectBytes = 64;

  // Statements (execute.cc).
  Result<Flow> Execute(const Body& body);
  Result<Flow> Execute(const Statement& statement);
  Result<Flow> ExecuteInScope(const Scope& scope, const Body& body);
  Status ExecutePrint(const Print& print);
  Status ExecuteAssign(const Assign& assign);
  Result<Flow> ExecuteAssignBlock(const AssignBlock& assign);
  Result<Flow> ExecuteFor(const For& loop);
  Result<Flow> RunLoop(const For& loop, const Value& iterable,
                       const std::shared_ptr<CallFrame>& closure, std::int64_t depth);
  Result<Flow> ExecuteIf(const If& statement);
  Result<Flow> ExecuteWith(const With& with);
  Status ExecuteMacro(const Macro& macro);
  Status ExecuteCallBlock(const CallBlock& block);
  Result<Flow> ExecuteFilterBlock(const FilterBlock& block);
  Status ExecuteBlock(const Block& block);
  Status AssignTo(const Target& target, const Value& value);
  Status Unpack(const Target& target, const Value& value);
  void Export(const Target& target);
  Status Enter(const Scope& scope);
  void Leave(const Scope& scope);
  Result<Value> Resolve(const Value& name);
  Status Write(std::string_view text);
  Status WriteValue(const Value& value);
  Status WriteString(const Value& value, const Place& place);
  // Executes `body` with its output collected in `text`.
  Result<Flow> Capture(const Body& body, std::string* text);
  // Calls `fill`, which returns a Result or a Status, with the output collected in `text`. Errors:
  // that of `fill`, or one of the collected results is no string.
  template <class Fill>
  Status Collect(std::string* text, const Fill& fill);

  // Expressions (evaluate.cc). Evaluate adds the place to the message of the first error.
  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateKind(const Expression& expression);
  Result<Value> EvaluateName(const Name& name);
  Result<Value> EvaluateItems(const Expression& expression);
  Result<Value> EvaluateDict(const DictDisplay& display);
  Result<Value> EvaluateUnary(const Unary& unary);
  Result<Value> EvaluateBinary(const Binary& binary);
  Result<Value> EvaluateLogical(const Logical& logical);
  Result<Value> EvaluateConcatenation(const Concatenation& concatenation);
  Result<Value> EvaluateComparison(const Comparison& comparison);
  Result<Value> EvaluateConditional(const Conditional& conditional);
  Result<Value> EvaluateItem(const Item& item);
  Result<Value> EvaluateSlice(const Value& object, const Slice& slice);
  Result<Value> SliceString(const Value& object, const SliceRange& range);
  Result<Value> EvaluateCall(const CallExpression& call, const Value* caller);
  Result<Value> EvaluateFilter(const FilterExpression& filter);
  Result<Value> EvaluateTest(const TestExpression& test);
  Result<Arguments> EvaluateArguments(const CallArguments& arguments);
  Status AddMorePositional(const Value& more, Arguments* arguments);
  Status AddMoreNamed(const Value& more, Arguments* arguments);
  std::unexpected<Error> Locate(const Error& error, const Place& place);

  Value& SlotAt(const VariableSlot& slot);

  const TemplateTree& tree_;
  const Dict& variables_;
  Budget budget_;
  std::vector<std::unique_ptr<ScriptObject>> objects_;
  std::shared_ptr<CallFrame> frame_;
  std::string* output_ = nullptr;
  Status
      joined_;  // an error: a result in output_ is no string, which the end of the output reports
  const Value* filter_text_ = nullptr;        // the text of the filter block that is being filtered
  Dict globals_;                              // the global functions that the template has used
  Dict exported_;                             // what the template itself assigns, for its blocks
  std::vector<const Dict*> block_variables_;  // of scoped blocks, innermost last
  bool is_located_ = false;                   // the error that is being returned has its place
};

template <class Fill>
Status Interpreter::Collect(std::string* text, const Fill& fill) {
  std::string* const output = std::exchange(output_, text);
  Status joined = std::exchange(joined_, Status());
  const auto result = fill();
  output_ = output;
  joined.swap(joined_);
  if (!result) return std::unexpected(result.error());
  if (!joined) is_located_ = true;
  return joined;
}

}  // namespace kvd::jinja
