// The events of a stream, as values.
#pragma once

#include <string_view>
#include <vector>

#include "text/value.h"

namespace kvd::http::test {

// The values of "data: JSON" in the body of a stream, without [DONE]. Fails the test if one is not
// JSON.
std::vector<Value> EventsOf(std::string_view body);

}  // namespace kvd::http::test
