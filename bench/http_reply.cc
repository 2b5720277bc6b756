// The body has a length, or it consists of chunks without trailers. Both measured servers send one
// of these forms on connections that they keep.
#include "bench/http_reply.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace kvd::bench {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), [](unsigned char character) {
    return static_cast<char>(std::tolower(character));
  });
  return lowered;
}

std::optional<std::size_t> NumberAt(std::string_view text, int base) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// The value of a header in a head of lower-case letters.
std::optional<std::string_view> HeaderOf(std::string_view head, std::string_view line_begin) {
  const std::size_t begin = head.find(line_begin);
  if (begin == std::string_view::npos) return std::nullopt;
  std::string_view value = head.substr(begin + line_begin.size());
  value = value.substr(0, value.find(kLineEnd));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

}  // namespace

Result<bool> HttpReply::Take(std::string_view bytes) {
  pending_ += bytes;
  if (!has_head()) {
    KVD_TRY(const bool is_complete, TakeHead());
    if (!is_complete) return false;
  }
  KVD_TRY(const bool is_complete, body_bytes_left_ ? TakeBody() : TakeChunks());
  if (is_complete && !pending_.empty()) {
    return Fail(Code::kCorrupt, "bytes follow a reply: ", pending_.substr(0, 80));
  }
  return is_complete;
}

Result<bool> HttpReply::TakeHead() {
  const std::size_t end = pending_.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::string head = Lowered(pending_.substr(0, end + kLineEnd.size()));
  pending_.erase(0, end + 2 * kLineEnd.size());
  const std::size_t space = head.find(' ');
  const auto status =
      NumberAt(std::string_view(head).substr(std::min(space, head.size() - 1) + 1), 10);
  if (!head.starts_with("http/1.1 ") || !status || *status < 100) {
    return Fail(Code::kCorrupt, "not a reply of HTTP/1.1: ", head.substr(0, 80));
  }
  status_ = static_cast<int>(*status);
  keeps_connection_ = HeaderOf(head, "\r\nconnection:") != "close";
  if (const auto length = HeaderOf(head, "\r\ncontent-length:")) {
    body_bytes_left_ = NumberAt(*length, 10);
    if (!body_bytes_left_) return Fail(Code::kCorrupt, "Content-Length: ", *length);
  } else if (HeaderOf(head, "\r\ntransfer-encoding:") != "chunked") {
    return Fail(Code::kCorrupt, "a reply without a length: ", head.substr(0, 200));
  }
  return true;
}

Result<bool> HttpReply::TakeBody() {
  const std::size_t taken = std::min(*body_bytes_left_, pending_.size());
  body_.append(pending_, 0, taken);
  pending_.erase(0, taken);
  *body_bytes_left_ -= taken;
  return *body_bytes_left_ == 0;
}

Result<bool> HttpReply::TakeChunks() {
  for (;;) {
    if (!chunk_bytes_left_) {
      const std::size_t end = pending_.find(kLineEnd);
      if (end == std::string::npos) return false;
      const auto bytes = NumberAt(pending_, 16);
      if (!bytes) return Fail(Code::kCorrupt, "the length of a chunk: ", pending_.substr(0, 80));
      chunk_bytes_left_ = bytes;
      pending_.erase(0, end + kLineEnd.size());
    }
    if (pending_.size() < *chunk_bytes_left_ + kLineEnd.size()) return false;
    const bool is_last = *chunk_bytes_left_ == 0;
    body_.append(pending_, 0, *chunk_bytes_left_);
    pending_.erase(0, *chunk_bytes_left_ + kLineEnd.size());
    chunk_bytes_left_.reset();
    if (is_last) return true;
  }
}

}  // namespace kvd::bench
