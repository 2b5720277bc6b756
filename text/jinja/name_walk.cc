#include "text/jinja/name_walk.h"

#include <algorithm>
#include <optional>

namespace kvd::jinja {
namespace {

using VisitPart = std::function<void(Expression&)>;

void VisitArguments(const CallArguments& arguments, const VisitPart& visit) {
  for (const ExpressionPtr& value : arguments.positional) visit(*value);
  for (const auto& [name, value] : arguments.named) visit(*value);
  if (arguments.more_positional != nullptr) visit(*arguments.more_positional);
  if (arguments.more_named != nullptr) visit(*arguments.more_named);
}

void NoteStores(const Target& target, VariableScope* scope) {
  switch (target.kind) {
    case Target::Kind::kName: scope->NoteStore(target.name); break;
    case Target::Kind::kNamespace: scope->NoteLoad(target.name); break;
    case Target::Kind::kTuple:
      for (const Target& item : target.items) NoteStores(item, scope);
  }
}

void NoteIf(const If& statement, std::size_t branch_index, VariableScope* scope) {
  // Jinja2 nests the later branches: {% elif %} is a condition inside the list of other branches.
  const If::Branch& branch = statement.branches[branch_index];
  NoteNames(branch.test.get(), scope);
  std::vector<VariableScope> branches(3, VariableScope::BranchOf(*scope));
  NoteNames(branch.body, branches.data());
  if (branch_index == 0) {
    for (std::size_t i = 1; i < statement.branches.size(); ++i) NoteIf(statement, i, &branches[1]);
    NoteNames(statement.otherwise, &branches[2]);
  }
  scope->MergeBranches(branches);
}

void NoteStatement(const Statement& statement, VariableScope* scope) {
  switch (statement.kind) {
    case StatementKind::kPrint:
      NoteNames(static_cast<const Print&>(statement).value.get(), scope);
      break;
    case StatementKind::kAssign: {
      const auto& assign = static_cast<const Assign&>(statement);
      NoteNames(assign.value.get(), scope);
      NoteStores(assign.target, scope);
      break;
    }
    case StatementKind::kAssignBlock:
      NoteStores(static_cast<const AssignBlock&>(statement).target, scope);
      break;
    case StatementKind::kFor:
      NoteNames(static_cast<const For&>(statement).iterable.get(), scope);
      break;
    case StatementKind::kIf: NoteIf(static_cast<const If&>(statement), 0, scope); break;
    case StatementKind::kWith:
      for (const ExpressionPtr& value : static_cast<const With&>(statement).values) {
        NoteNames(value.get(), scope);
      }
      break;
    case StatementKind::kMacro: scope->NoteStore(static_cast<const Macro&>(statement).name); break;
    case StatementKind::kCallBlock:
      NoteNames(static_cast<const CallBlock&>(statement).call.get(), scope);
      break;
    case StatementKind::kFilterBlock:
      NoteNames(static_cast<const FilterBlock&>(statement).filter.get(), scope);
      break;
    case StatementKind::kText:
    case StatementKind::kBlock:
    case StatementKind::kScope:
    case StatementKind::kBreak:
    case StatementKind::kContinue: break;
  }
}

// Reports each use of a name in a tree, scopes inside included, in the order of the source.
class UseWalk {
 public:
  // `report` receives the name, its place, and whether it is loaded. It returns whether to
  // continue.
  using Report = std::function<bool(const std::string& name, const Place& place, bool is_load)>;

  explicit UseWalk(Report report) : report_(std::move(report)) {}

  void Visit(const Body& body) {
    for (const StatementPtr& statement : body) Visit(*statement);
  }

  void Visit(const Statement& statement) {
    if (is_done_) return;
    switch (statement.kind) {
      case StatementKind::kPrint: Visit(static_cast<const Print&>(statement).value.get()); break;
      case StatementKind::kAssign: {
        const auto& assign = static_cast<const Assign&>(statement);
        Visit(assign.target);
        Visit(assign.value.get());
        break;
      }
      case StatementKind::kAssignBlock: {
        const auto& assign = static_cast<const AssignBlock&>(statement);
        Visit(assign.target);
        Visit(assign.filter.get());
        Visit(assign.body);
        break;
      }
      case StatementKind::kFor: VisitFor(static_cast<const For&>(statement)); break;
      case StatementKind::kIf: {
        const auto& condition = static_cast<const If&>(statement);
        for (const If::Branch& branch : condition.branches) {
          Visit(branch.test.get());
          Visit(branch.body);
        }
        Visit(condition.otherwise);
        break;
      }
      case StatementKind::kWith: {
        const auto& with = static_cast<const With&>(statement);
        for (const Target& target : with.targets) Visit(target);
        for (const ExpressionPtr& value : with.values) Visit(value.get());
        Visit(with.body);
        break;
      }
      case StatementKind::kMacro: Visit(static_cast<const Macro&>(statement).function); break;
      case StatementKind::kCallBlock: {
        const auto& block = static_cast<const CallBlock&>(statement);
        Visit(block.call.get());
        Visit(block.function);
        break;
      }
      case StatementKind::kFilterBlock: {
        const auto& block = static_cast<const FilterBlock&>(statement);
        Visit(block.body);
        Visit(block.filter.get());
        break;
      }
      case StatementKind::kScope: Visit(static_cast<const ScopeStatement&>(statement).body); break;
      case StatementKind::kText:
      case StatementKind::kBlock:
      case StatementKind::kBreak:
      case StatementKind::kContinue: break;
    }
  }

