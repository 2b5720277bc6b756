// The syntax tree of a template.
//
// The parser makes the tree, the name resolver (name_resolver.h) fills in where each name is kept,
// and then the tree never changes: several threads may render it at once.
//
// Names follow Jinja2, which compiles a template to Python functions: the template itself, each
// macro, each block, each recursive loop and the condition of each loop are functions. A function
// has slots for the variables of all scopes inside it. Entering a scope fills its slots by a list
// of loads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/value.h"

namespace kvd::jinja {

struct BuiltinRow;

// A variable: slot `index` of the function that is `hops` functions further out.
struct VariableSlot {
  std::uint32_t hops = 0;
  std::uint32_t index = 0;
};

struct Load {
  enum class Kind : std::uint8_t {
    kResolve,    // the variable of the render with the name, if there is one
    kAlias,      // the value of an outer scope's slot
    kUndefined,  // nothing yet
    kParameter,  // the construct that opens the scope sets the slot
  };
  Kind kind = Kind::kUndefined;
  VariableSlot slot;
  VariableSlot source;  // of kAlias
  Value name;           // of kResolve
};

struct Scope {
  std::vector<Load> loads;
};

struct Function {
  std::uint32_t slot_count = 0;
};

// ---- Expressions

enum class ExpressionKind : std::uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,
  kUnary,
  kBinary,
  kLogical,
  kConcatenation,
  kComparison,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expression {
  Expression(ExpressionKind its_kind, Place its_place) : kind(its_kind), place(its_place) {}
  virtual ~Expression() = default;
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  const ExpressionKind kind;
  const Place place;
  std::uint32_t nesting = 1;  // levels of expressions
};
using ExpressionPtr = std::unique_ptr<Expression>;

template <ExpressionKind own_kind>
struct ExpressionOf : Expression {
  explicit ExpressionOf(Place its_place) : Expression(own_kind, its_place) {}
};

struct Constant : ExpressionOf<ExpressionKind::kConstant> {
  using ExpressionOf::ExpressionOf;
  Value value;
};

struct Name : ExpressionOf<ExpressionKind::kName> {
  using ExpressionOf::ExpressionOf;
  std::string name;
  VariableSlot slot;
};

struct ListDisplay : ExpressionOf<ExpressionKind::kList> {
  using ExpressionOf::ExpressionOf;
  std::vector<ExpressionPtr> items;
};

struct TupleDisplay : ExpressionOf<ExpressionKind::kTuple> {
  using ExpressionOf::ExpressionOf;
  std::vector<ExpressionPtr> items;
};

struct DictDisplay : ExpressionOf<ExpressionKind::kDict> {
  using ExpressionOf::ExpressionOf;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};

enum class UnaryOperator : std::uint8_t { kNot, kNegate, kPlus };

struct Unary : ExpressionOf<ExpressionKind::kUnary> {
  using ExpressionOf::ExpressionOf;
  UnaryOperator op = UnaryOperator::kNot;
  ExpressionPtr operand;
};

enum class BinaryOperator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

struct Binary : ExpressionOf<ExpressionKind::kBinary> {
  using ExpressionOf::ExpressionOf;
  BinaryOperator op = BinaryOperator::kAdd;
  ExpressionPtr left;
  ExpressionPtr right;
};

// `and` and `or`: the value of the operand that decides.
struct Logical : ExpressionOf<ExpressionKind::kLogical> {
  using ExpressionOf::ExpressionOf;
  bool is_and = false;
  ExpressionPtr left;
  ExpressionPtr right;
};

// a ~ b ~ c
struct Concatenation : ExpressionOf<ExpressionKind::kConcatenation> {
  using ExpressionOf::ExpressionOf;
  std::vector<ExpressionPtr> parts;
};

enum class ComparisonOperator : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

// a < b <= c: each pair of neighbours is compared until a comparison is false.
struct Comparison : ExpressionOf<ExpressionKind::kComparison> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> others;
};

// `then if test else otherwise`; without `otherwise` the value is undefined.
struct Conditional : ExpressionOf<ExpressionKind::kConditional> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr test;
  ExpressionPtr then;
  ExpressionPtr otherwise;
};

struct Attribute : ExpressionOf<ExpressionKind::kAttribute> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr object;
  Value name;
};

struct Item : ExpressionOf<ExpressionKind::kItem> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr object;
  ExpressionPtr index;       // may be a Slice
  bool is_constant = false;  // part of a printed expression without names and calls
};

// Occurs only as the index of an Item. Absent parts are null.
struct Slice : ExpressionOf<ExpressionKind::kSlice> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};

// (a, b, name=c, *more, **more_named)
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<Value, ExpressionPtr>> named;
  ExpressionPtr more_positional;
  ExpressionPtr more_named;
};

struct CallExpression : ExpressionOf<ExpressionKind::kCall> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr callee;
  CallArguments arguments;
};

// subject|name(...). In a filter block the innermost subject is null: the text of the block.
struct FilterExpression : ExpressionOf<ExpressionKind::kFilter> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr subject;
  std::string name;
  const BuiltinRow* filter = nullptr;  // null: no filter has the name
  CallArguments arguments;
};

