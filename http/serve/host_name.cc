#include "http/serve/host_name.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <cstddef>

#include "http/serve/header_text.h"

namespace kvd::http {

std::string HostWithoutPort(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else if (std::ranges::count(host, ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  std::string lowered(host);
  for (char& character : lowered) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return lowered;
}

bool IsLoopbackHost(std::string_view host) {
  if (EqualsIgnoringCase(host, "localhost")) return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  if (error) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
        .is_loopback();
  }
  return address.is_loopback();
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
