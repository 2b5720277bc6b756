// Turns an expression that is searched in a text into the set of whole texts that it finds.
#pragma once

#include "base/error.h"
#include "text/schema/regex.h"

namespace kvd::schema {

// Resolves the anchors: where an end of the expression has none, any text may precede or follow.
// Errors: kUnsupported: an anchor that is not at an end of the expression.
Result<RegexNode> WholeText(RegexNode node);

}  // namespace kvd::schema
