#include "text/jinja/text_classes.h"

#include <algorithm>

namespace kvd::jinja {
namespace {

bool IsCapital(std::uint32_t c) {
  return IsIn(CharacterClass::kUpper, c) || IsIn(CharacterClass::kTitle, c);
}

// Whether the text has a character of the case `wanted` and none of another case.
bool IsInCase(CharacterClass wanted, CharacterClass unwanted, std::string_view text) {
  bool has_wanted = false;
  for (const std::uint32_t c : CodePointsOf(text)) {
    if (IsIn(unwanted, c) || IsIn(CharacterClass::kTitle, c)) return false;
    has_wanted |= IsIn(wanted, c);
  }
  return has_wanted;
}

}  // namespace

bool IsAllIn(CharacterClass wanted, std::string_view text) {
  return !text.empty() && std::ranges::all_of(CodePointsOf(text), [wanted](std::uint32_t c) {
    return IsIn(wanted, c);
  });
}

bool IsAlphanumericText(std::string_view text) {
  return !text.empty() && std::ranges::all_of(CodePointsOf(text), [](std::uint32_t c) {
    return IsIn(CharacterClass::kAlpha, c) || IsIn(CharacterClass::kNumeric, c);
  });
}

bool IsLowerText(std::string_view text) {
  return IsInCase(CharacterClass::kLower, CharacterClass::kUpper, text);
}

bool IsUpperText(std::string_view text) {
  return IsInCase(CharacterClass::kUpper, CharacterClass::kLower, text);
}

bool IsTitleText(std::string_view text) {
  bool is_cased = false, is_inside_word = false;
  for (const std::uint32_t c : CodePointsOf(text)) {
    const bool is_lower = IsIn(CharacterClass::kLower, c);
    if (IsCapital(c)) {
      if (is_inside_word) return false;
      is_inside_word = is_cased = true;
    } else if (is_lower) {
      if (!is_inside_word) return false;
      is_cased = true;
    } else {
      is_inside_word = false;
    }
  }
  return is_cased;
}

bool IsIdentifierText(std::string_view text) {
  if (!IsAllIn(CharacterClass::kIdentifierPart, text)) return false;
  return IsIn(CharacterClass::kIdentifierStart, CodePointsOf(text)[0]);
}

}  // namespace kvd::jinja
