#include "http/serve/chunk_decoder.h"

#include <algorithm>

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

}  // namespace kvd::http
