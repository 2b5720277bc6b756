#include "http/serve/host_name.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>

#include "http/serve/header_text.h"
#include "http/serve/ip_address.h"

namespace kvd::http {

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
