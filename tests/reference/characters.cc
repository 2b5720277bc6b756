#include "tests/reference/characters.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <stdexcept>

namespace kvd::reference {
namespace {

struct Range {
  char32_t first;
  char32_t last;
  Class name;
};

// The class of a code point is that of the first range that contains it.
constexpr Range kRanges[] = {
    // White space, control characters, and invisible joiners and direction marks.
    {0x09, 0x0d, Class::kSpace},
    {0x20, 0x20, Class::kSpace},
    {0xa0, 0xa0, Class::kSpace},
    {0x2000, 0x200a, Class::kSpace},
    {0x3000, 0x3000, Class::kSpace},
    {0x00, 0x1f, Class::kControl},
    {0x7f, 0x7f, Class::kControl},
    {0x200b, 0x200f, Class::kControl},
    // Numbers.
    {'0', '9', Class::kNumber},
    {0xb2, 0xb3, Class::kNumber},
    {0xbc, 0xbe, Class::kNumber},
    {0x660, 0x669, Class::kNumber},
    {0x966, 0x96f, Class::kNumber},
    // Symbols, letters and punctuation of ASCII and Latin-1.
    {'$', '$', Class::kSymbol},
    {'+', '+', Class::kSymbol},
    {'<', '>', Class::kSymbol},
    {'^', '^', Class::kSymbol},
    {'`', '`', Class::kSymbol},
    {'|', '|', Class::kSymbol},
    {'~', '~', Class::kSymbol},
    {0xa9, 0xa9, Class::kSymbol},
    {0xac, 0xac, Class::kSymbol},
    {0xb0, 0xb1, Class::kSymbol},
    {0xd7, 0xd7, Class::kSymbol},
    {'A', 'Z', Class::kLetter},
    {'a', 'z', Class::kLetter},
    {0x21, 0x7e, Class::kPunctuation},
    {0xab, 0xab, Class::kPunctuation},
    {0xbb, 0xbb, Class::kPunctuation},
    {0xbf, 0xbf, Class::kPunctuation},
    // Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari.
    {0xc0, 0xd6, Class::kLetter},
    {0xd8, 0xf6, Class::kLetter},
    {0xf8, 0x17f, Class::kLetter},
    {0x300, 0x36f, Class::kMark},
    {0x386, 0x386, Class::kLetter},
    {0x388, 0x3ce, Class::kLetter},
    {0x400, 0x45f, Class::kLetter},
    {0x5d0, 0x5ea, Class::kLetter},
    {0x60c, 0x60c, Class::kPunctuation},
    {0x61f, 0x61f, Class::kPunctuation},
    {0x620, 0x64a, Class::kLetter},
    {0x64b, 0x655, Class::kMark},
    {0x900, 0x903, Class::kMark},
    {0x904, 0x939, Class::kLetter},
    {0x93e, 0x94d, Class::kMark},
    {0x964, 0x964, Class::kPunctuation},
    // Punctuation and symbols of all scripts.
    {0x2010, 0x2026, Class::kPunctuation},
    {0x20a0, 0x20bf, Class::kSymbol},
    {0x2190, 0x21ff, Class::kSymbol},
    {0x2200, 0x22ff, Class::kSymbol},
    {0x2600, 0x26ff, Class::kSymbol},
    {0x2700, 0x2767, Class::kSymbol},
    {0xfe00, 0xfe0f, Class::kMark},
    {0x1f300, 0x1f64f, Class::kSymbol},
    {0x1f680, 0x1f6c5, Class::kSymbol},
    {0x1f900, 0x1f9ff, Class::kSymbol},
    // East Asia.
    {0x3001, 0x3002, Class::kPunctuation},
    {0x300c, 0x300f, Class::kPunctuation},
    {0x3041, 0x3096, Class::kLetter},
    {0x30a1, 0x30fa, Class::kLetter},
    {0x30fc, 0x30fc, Class::kLetter},
    {0x4e00, 0x9fff, Class::kLetter},
    {0xac00, 0xd7a3, Class::kLetter},
    {0xff01, 0xff01, Class::kPunctuation},
    {0xff0c, 0xff0c, Class::kPunctuation},
    {0xff1f, 0xff1f, Class::kPunctuation},
};

// kAccented: Latin, Greek and Cyrillic letters with accents, and hiragana and katakana with voicing
// marks. kPlain: the same letters without them, in the same order.
constexpr std::u32string_view kAccented =
    U"ÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝàáâãäåçèéêëìíîïñòóôõöùúûüýÿ"
    U"ćčďěńňřśšťůžŻżŠŽČΆΈΉΊΌΎΏάέήίόύώϊйЙёЁїЇ"
    U"がぎぐげござじずぜぞだでどばびぶべぼガギグゲゴザジズゼゾダデドバビブベボパピプペポ";
constexpr std::u32string_view kPlain =
    U"AAAAAACEEEEIIIINOOOOOUUUUYaaaaaaceeeeiiiinooooouuuuyy"
    U"ccdennrsstuzZzSZCΑΕΗΙΟΥΩαεηιουωιиИеЕіІ"
    U"かきくけこさしすせそたてとはひふへほカキクケコサシスセソタテトハヒフヘホハヒフヘホ";
static_assert(kAccented.size() == kPlain.size());

}  // namespace

std::vector<char32_t> CodePoints(std::string_view text) {
  std::vector<char32_t> code_points;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    char32_t value = bytes == 1 ? lead : lead & (0x7fu >> bytes);
    for (std::size_t next = 1; next < bytes; ++next) {
      value = value << 6 | (static_cast<unsigned char>(text.at(i + next)) & 0x3fu);
    }
    code_points.push_back(value);
    i += bytes;
  }
  return code_points;
}

std::string Utf8(char32_t code_point) {
  const auto byte = [&](unsigned lead, unsigned shift) {
    return static_cast<char>(lead | (code_point >> shift & (lead == 0x80 ? 0x3fu : 0x7fu)));
  };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {byte(0xc0, 6), byte(0x80, 0)};
  if (code_point < 0x10000) return {byte(0xe0, 12), byte(0x80, 6), byte(0x80, 0)};
  return {byte(0xf0, 18), byte(0x80, 12), byte(0x80, 6), byte(0x80, 0)};
}

Class ClassOf(char32_t code_point) {
  for (const Range& range : kRanges) {
    if (code_point >= range.first && code_point <= range.last) return range.name;
  }
  char text[40];
  std::snprintf(text, sizeof text, "U+%04X is not in the tables",
                static_cast<unsigned>(code_point));
  throw std::runtime_error(text);
}

char32_t WithoutAccent(char32_t code_point) {
  constexpr char32_t kFirstSyllable = 0xac00, kLastSyllable = 0xd7a3;
  constexpr char32_t kFirstConsonant = 0x1100, kSyllablesOfAConsonant = 588;
  if (code_point >= kFirstSyllable && code_point <= kLastSyllable) {
    return kFirstConsonant + (code_point - kFirstSyllable) / kSyllablesOfAConsonant;
  }
  const std::size_t at = kAccented.find(code_point);
  return at == std::u32string_view::npos ? code_point : kPlain[at];
}

char32_t LowerCase(char32_t code_point) {
  const auto is_in = [&](char32_t first, char32_t last) {
    return code_point >= first && code_point <= last;
  };
  if (is_in('A', 'Z') || is_in(0xc0, 0xd6) || is_in(0xd8, 0xde)) return code_point + 32;
  if (is_in(0x391, 0x3a9) || is_in(0x410, 0x42f)) return code_point + 32;
  if (is_in(0x400, 0x40f)) return code_point + 80;
  return code_point;
}

}  // namespace kvd::reference
