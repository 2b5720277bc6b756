// The JSON of replies, and of events in streams.
#pragma once

#include <string>
#include <string_view>

#include "http/answer/answer.h"
#include "text/json_builder.h"
#include "text/value.h"

namespace kvd::http {

// The JSON of replies: objects by their builder, and numbers that were floats in a request.

// Builds an object: Object().Set("id", id).Set("index", CountValue(0)).Take().
using Object = Json;

// A number that was a float in a request: 0.8, not 0.800000011920929.
Value FloatValue(float number);

// Events of a text/event-stream.

// "event: NAME\ndata: JSON\n\n"
std::string EventText(std::string_view name, const Value& data);

}  // namespace kvd::http
