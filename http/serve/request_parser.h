// The bytes of a connection, read as requests: the parser, and the decoder of chunked bodies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "http/serve/head_parser.h"
#include "http/serve/limits.h"
#include "http/serve/request.h"

namespace kvd::http {

// ChunkDecoder: the body of a request with Transfer-Encoding: chunked (RFC 9112, section 7.1).
//
// It takes the bytes as they arrive, keeps none of them, and drops extensions and trailers. Beast's
// decoder is not used: it asserts that at least five bytes have arrived when it finds the last
// chunk, which a client decides.
class ChunkDecoder {
 public:
  enum class Problem : unsigned char { kNone, kMalformed, kBodyTooLong, kLinesTooLong };

  // `line_bytes_max`: of the lines between two chunks, and of the last chunk with its trailers.
  ChunkDecoder(std::size_t body_bytes_max, std::size_t line_bytes_max)
      : body_bytes_left_(body_bytes_max), line_bytes_max_(line_bytes_max) {}

  struct Step {
    std::size_t taken_bytes = 0;
    std::string_view body;  // part of the bytes that were taken
    Problem problem = Problem::kNone;
  };
  // Consumes `bytes` up to the next bytes of the body, or up to the end of the message. Consumes
  // all of `bytes` if they contain neither. REQUIRES: !is_done().
  Step Take(std::string_view bytes);

  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State : unsigned char {
    kSize,
    kExtension,
    kSizeLineFeed,
    kData,
    kDataReturn,
    kDataLineFeed,
    kTrailerStart,
    kTrailer,
    kTrailerLineFeed,
    kLastLineFeed,
    kDone,
  };

  Problem TakeByte(char byte);
  Problem TakeSizeByte(char byte);
  Problem EndSize();

  State state_ = State::kSize;
  std::uint64_t chunk_bytes_left_ = 0;
  std::uint32_t digit_count_ = 0;
  std::size_t body_bytes_left_;
  std::size_t line_bytes_ = 0;
  const std::size_t line_bytes_max_;
};

// Returns the bytes of the empty lines at the start, which RFC 9112, section 2.2, lets a server
// skip before a request. A lone "\r" at the end may be the start of another one.
std::size_t EmptyLineBytes(std::string_view bytes);

// RequestParser: turns the bytes of a connection into one request and checks it against the limits.
//
// The parser does no input and output, so a test or a fuzz target can feed it any bytes. It serves
// one request; a connection makes a new one for the next request.
class RequestParser {
 public:
  // The limits must outlive the parser. The first bytes of the first Put are not an empty line.
  explicit RequestParser(const ServeLimits& limits);
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  // Parses bytes and returns how many it has taken. The next call begins with the bytes that were
  // not taken, followed by bytes that have arrived since. Put returns after the headers, so that
  // the caller can check them before the body, and at the end of the request. REQUIRES: !is_done(),
  // and no call has failed.
  std::expected<std::size_t, RequestError> Put(std::string_view bytes);

  // Returns the error of a request that stopped before its end because the client was too slow.
  RequestError SlownessError() const;

  bool is_header_done() const;
  bool is_done() const;

  // What follows holds after the headers.
  bool is_http_1_0() const;
  bool keeps_connection() const;   // the client wants to keep the connection
  bool expects_continue() const;   // the client waits for "100 Continue" before it sends the body
  std::size_t body_bytes() const;  // received so far
  // Drops the body from now on. For a request that is refused before its body, or does not need it.
  void DropBody();
  bool drops_body() const;
  // Of a body that is dropped: its Content-Length, also before it arrives. Of a body in chunks: the
  // bytes of the chunks that have arrived or those of the lines between them, whichever are more.
  std::uint64_t dropped_bytes() const;

  // The request so far: the head after the headers, all of it when is_done(). The caller may move
  // from it at the end.
  Request& request();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvd::http
