#include "http/serve/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <ranges>
#include <string_view>

#include "http/serve/header_text.h"

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

namespace {

// Returns whether the text behind an address is empty or a port: ":443".
bool IsEndOfAddress(std::string_view text) {
  if (text.empty()) return true;
  constexpr std::size_t kPortDigitsMax = 5;
  return text.front() == ':' && text.size() > 1 && text.size() <= 1 + kPortDigitsMax &&
         std::ranges::all_of(text.substr(1),
                             [](char character) { return character >= '0' && character <= '9'; });
}

std::optional<IpAddress> ReadForwarded(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || !IsEndOfAddress(text.substr(end + 1))) return std::nullopt;
    const std::string_view in_brackets = text.substr(1, end - 1);
    if (in_brackets.find(':') == std::string_view::npos) return std::nullopt;
    return IpAddress::Read(in_brackets);
  }
  const bool has_port = std::ranges::count(text, ':') == 1;
  const std::size_t end = has_port ? text.find(':') : text.size();
  if (!IsEndOfAddress(text.substr(end))) return std::nullopt;
  return IpAddress::Read(text.substr(0, end));
}

}  // namespace

std::optional<IpAddress> ForwardedAddress(const std::vector<Header>& headers) {
  for (const Header& header : headers | std::views::reverse) {
    if (!EqualsIgnoringCase(header.name, "X-Forwarded-For")) continue;
    const std::string_view value = header.value;
    return ReadForwarded(Trimmed(value.substr(value.rfind(',') + 1)));  // npos + 1 is 0
  }
  return std::nullopt;
}

}  // namespace kvd::http
