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
  const Value& found = value.dict().Find(path.substr(0, dot));
  EXPECT_FALSE(found.is_missing()) << path;
  return dot == std::string_view::npos ? found : At(found, path.substr(dot + 1));
}

}  // namespace kvd::http::test
