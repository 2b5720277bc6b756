#include "http/serve/reply_writer.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

#include "http/serve/connection.h"
#include "http/serve/error_reply.h"

namespace kvd::http {
namespace {

// A body up to this size is copied behind its head, which saves a system call and a packet.
constexpr std::size_t kCopiedBodyBytesMax = 16u << 10;

std::string AsChunk(std::string_view bytes) {
  std::array<char, 2 * sizeof(std::size_t)> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes.size(), 16);
  std::string chunk;
  chunk.reserve(bytes.size() + digits.size() + 4);
  chunk.append(digits.data(), end.ptr);
  chunk += "\r\n";
  chunk += bytes;
  chunk += "\r\n";
  return chunk;
}

}  // namespace

ReplyWriter::ReplyWriter(Connection& connection, HeadForm form, bool is_for_head)
    : connection_(connection), form_(std::move(form)), is_for_head_(is_for_head) {}

Await<bool> ReplyWriter::Send(Reply reply) {
  if (state_ != State::kNothing) co_return false;
  state_ = State::kEnded;
  if (connection_.is_closing()) form_.keeps_connection = false;
  std::string head = WriteReplyHead(reply, form_);
  const bool has_body = !is_for_head_ && StatusHasBody(reply.status);
  if (!has_body || reply.body.size() <= kCopiedBodyBytesMax) {
    if (has_body) head += reply.body;
    co_return co_await connection_.Write(head);
  }
  const bool is_head_written = co_await connection_.Write(head);
  if (!is_head_written) co_return false;
  co_return co_await connection_.Write(reply.body);
}

Await<bool> ReplyWriter::Begin(Reply head) {
  if (state_ != State::kNothing || is_gone()) co_return false;
  if (connection_.is_closing()) form_.keeps_connection = false;
  form_.body_end = form_.is_http_1_0 ? BodyEnd::kClose : BodyEnd::kChunks;
  if (form_.is_http_1_0) form_.keeps_connection = false;
  state_ = is_for_head_ ? State::kEnded : State::kStreaming;
  const std::string text = WriteReplyHead(head, form_);
  const bool is_written = co_await connection_.Write(text);
  co_return is_written && !is_for_head_;
}

Await<bool> ReplyWriter::Write(std::string bytes) {
  if (state_ != State::kStreaming || is_gone()) co_return false;
  if (bytes.empty()) co_return true;  // an empty chunk would end the body
  if (form_.body_end == BodyEnd::kChunks) bytes = AsChunk(bytes);
  co_return co_await connection_.Write(bytes);
}

Await<bool> ReplyWriter::End() {
  if (state_ != State::kStreaming || is_gone()) co_return false;
  state_ = State::kEnded;
  if (form_.body_end != BodyEnd::kChunks) co_return true;
  co_return co_await connection_.Write("0\r\n\r\n");
}

bool ReplyWriter::is_gone() const { return connection_.is_gone(); }

void ReplyWriter::OnGone(std::function<void()> call) { connection_.OnGone(std::move(call)); }

Await<void> ReplyWriter::Finish(bool has_failed) {
  if (state_ == State::kStreaming) connection_.Break();
  if (state_ != State::kNothing || is_gone()) co_return;
  Reply reply = ErrorReply(500, has_failed ? "the server failed to handle the request"
                                           : "the server has no reply to the request");
  (void)co_await Send(std::move(reply));
}

}  // namespace kvd::http
