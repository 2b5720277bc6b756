// Characters as Python's str methods see them: white space, printable characters and cases. The
// functions are pure.
//
// A text is UTF-8. A byte that is not part of a well-formed character counts as a character of its
// own, so the functions accept any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvd {

// White space as str.isspace() has it.
bool IsSpace(std::uint32_t code_point);
// Whether repr() writes the character as it is. Python also escapes characters that its version of
// Unicode does not assign.
bool IsPrintable(std::uint32_t code_point);

// The bytes of the first character of `text`. REQUIRES: the text is not empty.
std::size_t CharacterBytes(std::string_view text);
// The code point of `character`; a byte outside any character is its own value.
std::uint32_t CharacterOf(std::string_view character);
std::vector<std::uint32_t> CodePointsOf(std::string_view text);
std::string TextOf(const std::vector<std::uint32_t>& code_points);

// The byte offset of the character with the given index; the text's size if the index is too large.
std::size_t OffsetOf(std::string_view text, std::size_t index);

// Each removes white space.
std::string_view TrimLeft(std::string_view text);
std::string_view TrimRight(std::string_view text);
std::string_view Trim(std::string_view text);

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
// The first character in upper case, the others in lower case. Python gives the digraphs and Greek
// letters that have a title case of their own that case.
std::string Capitalize(std::string_view text);

}  // namespace kvd
