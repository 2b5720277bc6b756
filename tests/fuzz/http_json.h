// Makes JSON of the types of http_route_fields.h: values of a type, and now and then what clients
// send in error: a member that is absent, null, of another type, doubled, deeply nested or long.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/choices.h"
#include "tests/fuzz/http_route_fields.h"

namespace kvd::test {

// Appends the value. REQUIRES: nothing; a type may contain itself.
void AppendJson(const FieldType& type, Choices& choices, std::string& text);

// Members of a query: names and values, without quotes.
std::vector<std::pair<std::string, std::string>> QueryOf(std::span<const Field> fields,
                                                         Choices& choices);

// Changes bytes of the text: removes, doubles or replaces some.
void Damage(Choices& choices, std::string& text);

}  // namespace kvd::test
