// Finds, for each name in a template, the slot that holds the variable, by the rules of Jinja2.
//
// A scope that assigns a name has a variable of its own, which begins with the value of the outer
// scope's variable of that name, or with nothing; a name that no scope assigns is looked up among
// the variables of the render. The rules are decided for a scope as a whole, from all of its
// statements: a name that the template assigns later is undefined in a loop before, even if the
// render has a variable of that name.
#pragma once

#include "base/error.h"
#include "text/jinja/syntax.h"

namespace kvd::jinja {

// Fills in slots, scopes and functions. Errors: kInvalidArgument with the place: an unknown filter
// or test outside conditions, a break outside a loop, an assignment to `loop`, a macro with a
// parameter `caller` without default, or two blocks of one name.
Status ResolveNames(TemplateTree* tree);

}  // namespace kvd::jinja
