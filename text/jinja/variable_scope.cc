#include "text/jinja/variable_scope.h"

#include "base/check.h"

namespace kvd::jinja {

SlotReference VariableScope::Define(const std::string& name, Origin origin) {
  const auto next = static_cast<std::uint32_t>(function_->slots.size());
  const auto [slot, is_new] = function_->slots.try_emplace({level_, name}, next);
  const SlotReference reference{function_->depth, slot->second};
  references_[name] = reference;
  origins_[reference] = std::move(origin);
  return reference;
}

const SlotReference* VariableScope::FindOwn(const std::string& name) const {
  for (const VariableScope* scope = this; scope != nullptr; scope = scope->whole_) {
    const auto found = scope->references_.find(name);
    if (found != scope->references_.end()) return &found->second;
  }
  return nullptr;
}

bool VariableScope::Stores(const std::string& name) const {
  return stores_.contains(name) || (whole_ != nullptr && whole_->Stores(name));
}

const SlotReference* VariableScope::Find(const std::string& name) const {
  for (const VariableScope* scope = this; scope != nullptr; scope = scope->outer_) {
    if (const SlotReference* own = scope->FindOwn(name)) return own;
  }
  return nullptr;
}

void VariableScope::NoteLoad(const std::string& name) {
  if (Find(name) == nullptr) Define(name, {Load::Kind::kResolve, {}, name});
}

void VariableScope::NoteStore(const std::string& name) {
  stores_.insert(name);
  if (FindOwn(name) != nullptr) return;
  const SlotReference* outer = outer_ == nullptr ? nullptr : outer_->Find(name);
  if (outer != nullptr) {
    Define(name, {Load::Kind::kAlias, *outer, name});
  } else {
    Define(name, {Load::Kind::kUndefined, {}, name});
  }
}

SlotReference VariableScope::DeclareParameter(const std::string& name) {
  stores_.insert(name);
  return Define(name, {Load::Kind::kParameter, {}, name});
}

void VariableScope::MergeBranches(const std::vector<VariableScope>& branches) {
  std::map<std::string, std::size_t> store_counts;
  for (const VariableScope& branch : branches) {
    for (const std::string& name : branch.stores_) {
      if (!Stores(name)) ++store_counts[name];
    }
  }
  for (const VariableScope& branch : branches) {
    for (const auto& [name, reference] : branch.references_) references_[name] = reference;
    for (const auto& [reference, origin] : branch.origins_) origins_[reference] = origin;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const auto& [name, count] : store_counts) {
    if (count == branches.size()) continue;
    const SlotReference* own = Find(name);
    KVD_ASSERT(own != nullptr);
    const SlotReference* outer = outer_ == nullptr ? nullptr : outer_->Find(name);
    if (outer != nullptr) {
      origins_[*own] = {Load::Kind::kAlias, *outer, name};
    } else {
      origins_[*own] = {Load::Kind::kResolve, {}, name};
    }
  }
}

VariableSlot VariableScope::SlotAt(const SlotReference& reference) const {
  return {.hops = function_->depth - reference.depth, .index = reference.index};
}

VariableSlot VariableScope::SlotOf(const std::string& name) const {
  const SlotReference* reference = Find(name);
  KVD_ASSERT(reference != nullptr);
  return SlotAt(*reference);
}

Scope VariableScope::TakeLoads() const {
  Scope scope;
  for (const auto& [reference, origin] : origins_) {
    if (reference.depth != function_->depth) continue;
    Load load{.kind = origin.kind, .slot = SlotAt(reference), .source = {}, .name = {}};
    if (origin.kind == Load::Kind::kAlias) load.source = SlotAt(origin.source);
    if (origin.kind == Load::Kind::kResolve) load.name = Value::String(origin.name);
    scope.loads.push_back(std::move(load));
  }
  return scope;
}

std::vector<std::pair<Value, VariableSlot>> VariableScope::StoredVariables() const {
  std::vector<std::pair<Value, VariableSlot>> variables;
  std::set<std::string> seen;
  for (const VariableScope* scope = this; scope != nullptr; scope = scope->outer_) {
    for (const std::string& name : scope->stores_) {
      if (seen.insert(name).second) variables.emplace_back(Value::String(name), SlotOf(name));
    }
  }
  return variables;
}

}  // namespace kvd::jinja
