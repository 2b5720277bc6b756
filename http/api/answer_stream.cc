#include "http/api/answer_stream.h"

namespace kvd::http {

std::string DataEvent(const Value& data) { return "data: " + JsonText(data) + "\n\n"; }

Await<bool> EventStream::Begin() {
  has_begun_ = true;
  GatewayReply head;
  head.content_type = std::string(kEventStreamType);
  co_return co_await responder_.Begin(std::move(head));
}

Await<bool> EventStream::Send(std::string text) {
  if (!has_begun_) {
    const bool goes_on = co_await Begin();
    if (!goes_on) co_return false;
  }
  co_return co_await responder_.Write(std::move(text));
}

Await<bool> EventStream::Fail(Error error) {
  if (!has_begun_) co_return co_await responder_.Send(ReplyOf(error));
  std::string event = "data: " + ErrorBody(error) + "\n\n";
  co_return co_await End(std::move(event));
}

Await<bool> EventStream::End(std::string text) {
  if (!has_begun_ || !text.empty()) {
    const bool goes_on = co_await Send(std::move(text));
    if (!goes_on) co_return false;
  }
  co_return co_await responder_.End();
}

}  // namespace kvd::http
