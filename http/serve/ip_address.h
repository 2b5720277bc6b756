// IpAddress: the IP address of a client, a plain value.
//
// An IPv4 address that is mapped into IPv6, ::ffff:192.0.2.1, is the IPv4 address.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvd::http {

class IpAddress {
 public:
  // The address of a peer; none: a unix socket.
  static std::optional<IpAddress> Of(const sockaddr_storage& peer);
  // Reads "192.0.2.1" or "2001:db8::1", without brackets, port and zone; none: another text.
  static std::optional<IpAddress> Read(std::string_view text);

  // 4 or 16 bytes in network order.
  std::span<const unsigned char> bytes() const { return std::span(bytes_).first(byte_count_); }
  bool is_ipv4() const { return byte_count_ == 4; }
  // 127.0.0.0/8 or ::1.
  bool is_loopback() const;
  // The part that the limits for each address count: an IPv4 address, or the first 64 bits of an
  // IPv6 address, as bytes.
  std::string limit_key() const;

 private:
  // `bytes`: 4 or 16.
  explicit IpAddress(std::span<const unsigned char> bytes);

  std::array<unsigned char, 16> bytes_{};
  std::size_t byte_count_ = 0;
};

}  // namespace kvd::http
