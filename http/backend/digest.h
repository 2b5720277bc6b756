// SHA-256, and bytes as hexadecimal text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvd::http {

using Digest = std::array<std::uint8_t, 32>;

Digest Sha256(std::string_view bytes);

// Two lower-case digits for each byte.
std::string HexText(std::span<const std::uint8_t> bytes);
// Reads two digits of either case for each byte of `bytes`. Returns false if the text has another
// length or another character.
bool ReadHex(std::string_view text, std::span<std::uint8_t> bytes);

}  // namespace kvd::http
