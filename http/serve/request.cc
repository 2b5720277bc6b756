#include "http/serve/request.h"

#include <sys/random.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <utility>

#include "base/utf8.h"
#include "http/serve/header_text.h"
#include "text/json_builder.h"

namespace kvd::http {
namespace {

Result<std::string> PercentDecoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return Fail(Code::kInvalidArgument, "target: \"%\" without two hexadecimal digits");
      }
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (decoded.find('\0') != std::string::npos) {
    return Fail(Code::kInvalidArgument, "target: contains a zero byte");
  }
  if (!IsValidUtf8(decoded)) return Fail(Code::kInvalidArgument, "target: is not UTF-8");
  return decoded;
}

}  // namespace

Result<RequestTarget> ReadRequestTarget(std::string_view target) {
  RequestTarget read;
  target = target.substr(0, target.find('#'));  // a fragment is not sent; some clients do
  const std::size_t scheme_bytes = target.find("://");
  const bool has_scheme = scheme_bytes != std::string_view::npos;
  const std::string_view scheme = has_scheme ? target.substr(0, scheme_bytes) : "";
  if (EqualsIgnoringCase(scheme, "http") || EqualsIgnoringCase(scheme, "https")) {
    target.remove_prefix(scheme.size() + 3);
    const std::size_t host_bytes = std::min(target.find_first_of("/?"), target.size());
    std::string_view host = target.substr(0, host_bytes);
    host.remove_prefix(host.rfind('@') + 1);  // npos + 1 is 0
    read.host = std::string(host);
    target.remove_prefix(host_bytes);
    if (target.empty()) target = "/";
  }
  std::string_view path = TakeUntil(target, '?');
  if (path.empty() && read.host) path = "/";
  if (!path.starts_with('/') && path != "*") {
    return Fail(Code::kInvalidArgument, "target: does not begin with \"/\"");
  }
  KVD_TRY(read.path, PercentDecoded(path, false));
  while (!target.empty()) {
    std::string_view part = TakeUntil(target, '&');
    if (part.empty()) continue;
    const std::string_view encoded_name = TakeUntil(part, '=');
    KVD_TRY(std::string name, PercentDecoded(encoded_name, true));
    KVD_TRY(std::string value, PercentDecoded(part, true));
    read.query.emplace_back(std::move(name), std::move(value));
  }
  return read;
}

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

std::string_view ErrorType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 405: return "method_not_allowed_error";
    case 408: return "timeout_error";
    case 413: return "request_too_large_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status >= 400 && status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string ErrorJson(int status, std::string_view message, std::string_view type) {
  Json error;
  error.Set("code", status).Set("message", message).Set("type", type);
  return Json().Set("error", std::move(error)).Text();
}

GatewayReply ErrorReply(int status, std::string_view message) {
  return ErrorReply(status, message, ErrorType(status));
}

GatewayReply ErrorReply(int status, std::string_view message, std::string_view type) {
  GatewayReply reply;
  reply.status = status;
  reply.body = ErrorJson(status, message, type);
  return reply;
}

}  // namespace kvd::http
