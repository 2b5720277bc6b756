#include "http/serve/request_parser.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "http/serve/header_text.h"

namespace kvd::http {
namespace {

constexpr std::uint32_t kDigitsMax = 15;  // of a size, so that it fits 64 bits

// A byte of an extension or a trailer.
bool IsText(char byte) {
  return byte == '\t' || (static_cast<unsigned char>(byte) >= ' ' && byte != '\x7f');
}

}  // namespace

ChunkDecoder::Step ChunkDecoder::Take(std::string_view bytes) {
  Step step;
  for (; step.taken_bytes < bytes.size() && !is_done(); ++step.taken_bytes) {
    if (state_ == State::kData) {
      const std::string_view rest = bytes.substr(step.taken_bytes);
      step.body = rest.substr(0, std::min<std::uint64_t>(rest.size(), chunk_bytes_left_));
      chunk_bytes_left_ -= step.body.size();
      step.taken_bytes += step.body.size();
      if (chunk_bytes_left_ == 0) state_ = State::kDataReturn;
      return step;
    }
    step.problem = ++line_bytes_ > line_bytes_max_ ? Problem::kLinesTooLong
                                                   : TakeByte(bytes[step.taken_bytes]);
    if (step.problem != Problem::kNone) return step;
  }
  return step;
}

ChunkDecoder::Problem ChunkDecoder::TakeByte(char byte) {
  const auto expect = [&](char expected, State next) {
    state_ = next;
    return byte == expected ? Problem::kNone : Problem::kMalformed;
  };
  switch (state_) {
    case State::kSize: return TakeSizeByte(byte);
    case State::kExtension:
      if (byte == '\r') state_ = State::kSizeLineFeed;
      return byte == '\r' || IsText(byte) ? Problem::kNone : Problem::kMalformed;
    case State::kSizeLineFeed: return byte == '\n' ? EndSize() : Problem::kMalformed;
    case State::kDataReturn: return expect('\r', State::kDataLineFeed);
    case State::kDataLineFeed:
      digit_count_ = 0;
      line_bytes_ = 0;
      return expect('\n', State::kSize);
    case State::kTrailerStart:
      if (byte == '\r') return expect('\r', State::kLastLineFeed);
      state_ = State::kTrailer;
      return IsText(byte) ? Problem::kNone : Problem::kMalformed;
    case State::kTrailer:
      if (byte == '\r') state_ = State::kTrailerLineFeed;
      return byte == '\r' || IsText(byte) ? Problem::kNone : Problem::kMalformed;
    case State::kTrailerLineFeed: return expect('\n', State::kTrailerStart);
    case State::kLastLineFeed: return expect('\n', State::kDone);
    case State::kData:
    case State::kDone: break;
  }
  return Problem::kMalformed;
}

ChunkDecoder::Problem ChunkDecoder::TakeSizeByte(char byte) {
  if (const int digit = HexDigit(byte); digit >= 0) {
    if (++digit_count_ > kDigitsMax) return Problem::kMalformed;
    chunk_bytes_left_ = chunk_bytes_left_ * 16 + static_cast<std::uint64_t>(digit);
    return Problem::kNone;
  }
  if (digit_count_ == 0) return Problem::kMalformed;
  if (byte == '\r') {
    state_ = State::kSizeLineFeed;
  } else if (byte == ';' || byte == ' ' || byte == '\t') {
    state_ = State::kExtension;
  } else {
    return Problem::kMalformed;
  }
  return Problem::kNone;
}

ChunkDecoder::Problem ChunkDecoder::EndSize() {
  if (chunk_bytes_left_ > body_bytes_left_) return Problem::kBodyTooLong;
  body_bytes_left_ -= static_cast<std::size_t>(chunk_bytes_left_);
  state_ = chunk_bytes_left_ > 0 ? State::kData : State::kTrailerStart;
  return Problem::kNone;
}

// The head is parsed as a whole (head_parser.h); the body is taken as its bytes arrive.

namespace {

constexpr std::uint64_t kReservedBodyBytesMax = 1u << 20;

}  // namespace

struct RequestParser::Impl {
  explicit Impl(const ServeLimits& limits_of_server)
      : limits(limits_of_server),
        head_parser(limits_of_server),
        chunks(limits_of_server.body_bytes_max, limits_of_server.header_bytes_max) {}

