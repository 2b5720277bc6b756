// Request: one HTTP request, read and checked, and Reply: a whole answer to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvd::http {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;  // "GET", "POST", ...; a HEAD request is handled as GET, without its body
  std::string path;    // percent-decoded, without the query: "/v1/chat/completions"
  // Percent-decoded names and values of the query, in their order. Path and query are valid UTF-8.
  std::vector<std::pair<std::string, std::string>> query;
  std::vector<Header> headers;  // without the trailers of a body in chunks
  std::string body;
  // The key of the request (Authorization: Bearer or X-Api-Key); empty: none.
  std::string key;
  // The name of the tenant to whom the key belongs; empty on a server without keys.
  std::string tenant;
  // A random number, and the time of arrival in seconds of Unix time. A handler makes its ids and
  // seeds from them, so that it makes the same ones when it runs again after a restart.
  std::uint64_t nonce = NewNonce();
  std::int64_t unix_s = UnixSeconds();

  static std::uint64_t NewNonce();
  static std::int64_t UnixSeconds();
  // The value of the first header of this name, compared without regard to case; empty: none.
  std::string_view header(std::string_view name) const;
  // The value of the first part of the query with this name: "" for "?name" and "?name=".
  std::optional<std::string_view> query_value(std::string_view name) const;
};

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kEventStreamType = "text/event-stream";

struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = std::string(kJsonType);
  std::vector<Header> headers = {};  // further headers
};

}  // namespace kvd::http
