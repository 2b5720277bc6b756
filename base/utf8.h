// UTF-8: finds well-formed and incomplete characters. The functions are pure and may be called on
// any thread. "Well formed" follows table 3-7 of the Unicode Standard: no overlong forms, no
// surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvd {

// U+FFFD, which replaces bytes that are not well formed.
inline constexpr std::uint32_t kReplacementCodePoint = 0xfffd;
inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

// Returns whether `text` consists of well-formed characters only.
bool IsValidUtf8(std::string_view text);

// Returns the number of bytes of the well-formed character at the start of `text`; 0 if there is
// none.
std::size_t WellFormedBytes(std::string_view text);

// Returns the number of bytes (0 to 3) at the end of `text` that begin a character and lack its
// last bytes.
std::size_t IncompleteTailBytes(std::string_view text);

// Returns the number of bytes that the high bits of the lead byte announce; 1 for any byte that is
// not a lead byte.
std::size_t AnnouncedBytes(char lead);

// Returns the code point of `character`. REQUIRES: `character` is one well-formed character.
std::uint32_t CodePointOf(std::string_view character);

// Appends the character `code_point`. REQUIRES: code_point is at most U+10FFFF.
void AppendUtf8(std::uint32_t code_point, std::string& text);

}  // namespace kvd
