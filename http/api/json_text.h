// The JSON of replies: objects by their builder, and numbers that were floats in a request.
#pragma once

#include "text/json_builder.h"
#include "text/value.h"

namespace kvd::http {

// Builds an object: Object().Set("id", id).Set("index", CountValue(0)).Take().
using Object = Json;

// A number that was a float in a request: 0.8, not 0.800000011920929.
Value FloatValue(float number);

}  // namespace kvd::http
