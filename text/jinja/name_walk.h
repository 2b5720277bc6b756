// Walks over the syntax tree that report the names in it.
#pragma once

#include <functional>
#include <string>

#include "text/jinja/syntax.h"
#include "text/jinja/variable_scope.h"

namespace kvd::jinja {

// Calls `visit` for each direct part of `expression`, in the order of evaluation's source.
void ForEachPart(const Expression& expression, const std::function<void(Expression&)>& visit);

// Notes the names that the statements load and store in the scope itself. Scopes inside are not
// entered, except for what is evaluated outside them: the iterable of a loop, the values of `with`.
void NoteNames(const Body& body, VariableScope* scope);
void NoteNames(const Expression* expression, VariableScope* scope);
void NoteParameters(const Target& target, VariableScope* scope);

// Returns whether `body`, with all scopes inside it, loads `name` before any other use of it.
bool UsesName(const Body& body, const std::string& name);

// Returns whether `target` assigns to `name`.
bool Assigns(const Target& target, const std::string& name);
// Returns the place of an assignment to `name` anywhere in the statement, or null.
const Place* FindAssignment(const Statement& statement, const std::string& name);

}  // namespace kvd::jinja