 private:
  void VisitFor(const For& loop) {
    Visit(loop.target);
    Visit(loop.iterable.get());
    Visit(loop.body);
    Visit(loop.otherwise);
    Visit(loop.condition.get());
  }
  void Visit(const MacroFunction& function) {
    for (const Target& parameter : function.parameters) Visit(parameter);
    for (const ExpressionPtr& value : function.defaults) Visit(value.get());
    Visit(function.body);
  }
  void Visit(const Target& target) {
    if (is_done_) return;
    if (target.kind == Target::Kind::kName) {
      is_done_ = !report_(target.name, target.place, false);
    }
    for (const Target& item : target.items) Visit(item);
  }
  void Visit(const Expression* expression) {
    if (expression == nullptr || is_done_) return;
    if (expression->kind == ExpressionKind::kName) {
      is_done_ = !report_(static_cast<const Name*>(expression)->name, expression->place, true);
      return;
    }
    ForEachPart(*expression, [this](Expression& part) { Visit(&part); });
  }

  Report report_;
  bool is_done_ = false;
};

}  // namespace

void ForEachPart(const Expression& expression, const VisitPart& visit) {
  const auto visit_if = [&visit](const ExpressionPtr& part) {
    if (part != nullptr) visit(*part);
  };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
    case ExpressionKind::kName: break;
    case ExpressionKind::kList:
      for (const auto& item : static_cast<const ListDisplay&>(expression).items) visit(*item);
      break;
    case ExpressionKind::kTuple:
      for (const auto& item : static_cast<const TupleDisplay&>(expression).items) visit(*item);
      break;
    case ExpressionKind::kDict:
      for (const auto& [key, value] : static_cast<const DictDisplay&>(expression).items) {
        visit(*key);
        visit(*value);
      }
      break;
    case ExpressionKind::kUnary: visit(*static_cast<const Unary&>(expression).operand); break;
    case ExpressionKind::kBinary:
      visit(*static_cast<const Binary&>(expression).left);
      visit(*static_cast<const Binary&>(expression).right);
      break;
    case ExpressionKind::kLogical:
      visit(*static_cast<const Logical&>(expression).left);
      visit(*static_cast<const Logical&>(expression).right);
      break;
    case ExpressionKind::kConcatenation:
      for (const auto& part : static_cast<const Concatenation&>(expression).parts) visit(*part);
      break;
    case ExpressionKind::kComparison:
      visit(*static_cast<const Comparison&>(expression).first);
      for (const auto& [op, other] : static_cast<const Comparison&>(expression).others) {
        visit(*other);
      }
      break;
    case ExpressionKind::kConditional:
      visit(*static_cast<const Conditional&>(expression).test);
      visit(*static_cast<const Conditional&>(expression).then);
      visit_if(static_cast<const Conditional&>(expression).otherwise);
      break;
    case ExpressionKind::kAttribute:
      visit(*static_cast<const Attribute&>(expression).object);
      break;
    case ExpressionKind::kItem:
      visit(*static_cast<const Item&>(expression).object);
      visit(*static_cast<const Item&>(expression).index);
      break;
    case ExpressionKind::kSlice:
      visit_if(static_cast<const Slice&>(expression).start);
      visit_if(static_cast<const Slice&>(expression).stop);
      visit_if(static_cast<const Slice&>(expression).step);
      break;
    case ExpressionKind::kCall:
      visit(*static_cast<const CallExpression&>(expression).callee);
      VisitArguments(static_cast<const CallExpression&>(expression).arguments, visit);
      break;
    case ExpressionKind::kFilter:
      visit_if(static_cast<const FilterExpression&>(expression).subject);
      VisitArguments(static_cast<const FilterExpression&>(expression).arguments, visit);
      break;
    case ExpressionKind::kTest:
      visit(*static_cast<const TestExpression&>(expression).subject);
      VisitArguments(static_cast<const TestExpression&>(expression).arguments, visit);
      break;
  }
}

void NoteNames(const Expression* expression, VariableScope* scope) {
  if (expression == nullptr) return;
  if (expression->kind == ExpressionKind::kName) {
    scope->NoteLoad(static_cast<const Name*>(expression)->name);
    return;
  }
  ForEachPart(*expression, [scope](Expression& part) { NoteNames(&part, scope); });
}

void NoteNames(const Body& body, VariableScope* scope) {
  for (const StatementPtr& statement : body) NoteStatement(*statement, scope);
}

void NoteParameters(const Target& target, VariableScope* scope) {
  if (target.kind == Target::Kind::kName) scope->DeclareParameter(target.name);
  for (const Target& item : target.items) NoteParameters(item, scope);
}

bool UsesName(const Body& body, const std::string& name) {
  std::optional<bool> is_loaded;
  UseWalk walk([&](const std::string& used, const Place&, bool is_load) {
    if (used == name) is_loaded = is_load;
    return !is_loaded.has_value();
  });
  walk.Visit(body);
  return is_loaded.value_or(false);
}

bool Assigns(const Target& target, const std::string& name) {
  if (target.kind == Target::Kind::kName) return target.name == name;
  return std::ranges::any_of(target.items, [&](const Target& item) { return Assigns(item, name); });
}

const Place* FindAssignment(const Statement& statement, const std::string& name) {
  const Place* found = nullptr;
  UseWalk walk([&](const std::string& used, const Place& place, bool is_load) {
    if (used == name && !is_load) found = &place;
    return found == nullptr;
  });
  walk.Visit(statement);
  return found;
}

}  // namespace kvd::jinja
