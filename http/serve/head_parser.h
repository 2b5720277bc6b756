// HeadParser: the request line and the headers of one request, parsed by Beast and checked.
//
// Only the reader of a connection uses it, through RequestParser. Beast parses the syntax; the
// rules of RFC 9112 that Beast leaves to its user, and the limits, are here.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "http/serve/limits.h"
#include "http/serve/request.h"

namespace kvd::http {

// What is wrong with a request, as a reply. The connection ends after this reply.
struct RequestError {
  int status = 400;
  std::string message;
};

struct RequestHead {
  Request request;  // without a body
  bool is_http_1_0 = false;
  bool keeps_connection = false;
  bool expects_continue = false;
  bool is_chunked = false;
  std::uint64_t content_length = 0;  // 0 with chunks
};

class HeadParser final : private boost::beast::http::basic_parser<true> {
 public:
  // The limits must outlive the parser.
  explicit HeadParser(const ServeLimits& limits);

  // Parses bytes and returns how many it has taken, as RequestParser::Put. REQUIRES: !is_done().
  std::expected<std::size_t, RequestError> Put(std::string_view bytes);
  bool is_done() const { return is_done_; }
  // What has been read so far; all of it when is_done().
  RequestHead& head() { return head_; }

 private:
  using ErrorCode = boost::beast::error_code;
  using StringView = boost::beast::string_view;

  RequestError ErrorOf(const ErrorCode& code, std::string_view rest) const;
  void Refuse(int status, std::string message, ErrorCode& code);
  std::optional<RequestError> CheckHead();
  std::optional<RequestError> CheckHost();
  std::optional<RequestError> CheckOrigin();
  std::optional<RequestError> CheckBodyHeaders();
  std::optional<RequestError> CheckExpectation();

  void on_request_impl(boost::beast::http::verb, StringView method, StringView target, int version,
                       ErrorCode& code) override;
  void on_field_impl(boost::beast::http::field, StringView name, StringView value,
                     ErrorCode& code) override;
  void on_header_impl(ErrorCode& code) override;
  // Beast is told to skip the body, so it calls none of these.
  void on_response_impl(int, StringView, int, ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(StringView, ErrorCode&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, StringView, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, StringView, ErrorCode&) override { return 0; }
  void on_finish_impl(ErrorCode& code) override { code = {}; }

  const ServeLimits& limits_;
  RequestHead head_;
  std::optional<RequestError> error_;
  std::string target_;
  bool has_request_line_ = false;
  bool is_done_ = false;
  std::size_t header_bytes_ = 0;
  std::size_t header_count_ = 0;
};

}  // namespace kvd::http
