// Beast calls the functions on_..._impl while it parses. A function that refuses the request stores
// the reply in error_ and stops the parser with an error code of any kind.
#include "http/serve/head_parser.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/text.h"
#include "http/serve/header_text.h"
#include "http/serve/request.h"

namespace kvd::http {

namespace beast = boost::beast;
namespace {

// A Host is a name or an address with an optional port, or empty.
bool IsHost(std::string_view host) {
  if (host.empty()) return true;
  const bool has_only_allowed = std::ranges::all_of(host, [](char character) {
    return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
           (character >= 'A' && character <= 'Z') ||
           std::string_view("-._:[]%~").find(character) != std::string_view::npos;
  });
  return has_only_allowed && !HostWithoutPort(host).empty();
}

std::ptrdiff_t CountOf(std::string_view name, const std::vector<Header>& headers) {
  return std::ranges::count_if(
      headers, [&](const Header& header) { return EqualsIgnoringCase(header.name, name); });
}

// Returns whether the request line in `bytes` ends with a well-formed HTTP version.
bool HasVersion(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\r'));
  const std::string_view version = line.substr(line.rfind(' ') + 1);
  const auto is_digit = [](char character) { return character >= '0' && character <= '9'; };
  return version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) &&
         version[6] == '.' && is_digit(version[7]);
}

}  // namespace

HeadParser::HeadParser(const ServeLimits& limits) : limits_(limits) {
  header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  body_limit(boost::none);
  skip(true);
}

std::expected<std::size_t, RequestError> HeadParser::Put(std::string_view bytes) {
  std::string_view rest = bytes;
  while (!is_done_ && !rest.empty()) {
    ErrorCode code;
    const std::size_t taken = put(boost::asio::const_buffer(rest.data(), rest.size()), code);
    if (error_) return std::unexpected(std::move(*error_));
    if (code && code != beast::http::error::need_more) {
      return std::unexpected(ErrorOf(code, rest));
    }
    rest.remove_prefix(taken);
    if (code && taken == 0) break;
  }
  return bytes.size() - rest.size();
}

RequestError HeadParser::ErrorOf(const ErrorCode& code, std::string_view rest) const {
  namespace http = beast::http;
  if (code == http::error::header_limit) {
    if (!has_request_line_ && rest.find("\r\n") == std::string_view::npos) {
      return {414, Concat("the request line is longer than ", limits_.header_bytes_max, " bytes")};
    }
    return {431, Concat("the headers are longer than ", limits_.header_bytes_max, " bytes")};
  }
  if (code == http::error::bad_version && HasVersion(rest)) {
    return {505, "only HTTP/1.0 and HTTP/1.1 are supported"};
  }
  return {400, Concat("malformed request: ", code.message())};
}

void HeadParser::Refuse(int status, std::string message, ErrorCode& code) {
  error_ = RequestError{status, std::move(message)};
  code = beast::http::error::bad_value;
}

void HeadParser::on_request_impl(beast::http::verb, StringView method, StringView target,
                                 int version, ErrorCode& code) {
  has_request_line_ = true;
  header_bytes_ = method.size() + target.size() + 12;
  if (target.size() > limits_.target_bytes_max) {
    return Refuse(414,
                  Concat("the target has ", target.size(), " bytes, ", limits_.target_bytes_max,
                         " are allowed"),
                  code);
  }
  head_.request.method = std::string(method);
  target_ = std::string(target);
  head_.is_http_1_0 = version == 10;
}

void HeadParser::on_field_impl(beast::http::field, StringView name, StringView value,
                               ErrorCode& code) {
  header_bytes_ += name.size() + value.size() + 4;
  if (header_bytes_ > limits_.header_bytes_max) {
    return Refuse(431, Concat("the headers are longer than ", limits_.header_bytes_max, " bytes"),
                  code);
  }
  if (++header_count_ > limits_.header_count_max) {
    return Refuse(431, Concat("more than ", limits_.header_count_max, " headers"), code);
  }
  head_.request.headers.push_back(Header{std::string(name), std::string(value)});
}

