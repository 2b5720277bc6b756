// The name of a test parameter. GoogleTest accepts only letters, digits and underscores.
#pragma once

#include <string>
#include <string_view>

namespace kvd::test {

// Returns `name` without hyphens.
inline std::string ParameterName(std::string_view name) {
  std::string kept(name);
  std::erase(kept, '-');
  return kept;
}

}  // namespace kvd::test
