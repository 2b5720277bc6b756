// The first byte gives the length and the range of the second (RFC 3629, section 4); the others are
// continuation bytes.
#include "shm/utf8.h"

#include <cstddef>

namespace kvd {

bool IsValidUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char first = bytes[i];
    if (first < 0x80) {
      ++i;
      continue;
    }
    std::size_t count = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (first >= 0xc2 && first <= 0xdf) {
      count = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
      count = 3;
      if (first == 0xe0) low = 0xa0;
      if (first == 0xed) high = 0x9f;
    } else if (first >= 0xf0 && first <= 0xf4) {
      count = 4;
      if (first == 0xf0) low = 0x90;
      if (first == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    if (text.size() - i < count || bytes[i + 1] < low || bytes[i + 1] > high) return false;
    for (std::size_t k = 2; k < count; ++k) {
      if (bytes[i + k] < 0x80 || bytes[i + k] > 0xbf) return false;
    }
    i += count;
  }
  return true;
}

}  // namespace kvd
