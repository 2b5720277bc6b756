// The rule for names of snapshots, daemons and saved files. Names become file names and parts of
// messages, so names contain no separators, no spaces and no control characters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace kvd {

// The largest number of bytes of a name; a name field of 64 bytes in shared memory ends in a zero
// byte.
inline constexpr std::size_t kNameMax = 63;

constexpr bool IsNameCharacter(char c, bool is_first) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || (!is_first && c == '.');
}

// [A-Za-z0-9_-][A-Za-z0-9._-]{0,62}
constexpr bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax && IsNameCharacter(name.front(), true) &&
         std::ranges::all_of(name, [](char c) { return IsNameCharacter(c, false); });
}

}  // namespace kvd
