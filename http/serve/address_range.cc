#include "http/serve/address_range.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

namespace kvd::http {
namespace {

// Of the 128 bits of an IPv4 address that is mapped into IPv6, those before the IPv4 address.
constexpr std::uint32_t kMappedBits = 96;

template <class... Parts>
std::unexpected<Error> WrongRange(std::string_view text, const Parts&... parts) {
  return Fail(Code::kInvalidArgument, "--trusted-proxy: \"", text, "\": ", parts...);
}

// Returns the bits of byte `index` that belong to the prefix.
unsigned MaskOf(std::size_t index, std::uint32_t prefix_bits) {
  const std::uint32_t bits_before = static_cast<std::uint32_t>(8 * index);
  const std::uint32_t bits = std::min(prefix_bits - std::min(prefix_bits, bits_before), 8u);
  return 0xffu & (0xff00u >> bits);
}

}  // namespace

Result<AddressRange> AddressRange::Read(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view address_text = text.substr(0, slash);
  const std::optional<IpAddress> first = IpAddress::Read(address_text);
  if (!first) return WrongRange(text, "\"", address_text, "\" is not an IP address");
  const std::uint32_t address_bits = static_cast<std::uint32_t>(8 * first->bytes().size());
  if (slash == std::string_view::npos) return AddressRange(*first, address_bits);

  const bool is_mapped = first->is_ipv4() && address_text.find(':') != std::string_view::npos;
  const std::uint32_t least = is_mapped ? kMappedBits : 0;
  const std::string_view digits = text.substr(slash + 1);
  std::uint32_t prefix_bits = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), prefix_bits);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() ||
      prefix_bits < least || prefix_bits > least + address_bits) {
    return WrongRange(text, "the length of the prefix is not a number from ", least, " to ",
                      least + address_bits);
  }
  prefix_bits -= least;
  for (std::size_t i = 0; i < first->bytes().size(); ++i) {
    if ((first->bytes()[i] & ~MaskOf(i, prefix_bits)) != 0) {
      return WrongRange(text, "the address has bits beyond the prefix");
    }
  }
  return AddressRange(*first, prefix_bits);
}

bool AddressRange::Contains(const IpAddress& address) const {
  if (address.is_ipv4() != first_.is_ipv4()) return false;
  for (std::size_t i = 0; i < first_.bytes().size(); ++i) {
    const unsigned difference = address.bytes()[i] ^ first_.bytes()[i];
    if ((difference & MaskOf(i, prefix_bits_)) != 0) return false;
  }
  return true;
}

}  // namespace kvd::http
