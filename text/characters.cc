// ASCII texts, which are most texts, take a path without tables. The only mapping that depends on
// other characters is that of capital sigma: its lower case is final at the end of a word.
#include "text/characters.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/character_tables.h"

namespace kvd {
namespace {

constexpr std::uint32_t kCapitalSigma = 0x3a3;
constexpr std::uint32_t kSmallSigma = 0x3c3;
constexpr std::uint32_t kFinalSigma = 0x3c2;

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char AsciiUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

std::uint16_t ClassesOf(std::uint32_t code_point) {
  const auto ranges = CharacterClassRanges();
  const auto after = std::ranges::upper_bound(ranges, code_point, {}, &CharacterClassRange::first);
  if (after == ranges.begin()) return 0;
  const CharacterClassRange& range = *(after - 1);
  return code_point <= range.last ? range.classes : std::uint16_t{0};
}

bool IsCased(std::uint32_t code_point) {
  return IsIn(CharacterClass::kLower, code_point) || IsIn(CharacterClass::kUpper, code_point) ||
         IsIn(CharacterClass::kTitle, code_point);
}

void AppendMapped(const CaseMapping& mapping, std::uint32_t code_point, std::string& text) {
  const auto& longs = mapping.long_mappings;
  const auto found = std::ranges::lower_bound(longs, code_point, {}, &LongMapping::code_point);
  if (found != longs.end() && found->code_point == code_point) {
    for (const std::uint32_t mapped : found->mapped) {
      if (mapped != 0) AppendUtf8(mapped, text);
    }
    return;
  }
  const auto after =
      std::ranges::upper_bound(mapping.runs, code_point, {}, &CharacterMappingRun::first);
  if (after != mapping.runs.begin()) {
    const CharacterMappingRun& run = *(after - 1);
    if (code_point <= run.last && (code_point - run.first) % run.stride == 0) {
      code_point = static_cast<std::uint32_t>(static_cast<std::int64_t>(code_point) + run.added);
    }
  }
  AppendUtf8(code_point, text);
}

// A capital sigma is final if a cased character precedes it and none follows; characters that case
// ignores do not count.
bool IsFinalSigma(const std::vector<std::uint32_t>& text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && IsIn(CharacterClass::kCaseIgnorable, text[before - 1])) --before;
  if (before == 0 || !IsCased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && IsIn(CharacterClass::kCaseIgnorable, text[after])) ++after;
  return after == text.size() || !IsCased(text[after]);
}

void AppendLower(const std::vector<std::uint32_t>& text, std::size_t at, std::string& lower) {
  if (text[at] == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, at) ? kFinalSigma : kSmallSigma, lower);
  } else {
    AppendMapped(LowerMapping(), text[at], lower);
  }
}

std::string Mapped(const CaseMapping& mapping, std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const std::uint32_t code_point : CodePointsOf(text)) {
    AppendMapped(mapping, code_point, result);
  }
  return result;
}

}  // namespace

bool IsIn(CharacterClass wanted, std::uint32_t code_point) {
  return (ClassesOf(code_point) >> static_cast<unsigned>(wanted) & 1u) != 0;
}

std::optional<int> DecimalValue(std::uint32_t code_point) {
  const auto zeros = DecimalZeros();
  const auto after = std::ranges::upper_bound(zeros, code_point);
  if (after == zeros.begin() || code_point - *(after - 1) > 9) return std::nullopt;
  return static_cast<int>(code_point - *(after - 1));
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
    if (!IsIn(CharacterClass::kSpace, CharacterOf(text.substr(0, bytes)))) break;
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
    if (!IsIn(CharacterClass::kSpace, CharacterOf(text.substr(begin)))) break;
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
  if (!IsAscii(text)) return Mapped(UpperMapping(), text);
  std::string upper;
  upper.reserve(text.size());
  for (const char c : text) upper += AsciiUpper(c);
  return upper;
}

std::string Title(std::string_view text) {
  const std::vector<std::uint32_t> code_points = CodePointsOf(text);
  std::string title;
  bool is_inside_word = false;
  for (std::size_t i = 0; i < code_points.size(); ++i) {
    if (is_inside_word) {
      AppendLower(code_points, i, title);
    } else {
      AppendMapped(TitleMapping(), code_points[i], title);
    }
    is_inside_word = IsCased(code_points[i]);
  }
  return title;
}

std::string Capitalize(std::string_view text) {
  const std::vector<std::uint32_t> code_points = CodePointsOf(text);
  std::string result;
  for (std::size_t i = 0; i < code_points.size(); ++i) {
    if (i == 0) {
      AppendMapped(TitleMapping(), code_points[i], result);
    } else {
      AppendLower(code_points, i, result);
    }
  }
  return result;
}

std::string SwapCase(std::string_view text) {
  const std::vector<std::uint32_t> code_points = CodePointsOf(text);
  std::string result;
  for (std::size_t i = 0; i < code_points.size(); ++i) {
    if (IsIn(CharacterClass::kUpper, code_points[i])) {
      AppendLower(code_points, i, result);
    } else if (IsIn(CharacterClass::kLower, code_points[i])) {
      AppendMapped(UpperMapping(), code_points[i], result);
    } else {
      AppendUtf8(code_points[i], result);
    }
  }
  return result;
}

std::string CaseFold(std::string_view text) {
  return IsAscii(text) ? Lower(text) : Mapped(FoldMapping(), text);
}

}  // namespace kvd
