// Properties of characters after Unicode 15.1: the class of a character, its cases, and its base
// character without accents. The functions are pure and may be called from any thread.
//
// tools/text/unicode_tables.py generates unicode_tables.cc.
#pragma once

#include <array>
#include <cstdint>

namespace kvd {

enum class CharacterClass : std::uint8_t {
  kOther,
  kControl,      // categories Cc, Cf, Co and Cs, including their white space characters
  kMark,         // categories Mn, Mc and Me
  kPunctuation,  // categories P*
};

// The functions below accept any 32-bit number. A number that is not a character has class kOther,
// and the other functions return it unchanged.
CharacterClass ClassOf(std::uint32_t code_point);

// The simple (one to one) lower case mapping.
std::uint32_t LowerCase(std::uint32_t code_point);

// The upper case: one to three characters, and 0 in the other places.
std::array<std::uint32_t, 3> UpperCase(std::uint32_t code_point);

// The first character of the canonical decomposition, or the character itself if it has none.
std::uint32_t DecompositionBase(std::uint32_t code_point);

}  // namespace kvd
