// Code points and their Unicode classes, for the scripts of the project's test texts.
//
// The tables are independent of the engine's tables. For a code point that is not in the tables the
// functions throw std::runtime_error; texts with other characters require additions to the tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvd::reference {

enum class Class : std::uint8_t {
  kLetter,       // \p{L}
  kMark,         // \p{M}
  kNumber,       // \p{N}
  kPunctuation,  // \p{P}
  kSymbol,       // \p{S}
  kSpace,        // \s
  kControl,      // \p{C}
};

// REQUIRES: `text` is well-formed UTF-8.
std::vector<char32_t> CodePoints(std::string_view text);
std::string Utf8(char32_t code_point);

Class ClassOf(char32_t code_point);

// Returns the first code point of the canonical decomposition, for example "e" for "é".
char32_t WithoutAccent(char32_t code_point);
char32_t LowerCase(char32_t code_point);

}  // namespace kvd::reference
