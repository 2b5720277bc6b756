// The Unicode 15.1 properties that the WordPiece tokenizer needs: a character's class, its lower
// case, and its base character without accents. The functions are pure and may be called from any
// thread.
//
// tools/vocabulary/unicode_tables.py generates unicode_tables.cc.
#pragma once

#include <cstdint>

namespace kvd {

enum class CharacterClass : std::uint8_t {
  kOther,
  kControl,      // categories Cc, Cf, Co and Cs, including their white space characters
  kMark,         // categories Mn, Mc and Me
  kPunctuation,  // categories P*
};

// The functions below accept any 32-bit number. A number that is not a character has class kOther,
// and LowerCase and DecompositionBase return it unchanged.
CharacterClass ClassOf(std::uint32_t code_point);

// The simple (one to one) lower case mapping.
std::uint32_t LowerCase(std::uint32_t code_point);

// The first character of the canonical decomposition, or the character itself if it has none.
std::uint32_t DecompositionBase(std::uint32_t code_point);

}  // namespace kvd
