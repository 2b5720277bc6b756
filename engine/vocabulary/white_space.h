// The characters with Unicode's property White_Space.
#pragma once

#include <cstdint>

namespace kvd {

inline bool IsUnicodeWhiteSpace(std::uint32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace kvd
