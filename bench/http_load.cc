// A connection's socket is always registered for reading, and for writing only while a part of its
// request is not sent.
#include "bench/http_load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "base/unique_fd.h"
#include "bench/http_reply.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Exchange {
  UniqueFd socket;
  std::string request;  // the part that is not sent yet
  std::optional<std::size_t> number;
  Clock::time_point begin;
  HttpReply reply;
  std::size_t searched_bytes = 0;  // of the body, for first_mark
};

class Load {
 public:
  explicit Load(const LoadOptions& options)
      : options_(options), exchanges_(options.connection_count) {}

  Status Open();
  // Sends the next request on the connection, or none if all were sent.
  Status Send(std::uint32_t index);
  // Waits until a socket is ready and serves it.
  Status Serve(std::chrono::milliseconds wait_max);

  void DropsBodies() { drops_bodies_ = true; }
  bool is_done() const { return done_count_ == options_.request_count; }
  std::size_t done_count() const { return done_count_; }
  bool is_sending() const {
    return std::ranges::any_of(exchanges_,
                               [](const Exchange& one) { return !one.request.empty(); });
  }
  std::vector<LoadReply>& replies() { return replies_; }

 private:
  Status Watch(std::uint32_t index, int operation, std::uint32_t events);
  Status Connect(std::uint32_t index);
  Status Write(std::uint32_t index);
  Status Read(std::uint32_t index);
  Status Take(std::uint32_t index, std::string_view bytes);
  void FindMark(Exchange& exchange, LoadReply& told) const;

  const LoadOptions& options_;
  UniqueFd epoll_;
  std::vector<Exchange> exchanges_;
  std::vector<LoadReply> replies_;
  std::size_t sent_count_ = 0;
  std::size_t done_count_ = 0;
  bool drops_bodies_ = false;
};

Status Load::Watch(std::uint32_t index, int operation, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u32 = index}};
  if (::epoll_ctl(epoll_.get(), operation, exchanges_[index].socket.get(), &event) != 0) {
    return FailErrno("epoll_ctl");
  }
  return {};
}

Status Load::Open() {
  replies_.reserve(options_.request_count);
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return FailErrno("epoll_create1");
  for (std::uint32_t i = 0; i < exchanges_.size(); ++i) KVD_CHECK_OK(Connect(i));
  return {};
}

Status Load::Connect(std::uint32_t index) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options_.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd& socket = exchanges_[index].socket;
  socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!socket || ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    return FailErrno("socket");
  }
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailErrno("connect");
  }
  return Watch(index, EPOLL_CTL_ADD, EPOLLIN);
}

Status Load::Send(std::uint32_t index) {
  Exchange& exchange = exchanges_[index];
  exchange.number.reset();
  if (sent_count_ == options_.request_count) return {};
  // llama-server closes a connection after 100 requests.
  if (!exchange.reply.keeps_connection()) KVD_CHECK_OK(Connect(index));
  const std::string& body = options_.bodies[sent_count_ % options_.bodies.size()];
  exchange.request = Concat("POST ", options_.path, " HTTP/1.1\r\nHost: 127.0.0.1:", options_.port,
                            "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                            "\r\n\r\n", body);
  exchange.number = sent_count_++;
  exchange.reply = HttpReply();
  exchange.searched_bytes = 0;
  exchange.begin = Clock::now();
  replies_.push_back({.sent_bytes = exchange.request.size()});
  return Write(index);
}

Status Load::Write(std::uint32_t index) {
  Exchange& exchange = exchanges_[index];
  while (!exchange.request.empty()) {
    const ssize_t sent = ::send(exchange.socket.get(), exchange.request.data(),
                                exchange.request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) return Watch(index, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    if (sent < 0) return FailErrno("send");
    exchange.request.erase(0, static_cast<std::size_t>(sent));
  }
  return {};
}

Status Load::Read(std::uint32_t index) {
  std::array<char, 64 << 10> bytes;
  const ssize_t got =
      ::recv(exchanges_[index].socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return {};
  if (got < 0) return FailErrno("recv");
  if (got == 0) return Fail(Code::kDisconnected, "the server closed connection ", index);
  return Take(index, {bytes.data(), static_cast<std::size_t>(got)});
}

void Load::FindMark(Exchange& exchange, LoadReply& told) const {
  if (told.first_seconds != 0 || !exchange.reply.has_head()) return;
  const std::string& body = exchange.reply.body();
  const std::string& mark = options_.first_mark;
  if (body.find(mark, exchange.searched_bytes) != std::string::npos) {
    told.first_seconds = SecondsSince(exchange.begin);
  }
  exchange.searched_bytes = body.size() - std::min(body.size(), mark.size());
}

Status Load::Take(std::uint32_t index, std::string_view bytes) {
  Exchange& exchange = exchanges_[index];
  if (!exchange.number) return Fail(Code::kCorrupt, "bytes without a request");
  KVD_TRY(const bool is_complete, exchange.reply.Take(bytes));
  LoadReply& told = replies_[*exchange.number];
  if (drops_bodies_) {
    exchange.reply.DropBody();
  } else {
    FindMark(exchange, told);
  }
  if (!is_complete) return {};
  told.end_seconds = SecondsSince(exchange.begin);
  told.status = exchange.reply.status();
  told.body = exchange.reply.body();
  ++done_count_;
  return Send(index);
}

Status Load::Serve(std::chrono::milliseconds wait_max) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(wait_max.count()));
  if (count < 0 && errno != EINTR) return FailErrno("epoll_wait");
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint32_t index = event.data.u32;
    if ((event.events & EPOLLOUT) != 0) {
      KVD_CHECK_OK(Write(index));
      if (exchanges_[index].request.empty()) {
        KVD_CHECK_OK(Watch(index, EPOLL_CTL_MOD, EPOLLIN));
      }
    }
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) KVD_CHECK_OK(Read(index));
  }
  return {};
}

}  // namespace

Result<LoadResult> RunLoad(const LoadOptions& options) {
  Load load(options);
  KVD_CHECK_OK(load.Open());
  const auto begin = Clock::now();
  for (std::uint32_t i = 0; i < options.connection_count; ++i) KVD_CHECK_OK(load.Send(i));
  while (!load.is_done()) {
    if (SecondsSince(begin) > options.seconds_max) {
      return Fail(Code::kTimeout, load.done_count(), " of ", options.request_count,
                  " replies within ", options.seconds_max, " s");
    }
    KVD_CHECK_OK(load.Serve(std::chrono::milliseconds(1000)));
  }
  return LoadResult{.seconds = SecondsSince(begin), .replies = std::move(load.replies())};
}

Result<std::size_t> HoldStreams(const LoadOptions& options, void (*on_sent)()) {
  Load load(options);
  load.DropsBodies();
  KVD_CHECK_OK(load.Open());
  const auto begin = Clock::now();
  for (std::uint32_t i = 0; i < options.connection_count; ++i) KVD_CHECK_OK(load.Send(i));
  while (load.is_sending()) KVD_CHECK_OK(load.Serve(std::chrono::milliseconds(100)));
  on_sent();
  const UniqueFd input_watch(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {.u32 = 0}};
  if (!input_watch || ::epoll_ctl(input_watch.get(), EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0) {
    return FailErrno("epoll_ctl");
  }
  while (SecondsSince(begin) <= options.seconds_max) {
    KVD_CHECK_OK(load.Serve(std::chrono::milliseconds(100)));
    if (::epoll_wait(input_watch.get(), &event, 1, 0) == 1) return load.done_count();
  }
  return Fail(Code::kTimeout, "the streams were held for ", options.seconds_max, " s");
}

}  // namespace kvd::bench
