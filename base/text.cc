#include "base/text.h"

namespace kvd {

std::string ConcatParts(std::initializer_list<TextArgument> parts) {
  std::size_t byte_count = 0;
  for (const TextArgument& part : parts) byte_count += part.view().size();
  std::string text;
  text.reserve(byte_count);
  for (const TextArgument& part : parts) text += part.view();
  return text;
}

std::string OctalMode(std::uint32_t mode) {
  std::string digits;
  for (int shift = 9; shift >= 0; shift -= 3) {
    digits += static_cast<char>('0' + ((mode >> shift) & 7));
  }
  return digits;
}

}  // namespace kvd
