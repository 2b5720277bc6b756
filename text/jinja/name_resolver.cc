#include "text/jinja/name_resolver.h"

#include <set>

#include "text/jinja/lexer.h"
#include "text/jinja/name_walk.h"
#include "text/jinja/variable_scope.h"

namespace kvd::jinja {
namespace {

// What holds while the statements of one scope are resolved.
struct Surroundings {
  VariableScope* scope = nullptr;
  bool is_top_level = false;     // assignments are visible to blocks
  bool is_conditional = false;   // an unknown filter is an error only when it is reached
  bool is_in_loop = false;       // of the same function
  bool is_loop_outside = false;  // of the function

  bool is_constant = false;  // the whole of a printed expression has no names and no calls

  Surroundings Inside(VariableScope* inner) const {
    return {.scope = inner,
            .is_top_level = false,
            .is_conditional = false,
            .is_in_loop = is_in_loop,
            .is_loop_outside = is_loop_outside};
  }
  Surroundings InsideFunction(VariableScope* inner) const {
    return {.scope = inner,
            .is_top_level = false,
            .is_conditional = false,
            .is_in_loop = false,
            .is_loop_outside = is_in_loop || is_loop_outside};
  }
};

class NameResolver {
 public:
  Status Resolve(TemplateTree* tree) {
    FunctionScope function;
    VariableScope scope(&function, nullptr);
    NoteNames(tree->body, &scope);
    KVD_CHECK_OK(ResolveBody(tree->body, {.scope = &scope, .is_top_level = true}));
    tree->scope = scope.TakeLoads();
    tree->function.slot_count = SlotCount(function);
    tree->has_blocks = !block_names_.empty();
    return {};
  }

 private:
  static std::uint32_t SlotCount(const FunctionScope& function) {
    return static_cast<std::uint32_t>(function.slots.size());
  }
  static FunctionScope FunctionInside(FunctionScope* outer) {
    return {.outer = outer, .depth = outer->depth + 1, .slots = {}};
  }
  template <class... Parts>
  static std::unexpected<Error> FailAt(const Place& place, const Parts&... parts) {
    return Fail(Code::kInvalidArgument, AtPlace(place, Concat(parts...)));
  }

  Status ResolveBody(const Body& body, const Surroundings& around) {
    for (const StatementPtr& statement : body) KVD_CHECK_OK(ResolveStatement(*statement, around));
    return {};
  }

  Status ResolveStatement(Statement& statement, const Surroundings& around) {
    switch (statement.kind) {
      case StatementKind::kText: return {};
      case StatementKind::kPrint: {
        Expression* const value = static_cast<Print&>(statement).value.get();
        Surroundings inside = around;
        inside.is_constant = IsConstant(*value);
        return ResolveExpression(value, inside);
      }
      case StatementKind::kAssign: return ResolveAssign(static_cast<Assign&>(statement), around);
      case StatementKind::kAssignBlock:
        return ResolveAssignBlock(static_cast<AssignBlock&>(statement), around);
      case StatementKind::kFor: return ResolveFor(static_cast<For&>(statement), around);
      case StatementKind::kIf: return ResolveIf(static_cast<If&>(statement), around);
      case StatementKind::kWith: return ResolveWith(static_cast<With&>(statement), around);
      case StatementKind::kMacro: return ResolveMacro(static_cast<Macro&>(statement), around);
      case StatementKind::kCallBlock:
        return ResolveCallBlock(static_cast<CallBlock&>(statement), around);
      case StatementKind::kFilterBlock:
        return ResolveFilterBlock(static_cast<FilterBlock&>(statement), around);
      case StatementKind::kBlock: return ResolveBlock(static_cast<Block&>(statement), around);
      case StatementKind::kScope: {
        auto& inner = static_cast<ScopeStatement&>(statement);
        VariableScope scope(around.scope->function(), around.scope);
        NoteNames(inner.body, &scope);
        KVD_CHECK_OK(ResolveBody(inner.body, around.Inside(&scope)));
        inner.scope = scope.TakeLoads();
        return {};
      }
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        if (around.is_in_loop) return {};
        return FailAt(statement.place,
                      statement.kind == StatementKind::kBreak ? "break" : "continue",
                      " outside a loop",
                      around.is_loop_outside
                          ? ": a loop around a macro, call, block or generation is not its own"
                          : "");
    }
    return {};
  }

  static bool IsConstant(const Expression& expression) {
    if (expression.kind == ExpressionKind::kName || expression.kind == ExpressionKind::kCall) {
      return false;
    }
    bool is_constant = true;
    ForEachPart(expression,
                [&](Expression& part) { is_constant = is_constant && IsConstant(part); });
    return is_constant;
  }

