#include "http/serve/request.h"

#include <sys/random.h>

#include <algorithm>
#include <ctime>

#include "http/serve/header_text.h"

namespace kvd::http {

std::uint64_t Request::NewNonce() {
  std::uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) {
    nonce = static_cast<std::uint64_t>(std::clock());
  }
  return nonce;
}

std::int64_t Request::UnixSeconds() { return std::time(nullptr); }

std::string_view Request::header(std::string_view name) const {
  const auto found = std::ranges::find_if(
      headers, [&](const Header& header) { return EqualsIgnoringCase(header.name, name); });
  return found == headers.end() ? std::string_view() : found->value;
}

std::optional<std::string_view> Request::query_value(std::string_view name) const {
  const auto found =
      std::ranges::find_if(query, [&](const auto& part) { return part.first == name; });
  if (found == query.end()) return std::nullopt;
  return found->second;
}

}  // namespace kvd::http
