// AddressRange: a network of IP addresses in CIDR notation, "10.0.0.0/8", or one address.
//
// A plain value that does not change after it was read.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "http/serve/ip_address.h"

namespace kvd::http {

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

}  // namespace kvd::http
