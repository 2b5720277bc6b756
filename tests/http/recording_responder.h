// RecordingResponder: a client that takes everything, for tests of handlers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "http/serve/request.h"

namespace kvd::test {

class RecordingResponder final : public http::Responder {
 public:
  http::Await<bool> Send(http::GatewayReply reply) override {
    whole = std::move(reply);
    co_return !gone;
  }
  http::Await<bool> Begin(http::GatewayReply head) override {
    type = head.content_type;
    co_return !gone;
  }
  http::Await<bool> Write(std::string bytes) override {
    text += bytes;
    co_return !gone;
  }
  http::Await<bool> End() override {
    has_ended = true;
    co_return !gone;
  }
  bool is_gone() const override { return gone; }
  void OnGone(std::function<void()> call) override { on_gone = std::move(call); }
  void Leave() {
    gone = true;
    if (on_gone) on_gone();
  }

  std::optional<http::GatewayReply> whole;
  std::string type;
  std::string text;
  bool has_ended = false;
  bool gone = false;
  std::function<void()> on_gone;
};

}  // namespace kvd::test
