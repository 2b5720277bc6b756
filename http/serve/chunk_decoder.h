// ChunkDecoder: the body of a request with Transfer-Encoding: chunked (RFC 9112, section 7.1).
//
// It takes the bytes as they arrive, keeps none of them, and drops extensions and trailers. Beast's
// decoder is not used: it asserts that at least five bytes have arrived when it finds the last
// chunk, which a client decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvd::http {

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

}  // namespace kvd::http
