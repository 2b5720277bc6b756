// Characters as Python's str methods classify and map them (Unicode 14.0). The functions are pure.
//
// A text is UTF-8. A byte that is not part of a well-formed character counts as a character of its
// own, so the functions accept any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvd {

// The bits of CharacterClassRange::classes, in this order.
enum class CharacterClass : std::uint8_t {
  kAlpha,
  kDigit,
  kDecimal,
  kNumeric,
  kLower,
  kUpper,
  kTitle,
  kSpace,
  kPrintable,
  kIdentifierPart,
  kIdentifierStart,
  kCaseIgnorable,
};

bool IsIn(CharacterClass wanted, std::uint32_t code_point);
// The value of a decimal digit of any script.
std::optional<int> DecimalValue(std::uint32_t code_point);

// The bytes of the first character of `text`. REQUIRES: the text is not empty.
std::size_t CharacterBytes(std::string_view text);
// The code point of `character`; a byte outside any character is its own value.
std::uint32_t CharacterOf(std::string_view character);
std::vector<std::uint32_t> CodePointsOf(std::string_view text);
std::string TextOf(const std::vector<std::uint32_t>& code_points);

// The byte offset of the character with the given index; the text's size if the index is too large.
std::size_t OffsetOf(std::string_view text, std::size_t index);

// Removes characters of the class kSpace.
std::string_view TrimLeft(std::string_view text);
std::string_view TrimRight(std::string_view text);
std::string_view Trim(std::string_view text);

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
std::string Title(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);

}  // namespace kvd
