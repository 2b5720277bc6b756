// The reader of a connection: reads bytes, parses requests, checks their heads and fills the queue.
//
// The reader runs until the stream ends. After the last request it drops what it reads, so it still
// notices the end.
#include <span>
#include <utility>

#include "base/text.h"
#include "http/serve/connection.h"
#include "http/serve/ip_address.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

constexpr std::size_t kReadBytes = 4u << 10;
constexpr std::size_t kReadBodyBytes = 64u << 10;
// A reader that waits for a handler does not read, so it looks for a hang-up at this interval.
constexpr std::chrono::milliseconds kHangUpInterval{100};

void AppendMethod(std::string_view method, std::string& methods) {
  if (!methods.empty()) methods += ", ";
  methods += method;
}

}  // namespace

Await<void> HttpConnection::ReadRequests() {
  bool has_ended_well = false;
  try {
    while (true) {
      if (!takes_no_more_) co_await ParseBuffer();
      SetReadDeadline();
      const std::optional<std::size_t> byte_count = co_await ReadMore();
      has_ended_well = byte_count.has_value();
      if (!byte_count || *byte_count == 0) break;
    }
  } catch (...) {
    // Out of memory: the connection ends, the other connections are unharmed.
    has_ended_well = false;
  }
  takes_no_more_ = true;
  has_reader_ = false;
  if (!has_ended_well && !is_lingering_) Break();
  if (!is_lingering_) BecomeGone();
  arrived_.Notify();
}

Await<std::optional<std::size_t>> HttpConnection::ReadMore() {
  const bool may_linger = stream_->is_readable_after_shutdown() || has_cut_request_;
  if (is_broken_ || (is_lingering_ && !may_linger)) co_return std::nullopt;
  buffer_.erase(0, parsed_bytes_);
  parsed_bytes_ = 0;
  if (takes_no_more_) buffer_.clear();
  const std::size_t kept_bytes = buffer_.size();
  const bool is_body = parser_ && parser_->is_header_done() && !parser_->drops_body();
  if (kept_bytes == 0 && buffer_.capacity() > 2 * kReadBytes && !is_body) buffer_.shrink_to_fit();
  buffer_.resize(kept_bytes + (is_body ? kReadBodyBytes : kReadBytes));
  const std::span<char> free_part = std::span(buffer_).subspan(kept_bytes);
  const std::optional<std::size_t> byte_count = co_await stream_->ReadSome(free_part);
  buffer_.resize(kept_bytes + byte_count.value_or(0));
  co_return byte_count;
}

Await<void> HttpConnection::ParseBuffer() {
  while (!takes_no_more_) {
    if (!parser_) {
      parsed_bytes_ += EmptyLineBytes(unparsed());
      if (unparsed().empty() || unparsed() == "\r") co_return;
      const std::size_t ahead_max = waits_alone_ ? 0 : site_->limits.waiting_requests_max - 1;
      const bool has_room = co_await WaitUntilAhead(ahead_max, false);
      if (!has_room || takes_no_more_) co_return;
      parser_.emplace(site_->limits);
      began_at_ = std::chrono::steady_clock::now();
    }
    const bool had_head = parser_->is_header_done();
    std::expected<std::size_t, RequestError> taken = parser_->Put(unparsed());
    if (!taken) co_return EnqueueError(taken.error());
    parsed_bytes_ += *taken;
    const bool has_new_head = parser_->is_header_done() && !had_head;
    if (has_new_head) {
      BeginBodyWindow();
      const bool goes_ahead = co_await AdmitHead();
      if (!goes_ahead || takes_no_more_) co_return;
    }
    if (next_ && !KeepsBodyLimits()) co_return;
    if (parser_->is_done()) {
      Enqueue(parser_->keeps_connection());
    } else if (unparsed().empty() || (*taken == 0 && !has_new_head)) {
      co_return;
    }
  }
}

Await<bool> HttpConnection::AdmitHead() {
  Request& request = parser_->request();
  next_.emplace(Incoming{.request = {}, .body_share = {site_->bodies, AddressKeyOf(request)}});
  next_->is_head = request.method == "HEAD";
  next_->is_http_1_0 = parser_->is_http_1_0();
  std::swap(next_->request, request);
  Admit(*next_);
  if (next_->is_head) next_->request.method = "GET";
  if (next_->reply || next_->route->access == RouteAccess::kPublic) parser_->DropBody();
  if (!KeepsBodyLimits()) co_return false;
  if (!parser_->expects_continue() || parser_->is_done() || !unparsed().empty()) co_return true;
  if (next_->reply) {
    // The client has not begun to send the body, and need not do so.
    Enqueue(false);
    co_return false;
  }
  co_return co_await SendContinue();
}

std::string HttpConnection::AddressKeyOf(const Request& request) const {
  if (!peer_.is_trusted_proxy) return peer_.address_key;
  const std::optional<IpAddress> client = ForwardedAddress(request.headers);
  return client ? client->limit_key() : peer_.address_key;
}

