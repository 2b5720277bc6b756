// U+2581, with which vocabularies write a space. The functions are pure and may be called from any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace kvd {

inline constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";

// Returns `text` with every space replaced by U+2581, and with one more U+2581 before it if
// `prefix`.
std::string EscapeSpaces(std::string_view text, bool prefix);

// Returns `text` with every U+2581 replaced by a space.
std::string UnescapeSpaces(std::string_view text);

}  // namespace kvd
