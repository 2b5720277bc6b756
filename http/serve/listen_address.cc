#include "http/serve/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/text.h"
#include "http/serve/ip_address.h"

namespace kvd::http {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

Result<ListenAddress> UnixAddress(const std::string& host) {
  ListenAddress found;
  found.host = host;
  found.unix_path = host.substr(kUnixPrefix.size());
  sockaddr_un address{};
  if (found.unix_path.empty() || found.unix_path.find('\0') != std::string::npos) {
    return Fail(Code::kInvalidArgument, "--host ", host, ": no path behind \"unix:\"");
  }
  if (found.unix_path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalidArgument, "--host: the path has ", found.unix_path.size(),
                " bytes, at most ", sizeof address.sun_path - 1, " are possible");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, found.unix_path.data(), found.unix_path.size());
  std::memcpy(&found.address, &address, sizeof address);
  found.address_bytes = sizeof address;
  return found;
}

sockaddr_in AsIpv4(const sockaddr_storage& address) {
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &address, sizeof ipv4);
  return ipv4;
}

sockaddr_in6 AsIpv6(const sockaddr_storage& address) {
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &address, sizeof ipv6);
  return ipv6;
}

}  // namespace

bool ListenAddress::is_loopback() const {
  const std::optional<IpAddress> ip = IpAddress::Of(address);
  return ip && ip->is_loopback();
}

Result<ListenAddress> ResolveListenAddress(const std::string& host, std::uint16_t port) {
  if (host.starts_with(kUnixPrefix)) return UnixAddress(host);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (failure != 0 || name.empty()) {
    return Fail(Code::kInvalidArgument, "--host ", host, ": ",
                failure != 0 ? ::gai_strerror(failure) : "is empty");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, &::freeaddrinfo);
  const addrinfo* chosen = list;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET) continue;
    chosen = each;
    break;
  }
  ListenAddress found;
  found.host = host;
  std::memcpy(&found.address, chosen->ai_addr, chosen->ai_addrlen);
  found.address_bytes = chosen->ai_addrlen;
  return found;
}

Status CheckExposure(const ListenAddress& address, bool has_keys, bool no_auth) {
  if (has_keys || no_auth || address.is_loopback() || address.is_unix()) return {};
  return Fail(Code::kPermission, "--host ", address.host,
              ": is not a loopback address, so everyone who reaches it could use the server. Give "
              "--api-key or --tenants, or --no-auth if that is intended");
}

std::string UrlOf(const ListenAddress& address, std::uint16_t port, bool has_tls) {
  if (address.is_unix()) return address.host;
  std::array<char, INET6_ADDRSTRLEN> text{};
  const std::string_view scheme = has_tls ? "https://" : "http://";
  if (address.address.ss_family == AF_INET6) {
    const in6_addr ipv6 = AsIpv6(address.address).sin6_addr;
    ::inet_ntop(AF_INET6, &ipv6, text.data(), text.size());
    return Concat(scheme, "[", text.data(), "]:", port);
  }
  const in_addr ipv4 = AsIpv4(address.address).sin_addr;
  ::inet_ntop(AF_INET, &ipv4, text.data(), text.size());
  return Concat(scheme, text.data(), ":", port);
}

}  // namespace kvd::http
