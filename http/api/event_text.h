// Events of a text/event-stream.
#pragma once

#include <string>
#include <string_view>

#include "http/answer/answer.h"
#include "http/api/json_text.h"
#include "text/value.h"

namespace kvd::http {

// "event: NAME\ndata: JSON\n\n"
std::string EventText(std::string_view name, const Value& data);

}  // namespace kvd::http
