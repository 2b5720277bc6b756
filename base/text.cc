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

}  // namespace kvd
