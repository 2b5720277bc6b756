#include "http/serve/header_text.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>

#include "http/serve/ip_address.h"

namespace kvd::http {
namespace {

char Lowered(char character) {
  return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a')
                                              : character;
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, Lowered, Lowered);
}

bool HasToken(std::string_view value, std::string_view token) {
  while (!value.empty()) {
    if (EqualsIgnoringCase(Trimmed(TakeUntil(value, ',')), token)) return true;
  }
  return false;
}

int HexDigit(char character) {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  if (character >= 'A' && character <= 'F') return character - 'A' + 10;
  return -1;
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string_view TakeUntil(std::string_view& rest, char separator) {
  const std::size_t at = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

namespace {

// Returns whether the text behind a host is empty or a port.
bool IsEndOfHost(std::string_view text) {
  if (text.empty()) return true;
  return text.front() == ':' && std::ranges::all_of(text.substr(1), [](char character) {
           return character >= '0' && character <= '9';
         });
}

bool IsIpv6(std::string_view text) {
  return text.find(':') != std::string_view::npos && IpAddress::Read(text).has_value();
}

std::string LowerCase(std::string_view text) {
  std::string lowered(text);
  for (char& character : lowered) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return lowered;
}

}  // namespace

std::string HostWithoutPort(std::string_view host) {
  if (IsIpv6(host)) return LowerCase(host);
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos || !IsEndOfHost(host.substr(end + 1))) return {};
    const std::string_view address = host.substr(1, end - 1);
    return IsIpv6(address) ? LowerCase(address) : std::string();
  }
  const std::string_view name = host.substr(0, host.find(':'));
  const bool is_host =
      name.find_first_of("[]") == std::string_view::npos && IsEndOfHost(host.substr(name.size()));
  return is_host ? LowerCase(name) : std::string();
}

bool IsLoopbackHost(std::string_view host) {
  if (EqualsIgnoringCase(host, "localhost")) return true;
  const std::optional<IpAddress> address = IpAddress::Read(host);
  return address && address->is_loopback();
}

std::string HostOfOrigin(std::string_view origin) {
  const std::size_t scheme_bytes = origin.find("://");
  if (scheme_bytes == std::string_view::npos) return {};
  const std::string_view scheme = origin.substr(0, scheme_bytes);
  if (!EqualsIgnoringCase(scheme, "http") && !EqualsIgnoringCase(scheme, "https")) return {};
  const std::string_view host = origin.substr(scheme_bytes + 3);
  if (host.find_first_of("/?#@ ") != std::string_view::npos) return {};
  return HostWithoutPort(host);
}

}  // namespace kvd::http
