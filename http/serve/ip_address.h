// IP addresses: of clients, of networks, and of clients that a proxy names.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/serve/request.h"

namespace kvd::http {

// IpAddress: the IP address of a client, a plain value.
//
// An IPv4 address that is mapped into IPv6, ::ffff:192.0.2.1, is the IPv4 address.
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

// AddressRange: a network of IP addresses in CIDR notation, "10.0.0.0/8", or one address.
//
// A plain value that does not change after it was read.
class AddressRange {
 public:
  // Reads a value of --trusted-proxy. Errors: kInvalidArgument: the part before "/" is no IP
  // address, the length of the prefix is no number or too large, or bits beyond it are set.
  static Result<AddressRange> Read(std::string_view text);

  // An IPv4 address and its form that is mapped into IPv6 are the same address.
  bool Contains(const IpAddress& address) const;

 private:
  AddressRange(const IpAddress& first, std::uint32_t prefix_bits)
      : first_(first), prefix_bits_(prefix_bits) {}

  IpAddress first_;
  std::uint32_t prefix_bits_;
};

// The address of a client that a proxy names in X-Forwarded-For.

// Returns the last address of the last X-Forwarded-For, which is the peer that the proxy itself has
// seen: any client can send the addresses before it. An address may be in brackets and have a port.
// None: there is no such header, or its last part is no IP address ("unknown", "_hidden", "").
// REQUIRES, for an answer that can be trusted: the peer of the connection is a trusted proxy.
std::optional<IpAddress> ForwardedAddress(const std::vector<Header>& headers);

}  // namespace kvd::http
