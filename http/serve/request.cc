#include "http/serve/request.h"

#include <algorithm>

#include "http/serve/header_text.h"

namespace kvd::http {

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
