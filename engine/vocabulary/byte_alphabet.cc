#include "engine/vocabulary/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace kvd {
namespace {

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<std::int16_t, 0x144> bytes;  // by code point; -1 if the code point represents no byte
};

bool Prints(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet = [] {
    Alphabet made;
    made.bytes.fill(-1);
    std::uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::uint32_t code_point = Prints(byte) ? byte : next++;
      AppendUtf8(code_point, made.characters[byte]);
      made.bytes[code_point] = static_cast<std::int16_t>(byte);
    }
    return made;
  }();
  return alphabet;
}

}  // namespace

std::string_view ByteCharacter(std::uint8_t byte) { return TheAlphabet().characters[byte]; }

void AppendDecodedBytes(std::string_view text, std::string& bytes) {
  const Alphabet& alphabet = TheAlphabet();
  while (!text.empty()) {
    std::size_t character_bytes = WellFormedBytes(text);
    std::uint32_t code_point = static_cast<unsigned char>(text[0]);
    if (character_bytes == 2) {
      code_point = ((code_point & 0x1f) << 6) | (static_cast<unsigned char>(text[1]) & 0x3f);
    }
    bool known = (character_bytes == 1 || character_bytes == 2) &&
                 code_point < alphabet.bytes.size() && alphabet.bytes[code_point] >= 0;
    if (character_bytes == 0) character_bytes = 1;
    if (known) {
      bytes.push_back(static_cast<char>(alphabet.bytes[code_point]));
    } else {
      bytes.append(text.substr(0, character_bytes));
    }
    text.remove_prefix(character_bytes);
  }
}

}  // namespace kvd
