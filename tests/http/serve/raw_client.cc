#include "tests/http/serve/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/un.h>

#include <array>
#include <cstring>

#include "base/text.h"

namespace kvd::http::test {
namespace {

constexpr int kWaitMs = 60'000;

std::string Lowered(std::string text) {
  for (char& character : text) {
    if (character >= 'A' && character <= 'Z') character = static_cast<char>(character + 32);
  }
  return text;
}

}  // namespace

RawClient::RawClient(std::uint16_t port, int receive_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_bytes > 0) {
    (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket_.reset();
  }
}

RawClient::RawClient(const std::string& unix_path)
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, unix_path.data(), unix_path.size());
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket_.reset();
  }
}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::SendRequest(std::string_view method, std::string_view target,
                            std::string_view headers, std::string_view body) {
  std::string text = Concat(method, " ", target, " HTTP/1.1\r\nHost: localhost\r\n", headers);
  if (!body.empty()) text += Concat("Content-Length: ", body.size(), "\r\n");
  return Send(Concat(text, "\r\n", body));
}

bool RawClient::Fill() {
  pollfd watched{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&watched, 1, kWaitMs) != 1) {
    has_timed_out_ = true;
    return false;
  }
  std::array<char, 65536> bytes;
  const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (received <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(received));
  return true;
}

bool RawClient::ReadsBytes(std::size_t byte_count) {
  while (buffer_.size() < byte_count) {
    if (!Fill()) return false;
  }
  return true;
}

ReceivedReply RawClient::ReadReply(bool has_body) {
  ReceivedReply reply;
  std::size_t head_bytes = 0;
  while ((head_bytes = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return reply;
  }
  std::string head = buffer_.substr(0, head_bytes + 2);
  buffer_.erase(0, head_bytes + 4);
  reply.status = std::atoi(head.substr(9, 3).c_str());
  head.erase(0, head.find("\r\n") + 2);
  while (!head.empty()) {
    const std::string line = head.substr(0, head.find("\r\n"));
    head.erase(0, line.size() + 2);
    const std::size_t colon = line.find(": ");
    reply.headers[Lowered(line.substr(0, colon))] = line.substr(colon + 2);
  }
  if (!has_body || reply.status == 204 || reply.status < 200) {
    reply.is_whole = true;
    return reply;
  }
  if (reply.has("content-length")) {
    const std::size_t body_bytes = std::stoul(reply.header("content-length"));
    reply.is_whole = ReadsBytes(body_bytes);
    reply.body = buffer_.substr(0, body_bytes);
    buffer_.erase(0, body_bytes);
    return reply;
  }
  if (reply.header("transfer-encoding") != "chunked") {
    reply.body = ReadToEnd();
    reply.is_whole = true;
    return reply;
  }
  while (true) {
    std::size_t line_bytes = 0;
    while ((line_bytes = buffer_.find("\r\n")) == std::string::npos) {
      if (!Fill()) return reply;
    }
    const std::size_t chunk_bytes = std::stoul(buffer_.substr(0, line_bytes), nullptr, 16);
    if (!ReadsBytes(line_bytes + 2 + chunk_bytes + 2)) return reply;
    reply.body += buffer_.substr(line_bytes + 2, chunk_bytes);
    buffer_.erase(0, line_bytes + 2 + chunk_bytes + 2);
    if (chunk_bytes > 0) continue;
    reply.is_whole = true;
    return reply;
  }
}

std::string RawClient::ReadToEnd() {
  while (Fill()) {
  }
  return std::exchange(buffer_, {});
}

bool RawClient::ReadsEnd() {
  (void)ReadToEnd();
  return !has_timed_out_;
}

void RawClient::Reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket_.reset();
}

}  // namespace kvd::http::test
