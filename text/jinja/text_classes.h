// Questions about all characters of a text, as Python's str methods isdigit() and so on.
#pragma once

#include <string_view>

#include "text/characters.h"

namespace kvd::jinja {

// Whether the text is not empty and all of its characters are in the class.
bool IsAllIn(CharacterClass wanted, std::string_view text);
bool IsAlphanumericText(std::string_view text);
// Whether it has cased characters, all of the case.
bool IsLowerText(std::string_view text);
bool IsUpperText(std::string_view text);
// Whether upper case begins each word and only lower case continues it.
bool IsTitleText(std::string_view text);
bool IsIdentifierText(std::string_view text);

}  // namespace kvd::jinja
