// The tables behind characters.h. tools/text/character_tables.py writes them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace kvd {

// The characters [first, last] are in the classes of `classes`; each bit is a CharacterClass.
struct CharacterClassRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint16_t classes;
};

// Every stride-th character of [first, last] is mapped to itself plus `added`.
struct CharacterMappingRun {
  std::uint32_t first;
  std::uint32_t last;
  std::uint8_t stride;
  std::int32_t added;
};

// A character that is mapped to two or three characters; unused places are 0.
struct LongMapping {
  std::uint32_t code_point;
  std::array<std::uint32_t, 3> mapped;
};

struct CaseMapping {
  std::span<const CharacterMappingRun> runs;
  std::span<const LongMapping> long_mappings;
};

// Each span is sorted by its first member.
std::span<const CharacterClassRange> CharacterClassRanges();
// The digits zero of all scripts; each is followed by the digits one to nine.
std::span<const std::uint32_t> DecimalZeros();
CaseMapping LowerMapping();
CaseMapping UpperMapping();
CaseMapping TitleMapping();
CaseMapping FoldMapping();

}  // namespace kvd
