// Lists the golden folders whose models this build does not support.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace kvd::test {

// Returns whether the folder's model has an architecture or a weight type that is not supported.
inline bool IsBeyondThisBuild(std::string_view folder) {
  return std::ranges::any_of(
      std::array<std::string_view, 2>{"llama-iq1", "llama-tq"},
      [folder](std::string_view beginning) { return folder.starts_with(beginning); });
}

}  // namespace kvd::test
