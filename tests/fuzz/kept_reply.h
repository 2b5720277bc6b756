// KeptReply: a client that keeps the reply of a handler, and may be slow or vanish.
//
// It checks that a handler sends one reply: whole, or a beginning, texts and an end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "http/serve/request.h"

namespace kvd::test {

class KeptReply final : public http::Responder {
 public:
  static constexpr std::size_t kBytesMax = 256u << 10;  // then the client is gone

  // `writes_max`: the client is gone after as many calls. `is_slow`: each call takes a turn of the
  // loop.
  KeptReply(std::optional<std::uint8_t> writes_max, bool is_slow)
      : writes_max_(writes_max), is_slow_(is_slow) {}

  http::Await<bool> Send(http::GatewayReply reply) override;
  http::Await<bool> Begin(http::GatewayReply head) override;
  http::Await<bool> Write(std::string bytes) override;
  http::Await<bool> End() override;
  bool is_gone() const override { return is_gone_; }
  void OnGone(std::function<void()> call) override;

  void HangUp();

  const http::GatewayReply& reply() const { return reply_; }
  bool is_stream() const { return is_stream_; }
  bool has_ended() const { return has_ended_; }

 private:
  http::Await<bool> Taken();

  std::optional<std::uint8_t> writes_max_;
  bool is_slow_;
  http::GatewayReply reply_;
  bool has_begun_ = false;
  bool is_stream_ = false;
  bool has_ended_ = false;
  bool is_busy_ = false;  // a call has not returned
  bool is_gone_ = false;
  std::function<void()> on_gone_;
};

}  // namespace kvd::test
