// The 256 printable characters by which byte-level BPE vocabularies write bytes (GPT-2,
// `bytes_to_unicode` of its encoder.py): a byte that prints stands for itself, the others are
// U+0100 and up in order of their value, so a space is U+0120. Pure functions over constants, any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvd {

// The character of `byte`, one or two bytes of UTF-8.
std::string_view ByteCharacter(std::uint8_t byte);

// Appends the bytes that `text` stands for. A character that is none of the alphabet stays as it
// is.
void AppendDecodedBytes(std::string_view text, std::string& bytes);

}  // namespace kvd