struct TestExpression : ExpressionOf<ExpressionKind::kTest> {
  using ExpressionOf::ExpressionOf;
  ExpressionPtr subject;
  std::string name;
  const BuiltinRow* test = nullptr;  // null: no test has the name
  CallArguments arguments;
};

// What an assignment, a loop or `with` assigns to.
struct Target {
  enum class Kind : std::uint8_t {
    kName,
    kTuple,
    kNamespace,  // name.attribute
  };
  Kind kind = Kind::kName;
  Place place;
  std::string name;
  VariableSlot slot;  // of the name
  Value attribute;
  std::vector<Target> items;
};

// ---- Statements

enum class StatementKind : std::uint8_t {
  kText,
  kPrint,
  kAssign,
  kAssignBlock,
  kFor,
  kIf,
  kWith,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kBlock,
  kScope,
  kBreak,
  kContinue,
};

struct Statement {
  Statement(StatementKind its_kind, Place its_place) : kind(its_kind), place(its_place) {}
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  const StatementKind kind;
  const Place place;
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

template <StatementKind own_kind>
struct StatementOf : Statement {
  explicit StatementOf(Place its_place) : Statement(own_kind, its_place) {}
};

struct TextStatement : StatementOf<StatementKind::kText> {
  using StatementOf::StatementOf;
  std::string text;
};

struct Print : StatementOf<StatementKind::kPrint> {
  using StatementOf::StatementOf;
  ExpressionPtr value;
};

struct Assign : StatementOf<StatementKind::kAssign> {
  using StatementOf::StatementOf;
  Target target;
  ExpressionPtr value;
  bool is_exported = false;  // blocks see the variable
};

// {% set target %}...{% endset %}, {% set target | filter %}...
struct AssignBlock : StatementOf<StatementKind::kAssignBlock> {
  using StatementOf::StatementOf;
  Target target;
  ExpressionPtr filter;  // null, or filters around a null subject
  Body body;
  bool is_exported = false;
  Scope scope;
};

struct For : StatementOf<StatementKind::kFor> {
  using StatementOf::StatementOf;
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // null: every item
  Target condition_target;  // the target again, in the function of the condition
  Body body;
  Body otherwise;
  bool is_recursive = false;
  bool uses_loop = false;  // the loop has a variable `loop`
  VariableSlot loop_slot;
  Scope body_scope;
  Scope otherwise_scope;
  Scope condition_scope;
  Function condition_function;
  Function recursive_function;
};

struct If : StatementOf<StatementKind::kIf> {
  using StatementOf::StatementOf;
  struct Branch {
    ExpressionPtr test;
    Body body;
  };
  std::vector<Branch> branches;
  Body otherwise;
};

struct With : StatementOf<StatementKind::kWith> {
  using StatementOf::StatementOf;
  std::vector<Target> targets;
  std::vector<ExpressionPtr> values;
  Body body;
  Scope scope;
};

// A function with a body: of a macro, of {% generation %}, or what a call block passes as `caller`.
struct MacroFunction {
  std::vector<Target> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  bool takes_caller = false;  // the body uses `caller`; the same for the next two
  bool takes_named = false;
  bool takes_more = false;
  VariableSlot caller_slot;
  VariableSlot named_slot;  // kwargs
  VariableSlot more_slot;   // varargs
  Scope scope;
  Function function;
};

struct Macro : StatementOf<StatementKind::kMacro> {
  using StatementOf::StatementOf;
  std::string name;
  VariableSlot slot;
  MacroFunction function;
  bool is_exported = false;
};

// {% call %}, or {% generation %}, for which transformers has an extension of Jinja2 that makes a
// call block of it: a loop around it is outside of its body.
struct CallBlock : StatementOf<StatementKind::kCallBlock> {
  using StatementOf::StatementOf;
  MacroFunction function;
  std::unique_ptr<CallExpression> call;  // null: {% generation %}, which prints the body
};

struct FilterBlock : StatementOf<StatementKind::kFilterBlock> {
  using StatementOf::StatementOf;
  ExpressionPtr filter;
  Body body;
  Scope scope;
};

struct Block : StatementOf<StatementKind::kBlock> {
  using StatementOf::StatementOf;
  std::string name;
  bool is_scoped = false;
  bool is_required = false;
  Body body;
  Scope scope;
  Function function;
  std::vector<std::pair<Value, VariableSlot>> visible;  // variables that a scoped block sees
};

// {% autoescape false %}: a body with a scope of its own.
struct ScopeStatement : StatementOf<StatementKind::kScope> {
  using StatementOf::StatementOf;
  Body body;
  Scope scope;
};

struct Break : StatementOf<StatementKind::kBreak> {
  using StatementOf::StatementOf;
};

struct Continue : StatementOf<StatementKind::kContinue> {
  using StatementOf::StatementOf;
};

struct TemplateTree {
  Body body;
  Scope scope;
  Function function;
  bool has_blocks = false;
};

}  // namespace kvd::jinja