bool HttpConnection::KeepsBodyLimits() {
  const ServeLimits& limits = site_->limits;
  if (parser_->drops_body()) {
    if (parser_->dropped_bytes() <= limits.public_body_bytes_max) return true;
    if (next_->reply) {
      Enqueue(false);
    } else {
      EnqueueError({413, Concat("the body is longer than ", limits.public_body_bytes_max,
                                " bytes, which this path does not need")});
    }
    return false;
  }
  switch (next_->body_share.ResizeTo(parser_->body_bytes())) {
    case BodyFit::kFits: return true;
    case BodyFit::kTooManyOfAddress:
      EnqueueError({429, Concat("the server holds request bodies of this address of more than ",
                                limits.body_bytes_per_address_max, " bytes")});
      return false;
    case BodyFit::kTooManyInAll:
      EnqueueError({503, "the server holds too many request bodies"});
      return false;
  }
  return false;
}

// Decides which handler serves the request, or which reply it gets instead.
void HttpConnection::Admit(Incoming& incoming) {
  Request& request = incoming.request;
  if (request.method == "OPTIONS") {
    incoming.reply = AccessRules::OptionsReply();
    return;
  }
  Router::Match match = site_->router.Find(request.method, request.path);
  incoming.reply =
      site_->access.Refuse(request, match.route ? match.route->access : RouteAccess::kKey);
  if (incoming.reply) return;
  if (match.route != nullptr) {
    incoming.route = match.route;
    incoming.parts = std::move(match.parts);
  } else if (match.methods.empty()) {
    incoming.reply = ErrorReply(404, "File Not Found");
  } else {
    std::string methods;
    for (const std::string& method : match.methods) {
      AppendMethod(method, methods);
      if (method == "GET") AppendMethod("HEAD", methods);
    }
    AppendMethod("OPTIONS", methods);
    incoming.reply = ErrorReply(405, "this path has other methods only: " + methods);
    incoming.reply->headers.push_back(Header{"Allow", std::move(methods)});
  }
}

Await<bool> HttpConnection::SendContinue() {
  const bool is_first = co_await WaitUntilAhead(0, true);
  if (!is_first) co_return false;
  const bool is_written = co_await Write("HTTP/1.1 100 Continue\r\n\r\n");
  BeginBodyWindow();
  co_return is_written;
}

std::size_t HttpConnection::RequestsAhead(bool with_answer) const {
  return queue_.size() + (with_answer && is_answering_ ? 1 : 0);
}

Await<bool> HttpConnection::WaitUntilAhead(std::size_t request_count, bool with_answer) {
  is_waiting_ = true;
  SetReadDeadline();
  while (!takes_no_more_ && RequestsAhead(with_answer) > request_count) {
    const bool is_woken = co_await taken_.WaitFor(kHangUpInterval);
    if (!is_woken && stream_->HasHungUp()) BecomeGone();
  }
  is_waiting_ = false;
  co_return !takes_no_more_;
}

void HttpConnection::Enqueue(bool keeps_connection) {
  next_->request.body = std::move(parser_->request().body);
  next_->keeps_connection = keeps_connection;
  if (!keeps_connection) takes_no_more_ = true;
  has_cut_request_ = !parser_->is_done();
  waits_alone_ = parser_->drops_body();
  queue_.push_back(std::move(*next_));
  next_.reset();
  parser_.reset();
  arrived_.Notify();
}

void HttpConnection::EnqueueError(const RequestError& error) {
  if (!next_) {
    next_.emplace(Incoming{.request = {}, .body_share = {site_->bodies, {}}});
    next_->is_head = parser_->request().method == "HEAD";
  }
  next_->reply = ErrorReply(error.status, error.message);
  next_->body_share.Clear();
  parser_->DropBody();
  Enqueue(false);
}

void HttpConnection::SetReadDeadline() {
  const ServeLimits& limits = site_->limits;
  const TimePoint now = std::chrono::steady_clock::now();
  if (is_broken_ || is_lingering_) return;
  const bool reads_request = parser_ && !takes_no_more_ && !is_waiting_;
  const bool is_idle = !parser_ && !takes_no_more_ && !is_answering_ && queue_.empty();
  if (is_idle) {
    read_deadline_.Set(now + limits.idle_time);
  } else if (!reads_request) {
    read_deadline_.Clear();
  } else if (!parser_->is_header_done()) {
    read_deadline_.Set(began_at_ + limits.header_time);
  } else {
    read_deadline_.Set(began_at_ + limits.body_window);
  }
}

void HttpConnection::BeginBodyWindow() {
  began_at_ = std::chrono::steady_clock::now();
  window_body_bytes_ = parser_->body_bytes();
}

// The bytes of a chunked body count without its lines, which a client can send without end.
bool HttpConnection::HasFilledBodyWindow() const {
  return parser_->is_header_done() &&
         parser_->body_bytes() - window_body_bytes_ >= site_->limits.body_window_bytes_min;
}

void HttpConnection::OnReadDeadline() {
  if (is_lingering_ || !has_reader_) {
    Break();  // the client does not close its side, or the handshake takes too long
  } else if (!parser_) {
    CloseSoon();
  } else if (HasFilledBodyWindow()) {
    BeginBodyWindow();
    SetReadDeadline();
  } else {
    try {
      EnqueueError(parser_->SlownessError());
    } catch (...) {
      Break();  // out of memory
    }
  }
}

}  // namespace kvd::http
