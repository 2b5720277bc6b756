// Only a well-formed character ends a word, so that the symbols of a text are the same whether the
// text is cut or not.
#include "engine/vocabulary/space_boundaries.h"

#include <algorithm>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"

namespace kvd {

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
