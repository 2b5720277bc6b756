// The permitted range of a character's second byte depends on the character's lead byte. The
// permitted ranges of second bytes exclude overlong forms, surrogates and too large values. The
// third and the fourth byte of a character are 0x80 to 0xBF.
#include "base/utf8.h"

#include <algorithm>

namespace kvd {
namespace {

struct CharacterForm {
  std::size_t bytes;  // length of the character; 0: no well-formed character has this lead byte
  unsigned char second_min;
  unsigned char second_max;
};

CharacterForm FormOf(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xc2) return {0, 0, 0};
  if (lead < 0xe0) return {2, 0x80, 0xbf};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead < 0xf0) return {3, 0x80, 0xbf};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead < 0xf4) return {4, 0x80, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// Returns the number of leading bytes of `text` that fit `form`. REQUIRES: the first byte of `text`
// is a lead byte of `form`.
std::size_t FittingBytes(std::string_view text, const CharacterForm& form) {
  std::size_t fitting = 1;
  while (fitting < form.bytes && fitting < text.size()) {
    auto byte = static_cast<unsigned char>(text[fitting]);
    unsigned char low = fitting == 1 ? form.second_min : 0x80;
    unsigned char high = fitting == 1 ? form.second_max : 0xbf;
    if (byte < low || byte > high) break;
    ++fitting;
  }
  return fitting;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = WellFormedBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::size_t WellFormedBytes(std::string_view text) {
  if (text.empty()) return 0;
  CharacterForm form = FormOf(static_cast<unsigned char>(text[0]));
  if (form.bytes <= 1) return form.bytes;
  return FittingBytes(text, form) == form.bytes ? form.bytes : 0;
}

std::size_t IncompleteTailBytes(std::string_view text) {
  std::size_t longest = std::min<std::size_t>(3, text.size());
  for (std::size_t tail_bytes = longest; tail_bytes > 0; --tail_bytes) {
    std::string_view tail = text.substr(text.size() - tail_bytes);
    CharacterForm form = FormOf(static_cast<unsigned char>(tail[0]));
    if (form.bytes > tail_bytes && FittingBytes(tail, form) == tail_bytes) return tail_bytes;
  }
  return 0;
}

std::size_t AnnouncedBytes(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  if (byte < 0xc0) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}

std::uint32_t CodePointOf(std::string_view character) {
  auto lead = static_cast<unsigned char>(character[0]);
  if (lead < 0x80) return lead;
  std::uint32_t code_point = lead & (0x7fu >> character.size());
  for (char byte : character.substr(1))
    code_point = (code_point << 6) | (static_cast<unsigned char>(byte) & 0x3fu);
  return code_point;
}

void AppendUtf8(std::uint32_t code_point, std::string& text) {
  auto push = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
    return;
  }
  if (code_point < 0x800) {
    push(0xc0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    push(0xe0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3f));
  } else {
    push(0xf0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3f));
    push(0x80 | ((code_point >> 6) & 0x3f));
  }
  push(0x80 | (code_point & 0x3f));
}

}  // namespace kvd
