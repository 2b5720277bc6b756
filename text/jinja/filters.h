// The functions behind the rows of the table of filters (builtins.cc).
#pragma once

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/value.h"

namespace kvd::jinja {

// filters_text.cc
Result<Value> FilterCapitalize(Invocation& call);
Result<Value> FilterIndent(Invocation& call);
Result<Value> FilterLower(Invocation& call);
Result<Value> FilterReplace(Invocation& call);
Result<Value> FilterSafe(Invocation& call);
Result<Value> FilterString(Invocation& call);
Result<Value> FilterTrim(Invocation& call);
Result<Value> FilterUpper(Invocation& call);

Result<Value> FilterFloat(Invocation& call);
Result<Value> FilterInt(Invocation& call);
Result<Value> FilterToJson(Invocation& call);

// filters_sequence.cc
Result<Value> FilterDefault(Invocation& call);
Result<Value> FilterFirst(Invocation& call);
Result<Value> FilterItems(Invocation& call);
Result<Value> FilterJoin(Invocation& call);
Result<Value> FilterLast(Invocation& call);
Result<Value> FilterLength(Invocation& call);
Result<Value> FilterList(Invocation& call);
Result<Value> FilterReverse(Invocation& call);
Result<Value> FilterDictSort(Invocation& call);
Result<Value> FilterMax(Invocation& call);
Result<Value> FilterMin(Invocation& call);
Result<Value> FilterSort(Invocation& call);
Result<Value> FilterUnique(Invocation& call);

// filters_select.cc
Result<Value> FilterMap(Invocation& call);
Result<Value> FilterReject(Invocation& call);
Result<Value> FilterRejectAttr(Invocation& call);
Result<Value> FilterSelect(Invocation& call);
Result<Value> FilterSelectAttr(Invocation& call);

}  // namespace kvd::jinja