  Status ResolveExpression(Expression* expression, const Surroundings& around) {
    if (expression == nullptr) return {};
    Surroundings inside = around;
    switch (expression->kind) {
      case ExpressionKind::kName: {
        auto* name = static_cast<Name*>(expression);
        name->slot = around.scope->SlotOf(name->name);
        return {};
      }
      case ExpressionKind::kItem:
        static_cast<Item*>(expression)->is_constant = around.is_constant;
        break;
      case ExpressionKind::kConditional: inside.is_conditional = true; break;
      case ExpressionKind::kFilter: {
        const auto* filter = static_cast<const FilterExpression*>(expression);
        if (filter->filter == nullptr && !around.is_conditional) {
          return FailAt(filter->place, "no filter named '", filter->name, "'");
        }
        break;
      }
      case ExpressionKind::kTest: {
        const auto* test = static_cast<const TestExpression*>(expression);
        if (test->test == nullptr && !around.is_conditional) {
          return FailAt(test->place, "no test named '", test->name, "'");
        }
        break;
      }
      default: break;
    }
    Status status;
    ForEachPart(*expression, [&](Expression& part) {
      if (status) status = ResolveExpression(&part, inside);
    });
    return status;
  }

  static void ResolveTarget(Target* target, const VariableScope& scope) {
    if (target->kind != Target::Kind::kTuple) target->slot = scope.SlotOf(target->name);
    for (Target& item : target->items) ResolveTarget(&item, scope);
  }

  Status ResolveAssign(Assign& assign, const Surroundings& around) {
    ResolveTarget(&assign.target, *around.scope);
    assign.is_exported = around.is_top_level;
    return ResolveExpression(assign.value.get(), around);
  }

  Status ResolveAssignBlock(AssignBlock& assign, const Surroundings& around) {
    VariableScope scope(around.scope->function(), around.scope);
    NoteNames(assign.body, &scope);
    NoteNames(assign.filter.get(), &scope);
    const Surroundings inside = around.Inside(&scope);
    KVD_CHECK_OK(ResolveBody(assign.body, inside));
    KVD_CHECK_OK(ResolveExpression(assign.filter.get(), inside));
    ResolveTarget(&assign.target, *around.scope);
    assign.is_exported = around.is_top_level;
    assign.scope = scope.TakeLoads();
    return {};
  }

  Status ResolveFor(For& loop, const Surroundings& around) {
    if (const Place* place = FindAssignment(loop, "loop")) {
      return FailAt(*place, "can't assign to the special variable loop in a for loop");
    }
    KVD_CHECK_OK(ResolveExpression(loop.iterable.get(), around));
    KVD_CHECK_OK(ResolveCondition(loop, around));
    FunctionScope recursive_function = FunctionInside(around.scope->function());
    FunctionScope* const function =
        loop.is_recursive ? &recursive_function : around.scope->function();
    VariableScope body_scope(function, around.scope);
    loop.uses_loop = loop.is_recursive || UsesName(loop.body, "loop");
    if (loop.uses_loop) body_scope.DeclareParameter("loop");
    NoteParameters(loop.target, &body_scope);
    NoteNames(loop.body, &body_scope);
    ResolveTarget(&loop.target, body_scope);
    if (loop.uses_loop) loop.loop_slot = body_scope.SlotOf("loop");
    Surroundings inside = around.Inside(&body_scope);
    inside.is_in_loop = true;
    KVD_CHECK_OK(ResolveBody(loop.body, inside));
    loop.body_scope = body_scope.TakeLoads();
    VariableScope otherwise_scope(function, around.scope);
    NoteNames(loop.otherwise, &otherwise_scope);
    Surroundings otherwise = around.Inside(&otherwise_scope);
    otherwise.is_in_loop = around.is_in_loop && !loop.is_recursive;
    KVD_CHECK_OK(ResolveBody(loop.otherwise, otherwise));
    loop.otherwise_scope = otherwise_scope.TakeLoads();
    loop.recursive_function.slot_count = SlotCount(recursive_function);
    return {};
  }

  Status ResolveCondition(For& loop, const Surroundings& around) {
    if (loop.condition == nullptr) return {};
    FunctionScope function = FunctionInside(around.scope->function());
    VariableScope scope(&function, around.scope);
    NoteParameters(loop.condition_target, &scope);
    NoteNames(loop.condition.get(), &scope);
    ResolveTarget(&loop.condition_target, scope);
    KVD_CHECK_OK(ResolveExpression(loop.condition.get(), around.Inside(&scope)));
    loop.condition_scope = scope.TakeLoads();
    loop.condition_function.slot_count = SlotCount(function);
    return {};
  }

