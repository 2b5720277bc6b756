// The 256 printable characters with which byte-level BPE vocabularies write bytes (GPT-2,
// `bytes_to_unicode` of its encoder.py). A printable byte represents itself. The other bytes are
// represented by U+0100 and the following characters, in ascending order of the byte, so a space is
// U+0120. The functions below are pure functions over constants and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvd {

// The character of `byte`, as one or two bytes of UTF-8.
std::string_view ByteCharacter(std::uint8_t byte);

// Appends the bytes that `text` represents. A character that is not in the alphabet is appended
// unchanged.
void AppendDecodedBytes(std::string_view text, std::string& bytes);

}  // namespace kvd
