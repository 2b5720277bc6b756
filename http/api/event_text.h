// Events of a text/event-stream, and the objects in them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "http/answer/answer.h"
#include "http/api/json_text.h"
#include "text/value.h"

namespace kvd::http {

// An object of the members in their order.
Value ObjectOf(std::initializer_list<std::pair<std::string_view, Value>> members);

// "event: NAME\ndata: JSON\n\n"
std::string EventText(std::string_view name, const Value& data);

}  // namespace kvd::http