  Status ResolveIf(If& statement, const Surroundings& around) {
    Surroundings inside = around;
    inside.is_conditional = true;
    for (If::Branch& branch : statement.branches) {
      KVD_CHECK_OK(ResolveExpression(branch.test.get(), inside));
      KVD_CHECK_OK(ResolveBody(branch.body, inside));
    }
    return ResolveBody(statement.otherwise, inside);
  }

  Status ResolveWith(With& with, const Surroundings& around) {
    VariableScope scope(around.scope->function(), around.scope);
    for (const Target& target : with.targets) NoteParameters(target, &scope);
    NoteNames(with.body, &scope);
    for (Target& target : with.targets) ResolveTarget(&target, scope);
    for (const ExpressionPtr& value : with.values) {
      KVD_CHECK_OK(ResolveExpression(value.get(), around));
    }
    KVD_CHECK_OK(ResolveBody(with.body, around.Inside(&scope)));
    with.scope = scope.TakeLoads();
    return {};
  }

  Status ResolveFunction(MacroFunction* macro, const Place& place, const Surroundings& around) {
    FunctionScope function = FunctionInside(around.scope->function());
    VariableScope scope(&function, around.scope);
    bool has_caller = false, has_named = false, has_more = false;
    const std::size_t required = macro->parameters.size() - macro->defaults.size();
    macro->takes_caller = UsesName(macro->body, "caller");
    for (std::size_t i = 0; i < macro->parameters.size(); ++i) {
      const Target& parameter = macro->parameters[i];
      has_caller |= parameter.name == "caller";
      has_named |= parameter.name == "kwargs";
      has_more |= parameter.name == "varargs";
      if (parameter.name == "caller" && i < required && macro->takes_caller) {
        return FailAt(place, "the parameter caller must have a default");
      }
      NoteParameters(parameter, &scope);
    }
    macro->takes_caller &= !has_caller;
    macro->takes_named = !has_named && UsesName(macro->body, "kwargs");
    macro->takes_more = !has_more && UsesName(macro->body, "varargs");
    if (macro->takes_caller) macro->caller_slot = scope.SlotAt(scope.DeclareParameter("caller"));
    if (macro->takes_named) macro->named_slot = scope.SlotAt(scope.DeclareParameter("kwargs"));
    if (macro->takes_more) macro->more_slot = scope.SlotAt(scope.DeclareParameter("varargs"));
    for (const ExpressionPtr& value : macro->defaults) NoteNames(value.get(), &scope);
    NoteNames(macro->body, &scope);
    const Surroundings inside = around.InsideFunction(&scope);
    for (Target& parameter : macro->parameters) ResolveTarget(&parameter, scope);
    for (const ExpressionPtr& value : macro->defaults) {
      KVD_CHECK_OK(ResolveExpression(value.get(), inside));
    }
    KVD_CHECK_OK(ResolveBody(macro->body, inside));
    macro->scope = scope.TakeLoads();
    macro->function.slot_count = SlotCount(function);
    return {};
  }

  Status ResolveMacro(Macro& macro, const Surroundings& around) {
    KVD_CHECK_OK(ResolveFunction(&macro.function, macro.place, around));
    macro.slot = around.scope->SlotOf(macro.name);
    macro.is_exported = around.is_top_level;
    return {};
  }

  Status ResolveCallBlock(CallBlock& block, const Surroundings& around) {
    KVD_CHECK_OK(ResolveFunction(&block.function, block.place, around));
    return ResolveExpression(block.call.get(), around);
  }

  Status ResolveFilterBlock(FilterBlock& block, const Surroundings& around) {
    VariableScope scope(around.scope->function(), around.scope);
    NoteNames(block.body, &scope);
    NoteNames(block.filter.get(), &scope);
    const Surroundings inside = around.Inside(&scope);
    KVD_CHECK_OK(ResolveBody(block.body, inside));
    KVD_CHECK_OK(ResolveExpression(block.filter.get(), inside));
    block.scope = scope.TakeLoads();
    return {};
  }

  Status ResolveBlock(Block& block, const Surroundings& around) {
    if (!block_names_.insert(block.name).second) {
      return FailAt(block.place, "block '", block.name, "' defined twice");
    }
    if (block.is_scoped) block.visible = around.scope->StoredVariables();
    FunctionScope function = FunctionInside(around.scope->function());
    VariableScope scope(&function, nullptr);
    NoteNames(block.body, &scope);
    KVD_CHECK_OK(ResolveBody(block.body, around.InsideFunction(&scope)));
    block.scope = scope.TakeLoads();
    block.function.slot_count = SlotCount(function);
    return {};
  }

  std::set<std::string> block_names_;
};

}  // namespace

Status ResolveNames(TemplateTree* tree) { return NameResolver().Resolve(tree); }

}  // namespace kvd::jinja
