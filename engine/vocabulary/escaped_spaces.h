// U+2581, with which vocabularies write a space. The functions are pure and may be called from any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace kvd {

inline constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";

// Returns `text` with every space replaced by U+2581, and with one more U+2581 before it if
// `prefix`.
std::string EscapeSpaces(std::string_view text, bool prefix);

// Returns `text` with every U+2581 replaced by a space.
std::string UnescapeSpaces(std::string_view text);

// SpaceBoundaries finds where a text with escaped spaces (escaped_spaces.h) can be cut into words
// that merge independently of each other: before a U+2581, unless some token has the same character
// before a U+2581.
//
// Two symbols merge only if their joined text is a token, so no symbol ever reaches across such a
// place. A SpaceBoundaries is built once, then immutable, and may be used from any thread.
class SpaceBoundaries {
 public:
  // `text`: a text that merging may produce. Every text that merging may produce must be added
  // before the first call of WordBytes.
  void Add(std::string_view text);

  // The bytes of the first word of `text`. REQUIRES: text is not empty, and begins where a word
  // begins.
  std::size_t WordBytes(std::string_view text) const;

 private:
  std::set<std::string, std::less<>> before_space_;  // characters that a token has before U+2581
};

}  // namespace kvd
