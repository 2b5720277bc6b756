#include "http/serve/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace kvd::http {
namespace {

constexpr std::size_t kIpv4Bytes = 4;
constexpr std::array<unsigned char, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kLimitKeyBytes = 8;  // of an IPv6 address

}  // namespace

IpAddress::IpAddress(std::span<const unsigned char> bytes) {
  const bool is_mapped = bytes.size() > kIpv4Bytes &&
                         std::ranges::equal(bytes.first(kMappedPrefix.size()), kMappedPrefix);
  if (is_mapped) bytes = bytes.last(kIpv4Bytes);
  byte_count_ = bytes.size();
  std::ranges::copy(bytes, bytes_.begin());
}

std::optional<IpAddress> IpAddress::Of(const sockaddr_storage& peer) {
  std::array<unsigned char, 16> bytes{};
  if (peer.ss_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &peer, sizeof ipv4);
    std::memcpy(bytes.data(), &ipv4.sin_addr, kIpv4Bytes);
    return IpAddress(std::span(bytes).first(kIpv4Bytes));
  }
  if (peer.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &peer, sizeof ipv6);
  std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
  return IpAddress(bytes);
}

std::optional<IpAddress> IpAddress::Read(std::string_view text) {
  const std::string with_zero(text);
  // A zero byte in the text would end it early.
  if (with_zero.find('\0') != std::string::npos) return std::nullopt;
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET, with_zero.c_str(), bytes.data()) == 1) {
    return IpAddress(std::span(bytes).first(kIpv4Bytes));
  }
  if (::inet_pton(AF_INET6, with_zero.c_str(), bytes.data()) == 1) return IpAddress(bytes);
  return std::nullopt;
}

bool IpAddress::is_loopback() const {
  if (is_ipv4()) return bytes_.front() == 127;
  return bytes_.back() == 1 && std::ranges::all_of(std::span(bytes_).first(15),
                                                   [](unsigned char byte) { return byte == 0; });
}

std::string IpAddress::limit_key() const {
  const std::size_t key_bytes = is_ipv4() ? kIpv4Bytes : kLimitKeyBytes;
  return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(key_bytes)};
}

}  // namespace kvd::http
