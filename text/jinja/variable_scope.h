// The names of one scope of a template while the name resolver walks over it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"

namespace kvd::jinja {

// A function whose slots are being given out. Scopes of one level in one function share the slot of
// a name, because only one of them is entered at a time.
struct FunctionScope {
  FunctionScope* outer = nullptr;
  std::uint32_t depth = 0;                                               // functions further out
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> slots;  // by level and name
};

// A slot, as seen from the outside: slot `index` of the function at `depth`.
struct SlotReference {
  std::uint32_t depth = 0;
  std::uint32_t index = 0;

  auto operator<=>(const SlotReference&) const = default;
};

class VariableScope {
 public:
  VariableScope(FunctionScope* function, const VariableScope* outer)
      : function_(function), outer_(outer), level_(outer == nullptr ? 0 : outer->level_ + 1) {}
  // A branch of a condition in the scope `whole`: it notes what `whole` has not noted before.
  static VariableScope BranchOf(const VariableScope& whole) {
    VariableScope branch(whole.function_, whole.outer_);
    branch.whole_ = &whole;
    return branch;
  }

  FunctionScope* function() const { return function_; }

  // The statements of the scope, in their order, report names by these three functions.
  void NoteLoad(const std::string& name);
  void NoteStore(const std::string& name);
  SlotReference DeclareParameter(const std::string& name);

  // Adds what the branches of a condition have noted. A name that only some branches store may
  // still have its outer value.
  void MergeBranches(const std::vector<VariableScope>& branches);

  // Returns null if no scope has noted the name.
  const SlotReference* Find(const std::string& name) const;
  // The slot as seen from the function of this scope. REQUIRES: Find() finds it.
  VariableSlot SlotOf(const std::string& name) const;
  VariableSlot SlotAt(const SlotReference& reference) const;
  // The loads that enter the scope.
  Scope TakeLoads() const;
  // The variables that this scope and outer scopes store, innermost first.
  std::vector<std::pair<Value, VariableSlot>> StoredVariables() const;

 private:
  struct Origin {
    Load::Kind kind = Load::Kind::kUndefined;
    SlotReference source;
    std::string name;
  };

  SlotReference Define(const std::string& name, Origin origin);
  const SlotReference* FindOwn(const std::string& name) const;
  bool Stores(const std::string& name) const;

  FunctionScope* function_;
  const VariableScope* outer_;
  const VariableScope* whole_ = nullptr;  // of a branch
  std::uint32_t level_;
  std::map<std::string, SlotReference> references_;
  std::map<SlotReference, Origin> origins_;
  std::set<std::string> stores_;
};

}  // namespace kvd::jinja
