#include "tests/fuzz/kept_reply.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/check.h"

namespace kvd::test {

using http::Await;
using http::GatewayReply;

Await<bool> KeptReply::Taken() {
  KVD_ASSERT(!is_busy_);
  is_busy_ = true;
  if (is_slow_) co_await boost::asio::post(boost::asio::use_awaitable);
  is_busy_ = false;
  if (writes_max_ && (*writes_max_ == 0 || --*writes_max_ == 0)) HangUp();
  co_return !is_gone_;
}

Await<bool> KeptReply::Send(GatewayReply reply) {
  KVD_ASSERT(!has_begun_);
  has_begun_ = has_ended_ = true;
  reply_ = std::move(reply);
  co_return co_await Taken();
}

Await<bool> KeptReply::Begin(GatewayReply head) {
  KVD_ASSERT(!has_begun_);
  has_begun_ = is_stream_ = true;
  reply_ = std::move(head);
  reply_.body.clear();
  co_return co_await Taken();
}

Await<bool> KeptReply::Write(std::string bytes) {
  KVD_ASSERT(is_stream_ && !has_ended_);
  if (!is_gone_) reply_.body += bytes;
  if (reply_.body.size() > kBytesMax) HangUp();
  co_return co_await Taken();
}

Await<bool> KeptReply::End() {
  KVD_ASSERT(is_stream_ && !has_ended_);
  has_ended_ = true;
  co_return co_await Taken();
}

void KeptReply::OnGone(std::function<void()> call) {
  on_gone_ = std::move(call);
  if (is_gone_ && on_gone_) std::exchange(on_gone_, nullptr)();
}

void KeptReply::HangUp() {
  if (std::exchange(is_gone_, true)) return;
  if (on_gone_) std::exchange(on_gone_, nullptr)();
}

}  // namespace kvd::test