void HeadParser::on_header_impl(ErrorCode& code) {
  is_done_ = true;
  head_.keeps_connection = keep_alive();
  error_ = CheckHead();
  if (error_) code = beast::http::error::bad_value;
}

std::optional<RequestError> HeadParser::CheckHead() {
  if (head_.request.method == "CONNECT") return RequestError{501, "CONNECT is not supported"};
  Result<RequestTarget> target = ReadRequestTarget(target_);
  target_.clear();
  if (!target) return RequestError{400, std::move(target.error().message)};
  head_.request.path = std::move(target->path);
  head_.request.query = std::move(target->query);
  if (head_.request.path == "*" && head_.request.method != "OPTIONS") {
    return RequestError{400, "target: \"*\" is for OPTIONS only"};
  }
  if (std::optional<RequestError> error = CheckHost()) return error;
  if (std::optional<RequestError> error = CheckOrigin()) return error;
  if (target->host) {
    if (!IsHost(*target->host)) return RequestError{400, "target: its host is malformed"};
    std::erase_if(head_.request.headers,
                  [](const Header& header) { return EqualsIgnoringCase(header.name, "Host"); });
    head_.request.headers.push_back(Header{"Host", std::move(*target->host)});
  }
  return CheckBodyHeaders();
}

std::optional<RequestError> HeadParser::CheckHost() {
  const auto host_count = CountOf("Host", head_.request.headers);
  if (host_count == 0 && !head_.is_http_1_0) return RequestError{400, "no Host header"};
  if (host_count > 1) return RequestError{400, "more than one Host header"};
  if (!IsHost(head_.request.header("Host"))) return RequestError{400, "malformed Host header"};
  return std::nullopt;
}

// Only one of several origins would be compared with the allowed ones.
std::optional<RequestError> HeadParser::CheckOrigin() {
  if (CountOf("Origin", head_.request.headers) <= 1) return std::nullopt;
  return RequestError{400, "more than one Origin header"};
}

std::optional<RequestError> HeadParser::CheckBodyHeaders() {
  bool has_length = false;
  bool has_coding = false;
  std::string codings;
  for (const Header& header : head_.request.headers) {
    if (EqualsIgnoringCase(header.name, "Content-Length")) has_length = true;
    if (EqualsIgnoringCase(header.name, "Transfer-Encoding")) {
      codings += has_coding ? "," : "";
      codings += header.value;
      has_coding = true;
    }
  }
  if (has_length && has_coding) {
    return RequestError{400, "both Content-Length and Transfer-Encoding"};
  }
  if (has_coding && head_.is_http_1_0) return RequestError{400, "Transfer-Encoding in HTTP/1.0"};
  if (has_coding && !EqualsIgnoringCase(Trimmed(codings), "chunked")) {
    return RequestError{501, "no Transfer-Encoding other than chunked is supported"};
  }
  head_.is_chunked = has_coding;
  if (has_length) head_.content_length = content_length().value_or(0);
  if (head_.content_length > limits_.body_bytes_max) {
    return RequestError{413, Concat("the body is longer than ", limits_.body_bytes_max, " bytes")};
  }
  if (!has_length && !has_coding && !head_.request.header("Content-Type").empty() &&
      (head_.request.method == "POST" || head_.request.method == "PUT" ||
       head_.request.method == "PATCH")) {
    return RequestError{411, "the request has a Content-Type and no Content-Length"};
  }
  const std::string_view encoding = head_.request.header("Content-Encoding");
  if (!encoding.empty() && !EqualsIgnoringCase(encoding, "identity")) {
    return RequestError{415, "no Content-Encoding is supported"};
  }
  return CheckExpectation();
}

std::optional<RequestError> HeadParser::CheckExpectation() {
  const std::string_view expected = head_.request.header("Expect");
  if (expected.empty() || head_.is_http_1_0) return std::nullopt;
  if (!EqualsIgnoringCase(expected, "100-continue")) {
    return RequestError{417, "no Expect other than 100-continue is supported"};
  }
  head_.expects_continue = true;
  return std::nullopt;
}

}  // namespace kvd::http
