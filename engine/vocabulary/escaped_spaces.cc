#include "engine/vocabulary/escaped_spaces.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvd {

// ---- escaped spaces
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

// ---- space boundaries
// Only a well-formed character ends a word, so that the symbols of a text are the same whether the
// text is cut or not.
void SpaceBoundaries::Add(std::string_view text) {
  for (std::size_t space = text.find(kEscapedSpace, 1); space != text.npos;
       space = text.find(kEscapedSpace, space + 1)) {
    for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(space, 4); ++bytes) {
      const std::string_view character = text.substr(space - bytes, bytes);
      if (WellFormedBytes(character) != bytes) continue;
      before_space_.emplace(character);
      break;
    }
  }
}

std::size_t SpaceBoundaries::WordBytes(std::string_view text) const {
  std::string_view before;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool ends_word = !before.empty() && text.substr(at).starts_with(kEscapedSpace) &&
                           WellFormedBytes(before) == before.size() &&
                           !before_space_.contains(before);
    if (ends_word) break;
    before = text.substr(at, AnnouncedBytes(text[at]));
    at += before.size();
  }
  return at;
}

}  // namespace kvd
