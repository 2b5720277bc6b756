// Base64 of RFC 4648, section 4, with padding.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvd::http {

// Appends the encoding of `bytes` to `text`.
void AppendBase64(std::span<const std::byte> bytes, std::string& text);

}  // namespace kvd::http
