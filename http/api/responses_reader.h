// Converts requests of OpenAI's Responses into the format of its chat completions. The functions
// are pure.
//
// A conversation is a list of items: messages, reasoning, calls of functions and their outputs.
// Successive items of the assistant become one message.
#pragma once

#include <vector>

#include "base/error.h"
#include "text/value.h"

namespace kvd::http {

// The items of the member "input": a text is one message of the user. Errors: kInvalidArgument,
// with the field's name. REQUIRES: `body` is a dict.
Result<std::vector<Value>> InputItems(const Value& body);

// The chat of all items of a conversation: `earlier` are those before the request's own `input`.
// Other members of the body that both formats have are kept. Errors: kInvalidArgument, with the
// field's name; kUnsupported: an item or a part that is not supported.
Result<Value> ReadResponseAsOpenAi(const Value& body, const std::vector<Value>& earlier,
                                   const std::vector<Value>& input);

}  // namespace kvd::http
