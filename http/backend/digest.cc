#include "http/backend/digest.h"

#include <openssl/sha.h>

namespace kvd::http {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

int DigitOf(char c) {
  if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  const std::size_t digit = kDigits.find(c);
  return digit == std::string_view::npos ? -1 : static_cast<int>(digit);
}

}  // namespace

Digest Sha256(std::string_view bytes) {
  Digest digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::string HexText(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool ReadHex(std::string_view text, std::span<std::uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

}  // namespace kvd::http
