#include "http/serve/reply_head.h"

#include <array>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <string_view>

#include "base/text.h"

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

std::string WriteReplyHead(const Reply& reply, const HeadForm& form) {
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
  if (form.body_end == BodyEnd::kChunks) {
    AppendHeader("Transfer-Encoding", "chunked", head);
  } else if (form.body_end == BodyEnd::kLength && StatusHasBody(reply.status)) {
    AppendHeader("Content-Length", Concat(reply.body.size()), head);
  }
  if (!form.keeps_connection) {
    AppendHeader("Connection", "close", head);
  } else {
    if (form.is_http_1_0) AppendHeader("Connection", "keep-alive", head);
    AppendHeader("Keep-Alive", Concat("timeout=", form.idle_time.count()), head);
  }
  for (const Header& header : form.cors_headers) AppendHeader(header.name, header.value, head);
  for (const Header& header : reply.headers) AppendHeader(header.name, header.value, head);
  head += "\r\n";
  return head;
}

}  // namespace kvd::http
