#include "engine/vocabulary/escaped_spaces.h"

#include <algorithm>

namespace kvd {

std::string EscapeSpaces(std::string_view text, bool prefix) {
  std::string escaped;
  auto spaces = static_cast<std::size_t>(std::ranges::count(text, ' '));
  escaped.reserve(text.size() + (spaces + 1) * kEscapedSpace.size());
  if (prefix) escaped.append(kEscapedSpace);
  for (char byte : text) {
    if (byte == ' ') {
      escaped.append(kEscapedSpace);
    } else {
      escaped.push_back(byte);
    }
  }
  return escaped;
}

std::string UnescapeSpaces(std::string_view text) {
  std::string unescaped;
  while (!text.empty()) {
    bool space = text.starts_with(kEscapedSpace);
    unescaped.push_back(space ? ' ' : text[0]);
    text.remove_prefix(space ? kEscapedSpace.size() : 1);
  }
  return unescaped;
}

}  // namespace kvd
