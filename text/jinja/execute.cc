#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/lexer.h"
#include "text/jinja/loop_object.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {

Interpreter::Interpreter(const TemplateTree& tree, const Value& variables,
                         const RenderOptions& options)
    : tree_(tree), variables_(variables.dict()), budget_(options) {}

Result<std::string> Interpreter::Run() {
  frame_ = std::make_shared<CallFrame>();
  frame_->slots.resize(tree_.function.slot_count);
  std::string text;
  const Status status = Collect(&text, [&]() -> Result<Flow> {
    KVD_CHECK_OK(Enter(tree_.scope));
    return Execute(tree_.body);
  });
  KVD_CHECK_OK(status);
  return text;
}

std::unexpected<Error> Interpreter::FailVerbatim(std::string message) {
  is_located_ = true;
  return Fail(Code::kInvalidArgument, std::move(message));
}

Value& Interpreter::SlotAt(const VariableSlot& slot) {
  CallFrame* frame = frame_.get();
  for (std::uint32_t hop = 0; hop < slot.hops; ++hop) frame = frame->outer.get();
  return frame->slots[slot.index];
}

Result<Value> Interpreter::Resolve(const Value& name) {
  if (!block_variables_.empty()) {
    if (const Value& found = block_variables_.back()->Find(name); !found.is_missing()) return found;
  }
  if (!exported_.empty()) {
    if (const Value& found = exported_.Find(name); !found.is_missing()) return found;
  }
  if (const Value& found = variables_.Find(name); !found.is_missing()) return found;
  if (const Value& found = globals_.Find(name); !found.is_missing()) return found;
  const BuiltinRow* const row = FindGlobal(name.view());
  if (row == nullptr) return Value();
  KVD_TRY(Value function, Make<GlobalFunction>(*row));
  globals_.Set(name, function);
  return function;
}

Status Interpreter::Enter(const Scope& scope) {
  for (const Load& load : scope.loads) {
    switch (load.kind) {
      case Load::Kind::kResolve: {
        KVD_TRY(SlotAt(load.slot), Resolve(load.name));
        break;
      }
      case Load::Kind::kAlias: SlotAt(load.slot) = Value(SlotAt(load.source)); break;
      case Load::Kind::kUndefined: SlotAt(load.slot) = Value(); break;
      case Load::Kind::kParameter: break;
    }
  }
  return {};
}

void Interpreter::Leave(const Scope& scope) {
  for (const Load& load : scope.loads) SlotAt(load.slot) = Value();
}

Status Interpreter::Write(std::string_view text) {
  output_->append(text);
  return budget_.CheckOutput(output_->size());
}

Status Interpreter::WriteValue(const Value& value) {
  if (value.is_string()) return Write(value.view());
  KVD_CHECK_OK(AppendStr(*this, value, output_));
  return budget_.CheckOutput(output_->size());
}

// Jinja2 joins the results of call blocks and filter blocks as they are, at the end of the output
// that they are in: an error in between comes first.
Status Interpreter::WriteString(const Value& value, const Place& place) {
  if (value.is_string()) return Write(value.view());
  if (joined_) {
    joined_ =
        Fail(Code::kInvalidArgument, AtPlace(place, Concat("sequence item: expected str instance, ",
                                                           TypeName(value), " found")));
  }
  return {};
}

