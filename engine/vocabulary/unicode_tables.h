// What the WordPiece tokenizer knows about a character: its class, its lower case, and what it is
// without its accents. Unicode 15.1. Pure functions, any thread.
//
// The source file is written by tools/vocabulary/unicode_tables.py.
#pragma once

#include <cstdint>

namespace kvd {

enum class CharacterClass : std::uint8_t {
  kOther,
  kControl,      // categories Cc, Cf, Co and Cs; white space of these is among them
  kMark,         // categories Mn, Mc and Me
  kPunctuation,  // categories P*
};

// Of these three, any 32-bit number is a character; one that is none has class kOther and stays.
CharacterClass ClassOf(std::uint32_t code_point);

// The simple lower case: one character for one.
std::uint32_t LowerCase(std::uint32_t code_point);

// The first character of the canonical decomposition; the character itself where there is none.
std::uint32_t DecompositionBase(std::uint32_t code_point);

}  // namespace kvd
