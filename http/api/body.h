// The body of a request: one JSON object.
#pragma once

#include "base/error.h"
#include "http/loop/await.h"
#include "http/loop/workers.h"
#include "http/serve/request.h"
#include "text/value.h"

namespace kvd::http {

// Parses the body, on a worker if it is long. Errors: kInvalidArgument: the body is not UTF-8, not
// JSON, not an object, or nested too deeply (kBodyNestingMax).
Await<Result<Value>> ParseBody(const Request& request, Workers& workers);

}  // namespace kvd::http
