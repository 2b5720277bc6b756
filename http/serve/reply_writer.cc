#include "http/serve/reply_writer.h"

#include <array>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <cstddef>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "http/serve/connection.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

void AppendHeader(std::string_view name, std::string_view value, std::string& head) {
  head += name;
  head += ": ";
  for (const char character : value) {
    const bool is_control = static_cast<unsigned char>(character) < ' ' || character == '\x7f';
    head += is_control ? ' ' : character;
  }
  head += "\r\n";
}

// The present time in the form of RFC 9110, section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string DateText() {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  thread_local std::time_t written_at = -1;
  thread_local std::string written;
  const std::time_t now = std::time(nullptr);
  if (now == written_at) return written;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  const auto two_digits = [](int number) {
    return std::string{static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10)};
  };
  written = Concat(kDays[static_cast<std::size_t>(parts.tm_wday)], ", ", two_digits(parts.tm_mday),
                   " ", kMonths[static_cast<std::size_t>(parts.tm_mon)], " ", parts.tm_year + 1900,
                   " ", two_digits(parts.tm_hour), ":", two_digits(parts.tm_min), ":",
                   two_digits(parts.tm_sec), " GMT");
  written_at = now;
  return written;
}

}  // namespace

bool StatusHasBody(int status) { return status >= 200 && status != 204 && status != 304; }

std::string WriteReplyHead(const GatewayReply& reply, const ReplyHeadOptions& head_options) {
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(reply.status)));
  std::string head;
  head.reserve(512);
  head = Concat("HTTP/1.1 ", reply.status, " ", std::string_view(reason.data(), reason.size()),
                "\r\nServer: kvd/" KVD_VERSION "\r\n");
  AppendHeader("Date", DateText(), head);
  if (!reply.content_type.empty() && StatusHasBody(reply.status)) {
    AppendHeader("Content-Type", reply.content_type, head);
  }
  if (head_options.body_end == BodyEnd::kChunks) {
    AppendHeader("Transfer-Encoding", "chunked", head);
  } else if (head_options.body_end == BodyEnd::kLength && StatusHasBody(reply.status)) {
    AppendHeader("Content-Length", Concat(reply.body.size()), head);
  }
  if (!head_options.keeps_connection) {
    AppendHeader("Connection", "close", head);
  } else {
    if (head_options.is_http_1_0) AppendHeader("Connection", "keep-alive", head);
    AppendHeader("Keep-Alive", Concat("timeout=", head_options.idle_time.count()), head);
  }
  for (const Header& header : head_options.cors_headers)
    AppendHeader(header.name, header.value, head);
  for (const Header& header : reply.headers) AppendHeader(header.name, header.value, head);
  head += "\r\n";
  return head;
}

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

ReplyWriter::ReplyWriter(HttpConnection& connection, ReplyHeadOptions head_options,
                         bool is_for_head)
    : connection_(connection), head_options_(std::move(head_options)), is_for_head_(is_for_head) {}

Await<bool> ReplyWriter::Send(GatewayReply reply) {
  if (state_ != State::kNothing) co_return false;
  state_ = State::kEnded;
  if (connection_.is_closing()) head_options_.keeps_connection = false;
  std::string head = WriteReplyHead(reply, head_options_);
  const bool has_body = !is_for_head_ && StatusHasBody(reply.status);
  if (!has_body || reply.body.size() <= kCopiedBodyBytesMax) {
    if (has_body) head += reply.body;
    co_return co_await connection_.Write(head);
  }
  const bool is_head_written = co_await connection_.Write(head);
  if (!is_head_written) co_return false;
  co_return co_await connection_.Write(reply.body);
}

Await<bool> ReplyWriter::Begin(GatewayReply head) {
  if (state_ != State::kNothing || is_gone()) co_return false;
  if (connection_.is_closing()) head_options_.keeps_connection = false;
  head_options_.body_end = head_options_.is_http_1_0 ? BodyEnd::kClose : BodyEnd::kChunks;
  if (head_options_.is_http_1_0) head_options_.keeps_connection = false;
  state_ = is_for_head_ ? State::kEnded : State::kStreaming;
  const std::string text = WriteReplyHead(head, head_options_);
  const bool is_written = co_await connection_.Write(text);
  co_return is_written && !is_for_head_;
}

Await<bool> ReplyWriter::Write(std::string bytes) {
  if (state_ != State::kStreaming || is_gone()) co_return false;
  if (bytes.empty()) co_return true;  // an empty chunk would end the body
  if (head_options_.body_end == BodyEnd::kChunks) bytes = AsChunk(bytes);
  co_return co_await connection_.Write(bytes);
}

Await<bool> ReplyWriter::End() {
  if (state_ != State::kStreaming || is_gone()) co_return false;
  state_ = State::kEnded;
  if (head_options_.body_end != BodyEnd::kChunks) co_return true;
  co_return co_await connection_.Write("0\r\n\r\n");
}

bool ReplyWriter::is_gone() const { return connection_.is_gone(); }

void ReplyWriter::OnGone(std::function<void()> call) { connection_.OnGone(std::move(call)); }

Await<void> ReplyWriter::Finish(bool has_failed) {
  if (state_ == State::kStreaming) connection_.Break();
  if (state_ != State::kNothing || is_gone()) co_return;
  GatewayReply reply = ErrorReply(500, has_failed ? "the server failed to handle the request"
                                                  : "the server has no reply to the request");
  (void)co_await Send(std::move(reply));
}

}  // namespace kvd::http
