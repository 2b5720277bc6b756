// Beast calls the functions on_..._impl while it parses. A function that refuses the request stores
// the reply in error_ and stops the parser with an error code of any kind.
#include "http/serve/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>
#include <utility>

#include "base/text.h"
#include "http/serve/header_text.h"
#include "http/serve/request_target.h"

namespace kvd::http {

namespace beast = boost::beast;
namespace {

using ErrorCode = beast::error_code;
constexpr std::size_t kReservedBodyBytesMax = 1u << 20;

// A Host is a name or an address with an optional port.
bool IsHost(std::string_view host) {
  return std::ranges::all_of(host, [](char character) {
    return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
           (character >= 'A' && character <= 'Z') ||
           std::string_view("-._:[]%~").find(character) != std::string_view::npos;
  });
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

class RequestParser::Impl final : public beast::http::basic_parser<true> {
 public:
  explicit Impl(const ServeLimits& limits) : limits_(limits) {
    header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
    body_limit(limits.body_bytes_max);
  }

  std::expected<std::size_t, RequestError> Put(std::string_view bytes);
  RequestError ErrorOf(const ErrorCode& code, std::string_view rest) const;

  Request request;
  bool has_head = false;
  bool is_http_1_0 = false;
  bool expects_continue = false;
  bool drops_body = false;
  std::size_t body_bytes = 0;

 private:
  using StringView = beast::string_view;

  void Refuse(int status, std::string message, ErrorCode& code) {
    error_ = RequestError{status, std::move(message)};
    code = beast::http::error::bad_value;
  }
  std::optional<RequestError> CheckHead();
  std::optional<RequestError> CheckHost();
  std::optional<RequestError> CheckBodyHeaders();
  std::size_t TakeBody(StringView bytes);

  void on_request_impl(beast::http::verb, StringView method, StringView target, int version,
                       ErrorCode& code) override;
  void on_response_impl(int, StringView, int, ErrorCode&) override {}
  void on_field_impl(beast::http::field, StringView name, StringView value,
                     ErrorCode& code) override;
  void on_header_impl(ErrorCode& code) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& content_length,
                         ErrorCode& code) override;
  std::size_t on_body_impl(StringView bytes, ErrorCode& code) override {
    code = {};
    return TakeBody(bytes);
  }
  void on_chunk_header_impl(std::uint64_t, StringView, ErrorCode& code) override { code = {}; }
  std::size_t on_chunk_body_impl(std::uint64_t, StringView bytes, ErrorCode& code) override {
    code = {};
    return TakeBody(bytes);
  }
  void on_finish_impl(ErrorCode& code) override { code = {}; }

  const ServeLimits& limits_;
  std::optional<RequestError> error_;
  bool has_request_line_ = false;
  std::string target_;
  std::size_t header_bytes_ = 0;
  std::size_t header_count_ = 0;
};

std::expected<std::size_t, RequestError> RequestParser::Impl::Put(std::string_view bytes) {
  std::string_view rest = bytes;
  while (!is_done() && !rest.empty()) {
    const bool had_head = has_head;
    ErrorCode code;
    const std::size_t taken = put(boost::asio::const_buffer(rest.data(), rest.size()), code);
    if (error_) return std::unexpected(std::move(*error_));
    if (code && code != beast::http::error::need_more) {
      return std::unexpected(ErrorOf(code, rest));
    }
    rest.remove_prefix(taken);
    if (had_head != has_head) break;
    if (code && taken == 0) {
      // A line of a chunk, or its trailers, must be in the buffer as a whole.
      if (rest.size() >= limits_.header_bytes_max) {
        return std::unexpected(ErrorOf(beast::http::error::header_limit, rest));
      }
      break;
    }
  }
  return bytes.size() - rest.size();
}

RequestError RequestParser::Impl::ErrorOf(const ErrorCode& code, std::string_view rest) const {
  namespace http = beast::http;
  if (code == http::error::header_limit) {
    if (!has_request_line_) {
      return {414, Concat("the request line is longer than ", limits_.header_bytes_max, " bytes")};
    }
    return {431, Concat("the headers are longer than ", limits_.header_bytes_max, " bytes")};
  }
  if (code == http::error::body_limit) {
    return {413, Concat("the body is longer than ", limits_.body_bytes_max, " bytes")};
  }
  if (code == http::error::bad_version && HasVersion(rest)) {
    return {505, "only HTTP/1.0 and HTTP/1.1 are supported"};
  }
  return {400, Concat("malformed request: ", code.message())};
}

void RequestParser::Impl::on_request_impl(beast::http::verb, StringView method, StringView target,
                                          int version, ErrorCode& code) {
  has_request_line_ = true;
  header_bytes_ = method.size() + target.size() + 12;
  if (target.size() > limits_.target_bytes_max) {
    return Refuse(414,
                  Concat("the target has ", target.size(), " bytes, ", limits_.target_bytes_max,
                         " are allowed"),
                  code);
  }
  request.method = std::string(method);
  target_ = std::string(target);
  is_http_1_0 = version == 10;
}

void RequestParser::Impl::on_field_impl(beast::http::field, StringView name, StringView value,
                                        ErrorCode& code) {
  header_bytes_ += name.size() + value.size() + 4;
  if (header_bytes_ > limits_.header_bytes_max) {
    return Refuse(431, Concat("the headers are longer than ", limits_.header_bytes_max, " bytes"),
                  code);
  }
  if (++header_count_ > limits_.header_count_max) {
    return Refuse(431, Concat("more than ", limits_.header_count_max, " headers"), code);
  }
  if (has_head) return;  // a trailer
  request.headers.push_back(Header{std::string(name), std::string(value)});
}

void RequestParser::Impl::on_header_impl(ErrorCode& code) {
  has_head = true;
  error_ = CheckHead();
  if (error_) code = beast::http::error::bad_value;
}

std::optional<RequestError> RequestParser::Impl::CheckHead() {
  if (request.method == "CONNECT") return RequestError{501, "CONNECT is not supported"};
  Result<RequestTarget> target = ReadRequestTarget(target_);
  target_.clear();
  if (!target) return RequestError{400, std::move(target.error().message)};
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  if (request.path == "*" && request.method != "OPTIONS") {
    return RequestError{400, "target: \"*\" is for OPTIONS only"};
  }
  if (std::optional<RequestError> error = CheckHost()) return error;
  if (target->host) {
    if (!IsHost(*target->host)) return RequestError{400, "target: its host is malformed"};
    std::erase_if(request.headers,
                  [](const Header& header) { return EqualsIgnoringCase(header.name, "Host"); });
    request.headers.push_back(Header{"Host", std::move(*target->host)});
  }
  return CheckBodyHeaders();
}

std::optional<RequestError> RequestParser::Impl::CheckHost() {
  const auto host_count = std::ranges::count_if(request.headers, [](const Header& header) {
    return EqualsIgnoringCase(header.name, "Host");
  });
  if (host_count == 0 && !is_http_1_0) return RequestError{400, "no Host header"};
  if (host_count > 1) return RequestError{400, "more than one Host header"};
  if (!IsHost(request.header("Host"))) return RequestError{400, "malformed Host header"};
  return std::nullopt;
}

std::optional<RequestError> RequestParser::Impl::CheckBodyHeaders() {
  bool has_length = false;
  bool has_coding = false;
  std::string codings;
  for (const Header& header : request.headers) {
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
  if (has_coding && is_http_1_0) return RequestError{400, "Transfer-Encoding in HTTP/1.0"};
  if (has_coding && !EqualsIgnoringCase(Trimmed(codings), "chunked")) {
    return RequestError{501, "no Transfer-Encoding other than chunked is supported"};
  }
  if (!has_length && !has_coding && !request.header("Content-Type").empty() &&
      (request.method == "POST" || request.method == "PUT" || request.method == "PATCH")) {
    return RequestError{411, "the request has a Content-Type and no Content-Length"};
  }
  const std::string_view encoding = request.header("Content-Encoding");
  if (!encoding.empty() && !EqualsIgnoringCase(encoding, "identity")) {
    return RequestError{415, "no Content-Encoding is supported"};
  }
  const std::string_view expected = request.header("Expect");
  if (expected.empty() || is_http_1_0) return std::nullopt;
  if (!EqualsIgnoringCase(expected, "100-continue")) {
    return RequestError{417, "no Expect other than 100-continue is supported"};
  }
  expects_continue = true;
  return std::nullopt;
}

void RequestParser::Impl::on_body_init_impl(const boost::optional<std::uint64_t>& content_length,
                                            ErrorCode& code) {
  code = {};
  if (drops_body || !content_length) return;
  request.body.reserve(std::min<std::size_t>(*content_length, kReservedBodyBytesMax));
}

std::size_t RequestParser::Impl::TakeBody(StringView bytes) {
  body_bytes += bytes.size();
  if (!drops_body) request.body.append(bytes.data(), bytes.size());
  return bytes.size();
}

std::size_t EmptyLineBytes(std::string_view bytes) {
  std::size_t byte_count = 0;
  while (bytes.substr(byte_count).starts_with("\r\n")) byte_count += 2;
  return byte_count;
}

RequestParser::RequestParser(const ServeLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

std::expected<std::size_t, RequestError> RequestParser::Put(std::string_view bytes) {
  return impl_->Put(bytes);
}

RequestError RequestParser::SlownessError() const {
  if (!is_header_done()) return {408, "the headers have not arrived in time"};
  return {408, "the body has not arrived in time"};
}

bool RequestParser::is_header_done() const { return impl_->has_head; }
bool RequestParser::is_done() const { return impl_->is_done(); }
bool RequestParser::is_http_1_0() const { return impl_->is_http_1_0; }
bool RequestParser::keeps_connection() const { return impl_->keep_alive(); }
bool RequestParser::expects_continue() const { return impl_->expects_continue; }
std::size_t RequestParser::body_bytes() const { return impl_->body_bytes; }

void RequestParser::DropBody() {
  impl_->drops_body = true;
  impl_->request.body = std::string();
}

Request& RequestParser::request() { return impl_->request; }

}  // namespace kvd::http
