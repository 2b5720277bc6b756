// The routes are some fifty, so Find compares the path with each of them.
#include "http/serve/router.h"

#include <algorithm>
#include <optional>

#include "http/serve/header_text.h"

namespace kvd::http {
namespace {

// Returns the parts that stand at "{}" and "{*}"; none if the path does not match.
std::optional<std::vector<std::string>> MatchPattern(std::string_view pattern,
                                                     std::string_view path) {
  if (!pattern.starts_with('/') || !path.starts_with('/')) return std::nullopt;
  pattern.remove_prefix(1);
  path.remove_prefix(1);
  std::vector<std::string> parts;
  while (true) {
    const bool has_more = path.find('/') != std::string_view::npos;
    if ((pattern.find('/') != std::string_view::npos) != has_more && pattern != "{*}") {
      return std::nullopt;
    }
    const std::string_view expected = TakeUntil(pattern, '/');
    const std::string_view part = expected == "{*}" ? path : TakeUntil(path, '/');
    const bool is_open = expected == "{}" || expected == "{*}";
    if (is_open ? part.empty() : part != expected) return std::nullopt;
    if (is_open) parts.emplace_back(part);
    if (!has_more || expected == "{*}") return parts;
  }
}

}  // namespace

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  if (method == "HEAD") method = "GET";
  Match match;
  for (const Route& route : routes_) {
    std::optional<std::vector<std::string>> parts = MatchPattern(route.pattern, path);
    if (!parts) continue;
    if (route.method == method) {
      match.route = &route;
      match.parts = std::move(*parts);
      match.methods.clear();
      return match;
    }
    if (std::ranges::find(match.methods, route.method) == match.methods.end()) {
      match.methods.push_back(route.method);
    }
  }
  return match;
}

}  // namespace kvd::http