Result<Interpreter::Flow> Interpreter::Execute(const Body& body) {
  for (const StatementPtr& statement : body) {
    KVD_TRY(const Flow flow, Execute(*statement));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::Execute(const Statement& statement) {
  const auto run = [&]() -> Result<Flow> {
    const Budget::Level level(&budget_);
    KVD_CHECK_OK(level.Check());
    KVD_CHECK_OK(budget_.Step());
    switch (statement.kind) {
      case StatementKind::kText:
        KVD_CHECK_OK(Write(static_cast<const TextStatement&>(statement).text));
        return Flow::kNormal;
      case StatementKind::kPrint:
        KVD_CHECK_OK(ExecutePrint(static_cast<const Print&>(statement)));
        return Flow::kNormal;
      case StatementKind::kAssign:
        KVD_CHECK_OK(ExecuteAssign(static_cast<const Assign&>(statement)));
        return Flow::kNormal;
      case StatementKind::kAssignBlock:
        return ExecuteAssignBlock(static_cast<const AssignBlock&>(statement));
      case StatementKind::kFor: return ExecuteFor(static_cast<const For&>(statement));
      case StatementKind::kIf: return ExecuteIf(static_cast<const If&>(statement));
      case StatementKind::kWith: return ExecuteWith(static_cast<const With&>(statement));
      case StatementKind::kMacro:
        KVD_CHECK_OK(ExecuteMacro(static_cast<const Macro&>(statement)));
        return Flow::kNormal;
      case StatementKind::kCallBlock:
        KVD_CHECK_OK(ExecuteCallBlock(static_cast<const CallBlock&>(statement)));
        return Flow::kNormal;
      case StatementKind::kFilterBlock:
        return ExecuteFilterBlock(static_cast<const FilterBlock&>(statement));
      case StatementKind::kBlock:
        KVD_CHECK_OK(ExecuteBlock(static_cast<const Block&>(statement)));
        return Flow::kNormal;
      case StatementKind::kScope: {
        const auto& scope = static_cast<const ScopeStatement&>(statement);
        return ExecuteInScope(scope.scope, scope.body);
      }
      case StatementKind::kBreak: return Flow::kBreak;
      case StatementKind::kContinue: return Flow::kContinue;
    }
    return Flow::kNormal;
  };
  Result<Flow> flow = run();
  if (!flow && !is_located_) return Locate(flow.error(), statement.place);
  return flow;
}

Result<Interpreter::Flow> Interpreter::ExecuteInScope(const Scope& scope, const Body& body) {
  KVD_CHECK_OK(Enter(scope));
  KVD_TRY(const Flow flow, Execute(body));
  Leave(scope);
  return flow;
}

Status Interpreter::ExecutePrint(const Print& print) {
  KVD_TRY(const Value value, Evaluate(*print.value));
  return WriteValue(value);
}

Status Interpreter::ExecuteAssign(const Assign& assign) {
  if (assign.target.kind == Target::Kind::kNamespace) {
    // Jinja2 checks the namespace before it evaluates the value.
    KVD_CHECK_OK(NamespaceObject::Check(SlotAt(assign.target.slot)));
  }
  KVD_TRY(const Value value, Evaluate(*assign.value));
  KVD_CHECK_OK(AssignTo(assign.target, value));
  if (assign.is_exported) Export(assign.target);
  return {};
}

Status Interpreter::AssignTo(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName: SlotAt(target.slot) = value; return {};
    case Target::Kind::kTuple: return Unpack(target, value);
    case Target::Kind::kNamespace: {
      const Value space = SlotAt(target.slot);
      KVD_CHECK_OK(NamespaceObject::Check(space));
      static_cast<NamespaceObject&>(space.object()).Set(target.attribute, value);
      return budget_.Charge(kObjectBytes);
    }
  }
  return {};
}

Status Interpreter::Unpack(const Target& target, const Value& value) {
  const std::size_t wanted = target.items.size();
  std::vector<Value> items;
  if (value.is_sequence()) {
    items = value.items();
  } else {
    KVD_TRY(const IteratorPtr iterator, IterateOver(*this, value));
    while (items.size() <= wanted) {
      KVD_TRY(std::optional<Value> item, iterator->Next());
      if (!item) break;
      items.push_back(std::move(*item));
    }
  }
  if (items.size() > wanted) {
    return Fail(Code::kInvalidArgument, "too many values to unpack (expected ", wanted, ")");
  }
  if (items.size() < wanted) {
    return Fail(Code::kInvalidArgument, "not enough values to unpack (expected ", wanted, ", got ",
                items.size(), ")");
  }
  for (std::size_t i = 0; i < wanted; ++i) KVD_CHECK_OK(AssignTo(target.items[i], items[i]));
  return {};
}

void Interpreter::Export(const Target& target) {
  if (!tree_.has_blocks) return;
  if (target.kind == Target::Kind::kName) exported_.Set(target.name, SlotAt(target.slot));
  for (const Target& item : target.items) Export(item);
}

Result<Interpreter::Flow> Interpreter::Capture(const Body& body, std::string* text) {
  Flow flow = Flow::kNormal;
  const Status status = Collect(text, [&]() -> Status {
    KVD_TRY(flow, Execute(body));
    return {};
  });
  if (status) return flow;
  if (flow == Flow::kNormal) return std::unexpected(status.error());
  is_located_ = false;  // a break or continue has left the text, which is not used
  return flow;
}

Result<Interpreter::Flow> Interpreter::ExecuteAssignBlock(const AssignBlock& assign) {
  KVD_CHECK_OK(Enter(assign.scope));
  std::string text;
  KVD_TRY(const Flow flow, Capture(assign.body, &text));
  if (flow != Flow::kNormal) return flow;
  KVD_TRY(Value value, budget_.String(std::move(text)));
  if (assign.filter != nullptr) {
    const Value* const outer = std::exchange(filter_text_, &value);
    Result<Value> filtered = Evaluate(*assign.filter);
    filter_text_ = outer;
    KVD_TRY(value, std::move(filtered));
  }
  KVD_CHECK_OK(AssignTo(assign.target, value));
  if (assign.is_exported) Export(assign.target);
  Leave(assign.scope);
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::ExecuteFor(const For& loop) {
  KVD_TRY(const Value iterable, Evaluate(*loop.iterable));
  if (!loop.is_recursive) return RunLoop(loop, iterable, frame_, 0);
  KVD_TRY(const Value text, CallLoop(loop, frame_, iterable, 0));
  KVD_CHECK_OK(Write(text.view()));
  return Flow::kNormal;
}

Result<Value> Interpreter::CallLoop(const For& loop, const std::shared_ptr<CallFrame>& closure,
                                    const Value& iterable, std::int64_t depth) {
  const Budget::Level level(&budget_);
  KVD_CHECK_OK(level.Check());
  auto inner = std::make_shared<CallFrame>();
  inner->outer = closure;
  inner->slots.resize(loop.recursive_function.slot_count);
  KVD_CHECK_OK(budget_.Charge(kObjectBytes + inner->slots.size() * sizeof(Value)));
  const std::shared_ptr<CallFrame> caller = std::exchange(frame_, std::move(inner));
  std::string text;
  const Status status = Collect(&text, [&] { return RunLoop(loop, iterable, closure, depth); });
  frame_ = caller;
  KVD_CHECK_OK(status);
  return budget_.String(std::move(text));
}

Result<bool> Interpreter::CheckCondition(const For& loop, const std::shared_ptr<CallFrame>& frame,
                                         Value* item) {
  const std::shared_ptr<CallFrame> caller = std::exchange(frame_, frame);
  const auto check = [&]() -> Result<bool> {
    KVD_CHECK_OK(AssignTo(loop.condition_target, *item));
    KVD_TRY(const Value value, Evaluate(*loop.condition));
    return IsTrue(value);
  };
  Result<bool> is_chosen = check();
  frame_ = caller;
  return is_chosen;
}

Result<Interpreter::Flow> Interpreter::RunLoop(const For& loop, const Value& iterable,
                                               const std::shared_ptr<CallFrame>& closure,
                                               std::int64_t depth) {
  Value source = iterable;
  if (loop.condition != nullptr) {
    auto frame = std::make_shared<CallFrame>();
    frame->outer = closure;
    frame->slots.resize(loop.condition_function.slot_count);
    const std::shared_ptr<CallFrame> caller = std::exchange(frame_, frame);
    const Status entered = Enter(loop.condition_scope);
    frame_ = caller;
    KVD_CHECK_OK(entered);
    KVD_TRY(source, MakeConditionIterator(*this, loop, frame, iterable));
  }
  KVD_TRY(IteratorPtr iterator, IterateOver(*this, source));
  LoopObject* object = nullptr;
  if (loop.uses_loop) {
    KVD_TRY(const Value made,
            Make<LoopObject>(loop, closure, source, std::exchange(iterator, nullptr), depth));
    object = &static_cast<LoopObject&>(made.object());
  }
  bool is_empty = true;
  while (true) {
    Result<std::optional<Value>> item = object != nullptr ? object->Next() : iterator->Next();
    if (!item) return std::unexpected(std::move(item.error()));
    if (!*item) break;
    KVD_CHECK_OK(AssignTo(loop.target, **item));
    if (object != nullptr) SlotAt(loop.loop_slot) = Value::Of(*object);
    KVD_CHECK_OK(Enter(loop.body_scope));
    KVD_TRY(const Flow flow, Execute(loop.body));
    if (flow == Flow::kBreak) break;
    // As in Jinja2, a loop that leaves each item by `continue` counts as empty.
    if (flow == Flow::kNormal) is_empty = false;
  }
  Leave(loop.body_scope);
  if (!is_empty || loop.otherwise.empty()) return Flow::kNormal;
  return ExecuteInScope(loop.otherwise_scope, loop.otherwise);
}

Result<Interpreter::Flow> Interpreter::ExecuteIf(const If& statement) {
  for (const If::Branch& branch : statement.branches) {
    KVD_TRY(const Value value, Evaluate(*branch.test));
    KVD_TRY(const bool is_true, IsTrue(value));
    if (is_true) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

Result<Interpreter::Flow> Interpreter::ExecuteWith(const With& with) {
  KVD_CHECK_OK(Enter(with.scope));
  for (std::size_t i = 0; i < with.targets.size(); ++i) {
    KVD_TRY(const Value value, Evaluate(*with.values[i]));
    KVD_CHECK_OK(AssignTo(with.targets[i], value));
  }
  KVD_TRY(const Flow flow, Execute(with.body));
  Leave(with.scope);
  return flow;
}

Status Interpreter::ExecuteMacro(const Macro& macro) {
  KVD_TRY(const Value made, Make<MacroObject>(macro.function, macro.name, frame_));
  SlotAt(macro.slot) = made;
  if (macro.is_exported && tree_.has_blocks) exported_.Set(macro.name, made);
  return {};
}

Status Interpreter::ExecuteCallBlock(const CallBlock& block) {
  KVD_TRY(const Value caller, Make<MacroObject>(block.function, std::nullopt, frame_));
  KVD_TRY(const Value value, block.call == nullptr ? ScriptOf(caller).Call(*this, Arguments())
                                                   : EvaluateCall(*block.call, &caller));
  return WriteString(value, block.place);
}

Result<Interpreter::Flow> Interpreter::ExecuteFilterBlock(const FilterBlock& block) {
  KVD_CHECK_OK(Enter(block.scope));
  std::string text;
  KVD_TRY(const Flow flow, Capture(block.body, &text));
  if (flow != Flow::kNormal) return flow;
  KVD_TRY(const Value value, budget_.String(std::move(text)));
  const Value* const outer = std::exchange(filter_text_, &value);
  const Result<Value> filtered = Evaluate(*block.filter);
  filter_text_ = outer;
  if (!filtered) return std::unexpected(filtered.error());
  KVD_CHECK_OK(WriteString(*filtered, block.place));
  Leave(block.scope);
  return Flow::kNormal;
}

Status Interpreter::ExecuteBlock(const Block& block) {
  if (block.is_required) {
    return Fail(Code::kInvalidArgument, "required block '", block.name, "' not found");
  }
  Dict visible;
  for (const auto& [name, slot] : block.visible) {
    const Value& value = SlotAt(slot);
    if (!value.is_missing()) visible.Set(name, value);
  }
  KVD_CHECK_OK(budget_.Charge(visible.size() * kObjectBytes));
  auto inner = std::make_shared<CallFrame>();
  inner->slots.resize(block.function.slot_count);
  const std::shared_ptr<CallFrame> caller = std::exchange(frame_, std::move(inner));
  if (block.is_scoped) block_variables_.push_back(&visible);
  const Status entered = Enter(block.scope);
  const Result<Flow> flow =
      entered ? Execute(block.body) : Result<Flow>(std::unexpected(entered.error()));
  if (block.is_scoped) block_variables_.pop_back();
  frame_ = caller;
  if (!flow) return std::unexpected(flow.error());
  return {};
}

}  // namespace kvd::jinja
