// ASCII texts, which are most texts, take a path without tables. The only mapping that depends on
// other characters is that of capital sigma: its lower case is final at the end of a word.
#include "text/characters.h"

#include <algorithm>
#include <array>

#include "base/unicode_tables.h"
#include "base/utf8.h"

namespace kvd {
namespace {

constexpr std::uint32_t kCapitalIWithDot = 0x130;
constexpr std::uint32_t kDotAbove = 0x307;
constexpr std::uint32_t kCapitalSigma = 0x3a3;
constexpr std::uint32_t kSmallSigma = 0x3c3;
constexpr std::uint32_t kFinalSigma = 0x3c2;

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char AsciiUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

bool IsCased(std::uint32_t c) { return LowerCase(c) != c || UpperCase(c)[0] != c; }

// Marks, format characters and points inside of words.
bool IsCaseIgnorable(std::uint32_t c) {
  if (c < 0x80) return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
  const CharacterClass name = ClassOf(c);
  return name == CharacterClass::kMark || name == CharacterClass::kControl || c == 0xb7 ||
         c == 0x2018 || c == 0x2019;
}

// A capital sigma is final if a cased character precedes it and none follows; characters that case
// ignores do not count.
bool IsFinalSigma(const std::vector<std::uint32_t>& text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  if (before == 0 || !IsCased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return after == text.size() || !IsCased(text[after]);
}

void AppendLower(const std::vector<std::uint32_t>& text, std::size_t at, std::string& lower) {
  if (text[at] == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, at) ? kFinalSigma : kSmallSigma, lower);
    return;
  }
  AppendUtf8(LowerCase(text[at]), lower);
  if (text[at] == kCapitalIWithDot) AppendUtf8(kDotAbove, lower);
}

}  // namespace

bool IsSpace(std::uint32_t c) {
  return (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

bool IsPrintable(std::uint32_t c) {
  if (c < 0x7f) return c >= 0x20;
  return !IsSpace(c) && ClassOf(c) != CharacterClass::kControl;
}

std::size_t CharacterBytes(std::string_view text) {
  return std::max<std::size_t>(WellFormedBytes(text), 1);
}

std::uint32_t CharacterOf(std::string_view character) {
  return character.size() == 1 ? static_cast<unsigned char>(character[0]) : CodePointOf(character);
}

std::vector<std::uint32_t> CodePointsOf(std::string_view text) {
  std::vector<std::uint32_t> code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    code_points.push_back(CharacterOf(text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  return code_points;
}

std::string TextOf(const std::vector<std::uint32_t>& code_points) {
  std::string text;
  text.reserve(code_points.size());
  for (const std::uint32_t code_point : code_points) AppendUtf8(code_point, text);
  return text;
}

std::size_t OffsetOf(std::string_view text, std::size_t index) {
  std::size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += CharacterBytes(text.substr(offset));
  return offset;
}

std::string_view TrimLeft(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    if (!IsSpace(CharacterOf(text.substr(0, bytes)))) break;
    text.remove_prefix(bytes);
  }
  return text;
}

std::string_view TrimRight(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 &&
           (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) {
      --begin;
    }
    if (CharacterBytes(text.substr(begin)) != text.size() - begin) break;
    if (!IsSpace(CharacterOf(text.substr(begin)))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::string_view Trim(std::string_view text) { return TrimLeft(TrimRight(text)); }

std::string Lower(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  if (IsAscii(text)) {
    for (const char c : text) lower += AsciiLower(c);
    return lower;
  }
  const std::vector<std::uint32_t> code_points = CodePointsOf(text);
  for (std::size_t i = 0; i < code_points.size(); ++i) AppendLower(code_points, i, lower);
  return lower;
}

std::string Upper(std::string_view text) {
  std::string upper;
  upper.reserve(text.size());
  if (IsAscii(text)) {
    for (const char c : text) upper += AsciiUpper(c);
    return upper;
  }
  for (const std::uint32_t code_point : CodePointsOf(text)) {
    for (const std::uint32_t c : UpperCase(code_point)) {
      if (c != 0 || code_point == 0) AppendUtf8(c, upper);
      if (c == 0) break;
    }
  }
  return upper;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  std::vector<std::uint32_t> code_points = CodePointsOf(text);
  const std::array<std::uint32_t, 3> first = UpperCase(code_points[0]);
  std::string result;
  AppendUtf8(first[0], result);
  for (std::size_t i = 1; i < first.size() && first[i] != 0; ++i) {
    AppendUtf8(IsCased(first[0]) ? LowerCase(first[i]) : first[i], result);
  }
  for (std::size_t i = 1; i < code_points.size(); ++i) AppendLower(code_points, i, result);
  return result;
}

}  // namespace kvd