  std::expected<std::size_t, RequestError> Put(std::string_view bytes);
  RequestHead& head() { return head_parser.head(); }
  bool IsDone();
  std::expected<std::size_t, RequestError> PutChunks(std::string_view bytes);
  void TakeBody(std::string_view bytes);

  const ServeLimits& limits;
  HeadParser head_parser;
  ChunkDecoder chunks;
  bool drops_body = false;
  std::size_t body_bytes = 0;
  std::uint64_t line_bytes = 0;  // of the lines between chunks
};

std::expected<std::size_t, RequestError> RequestParser::Impl::Put(std::string_view bytes) {
  if (!head_parser.is_done()) return head_parser.Put(bytes);
  if (head().is_chunked) return PutChunks(bytes);
  if (!drops_body) {
    // Room for all of a long body once a part of it is here: a head alone reserves little, and a
    // body that grows is not copied.
    const bool is_begun = body_bytes >= kReservedBodyBytesMax;
    head().request.body.reserve(is_begun ? head().content_length
                                         : std::min(head().content_length, kReservedBodyBytesMax));
  }
  const std::string_view body = bytes.substr(0, head().content_length - body_bytes);
  TakeBody(body);
  return body.size();
}

std::expected<std::size_t, RequestError> RequestParser::Impl::PutChunks(std::string_view bytes) {
  std::size_t taken_bytes = 0;
  while (taken_bytes < bytes.size() && !chunks.is_done()) {
    const ChunkDecoder::Step step = chunks.Take(bytes.substr(taken_bytes));
    taken_bytes += step.taken_bytes;
    line_bytes += step.taken_bytes - step.body.size();
    TakeBody(step.body);
    switch (step.problem) {
      case ChunkDecoder::Problem::kNone: break;
      case ChunkDecoder::Problem::kMalformed:
        return std::unexpected(RequestError{400, "malformed request: bad chunk"});
      case ChunkDecoder::Problem::kBodyTooLong:
        return std::unexpected(
            RequestError{413, Concat("the body is longer than ", limits.body_bytes_max, " bytes")});
      case ChunkDecoder::Problem::kLinesTooLong:
        return std::unexpected(RequestError{431, Concat("the lines of a chunk are longer than ",
                                                        limits.header_bytes_max, " bytes")});
    }
  }
  return taken_bytes;
}

void RequestParser::Impl::TakeBody(std::string_view bytes) {
  body_bytes += bytes.size();
  if (!drops_body) head().request.body += bytes;
}

bool RequestParser::Impl::IsDone() {
  if (!head_parser.is_done()) return false;
  return head().is_chunked ? chunks.is_done() : body_bytes == head().content_length;
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

bool RequestParser::is_header_done() const { return impl_->head_parser.is_done(); }
bool RequestParser::is_done() const { return impl_->IsDone(); }
bool RequestParser::is_http_1_0() const { return impl_->head().is_http_1_0; }
bool RequestParser::keeps_connection() const { return impl_->head().keeps_connection; }
bool RequestParser::expects_continue() const { return impl_->head().expects_continue; }
std::size_t RequestParser::body_bytes() const { return impl_->body_bytes; }

void RequestParser::DropBody() {
  impl_->drops_body = true;
  impl_->head().request.body = std::string();
}

bool RequestParser::drops_body() const { return impl_->drops_body; }

std::uint64_t RequestParser::dropped_bytes() const {
  if (!impl_->head().is_chunked) return impl_->head().content_length;
  return std::max<std::uint64_t>(impl_->body_bytes, impl_->line_bytes);
}

Request& RequestParser::request() { return impl_->head().request; }

}  // namespace kvd::http
