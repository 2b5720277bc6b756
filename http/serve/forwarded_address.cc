#include "http/serve/forwarded_address.h"

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <string_view>

#include "http/serve/header_text.h"

namespace kvd::http {
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
