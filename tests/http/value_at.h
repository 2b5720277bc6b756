// The members of a reply's JSON, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "text/value.h"

namespace kvd::http::test {

// The member at a path like "error.message". A member that is missing fails the test, and a missing
// value is returned.
inline Value At(const Value& value, std::string_view path) {
  const std::size_t dot = path.find('.');
  const Value* const found = value.is_dict() ? value.dict().Find(path.substr(0, dot)) : nullptr;
  EXPECT_NE(found, nullptr) << path;
  if (found == nullptr || dot == std::string_view::npos) return found == nullptr ? Value() : *found;
  return At(*found, path.substr(dot + 1));
}

}  // namespace kvd::http::test
