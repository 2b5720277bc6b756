#include "http/api/silence_comments.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <string>
#include <utility>

#include "http/answer/stream_buffer.h"
#include "http/loop/await.h"

namespace kvd::http {

std::chrono::seconds CommentTime(const ReplyFields& fields, const Responder& responder) {
  return JournalOf(responder) != nullptr ? std::chrono::seconds(0) : fields.ping_time;
}

namespace {

// The handler and the comments send alternately.
class CommentingResponder final : public Responder {
 public:
  CommentingResponder(Loop& loop, Responder& client, std::chrono::milliseconds time)
      : loop_(loop), client_(client), time_(time), changed_(loop), silence_(loop, [this] {
          StartComment();
        }) {
    silence_.SetAfter(time_);
  }

  Await<bool> Send(GatewayReply reply) override {
    co_await Enter();
    is_over_ = true;
    if (!has_begun_) co_return Leave(co_await client_.Send(std::move(reply)));
    std::string event = "event: error\ndata: " + reply.body + "\n\n";
    if (!co_await client_.Write(std::move(event))) co_return Leave(false);
    co_return Leave(co_await client_.End());
  }
  Await<bool> Begin(GatewayReply head) override {
    co_await Enter();
    if (std::exchange(has_begun_, true)) co_return Leave(!client_.is_gone());
    co_return Leave(co_await client_.Begin(std::move(head)));
  }
  Await<bool> Write(std::string bytes) override {
    co_await Enter();
    co_return Leave(co_await client_.Write(std::move(bytes)));
  }
  Await<bool> End() override {
    co_await Enter();
    is_over_ = true;
    co_return Leave(co_await client_.End());
  }
  bool is_gone() const override { return client_.is_gone(); }
  void OnGone(std::function<void()> call) override { client_.OnGone(std::move(call)); }

  // Ends the comments. REQUIRES: awaited before the destructor.
  Await<void> Close() {
    co_await Enter();
    is_over_ = true;
    Leave(true);
  }

 private:
  Await<void> Enter() {
    while (is_sending_) co_await changed_.Wait();
    is_sending_ = true;
    silence_.Clear();
  }
  bool Leave(bool goes_on) {
    is_sending_ = false;
    is_over_ = is_over_ || !goes_on;
    changed_.Notify();
    if (!is_over_) silence_.SetAfter(time_);
    return goes_on;
  }
  void StartComment() {
    if (is_sending_ || is_over_) return;
    is_sending_ = true;
    boost::asio::co_spawn(loop_, Comment(), boost::asio::detached);
  }
  Await<void> Comment() {
    if (!std::exchange(has_begun_, true)) {
      GatewayReply head{.body = {}, .content_type = std::string(kEventStreamType)};
      if (!co_await client_.Begin(std::move(head))) {
        Leave(false);
        co_return;
      }
    }
    Leave(co_await client_.Write(":\n\n"));
  }

  Loop& loop_;
  Responder& client_;
  const std::chrono::milliseconds time_;
  bool is_sending_ = false;
  bool has_begun_ = false;
  bool is_over_ = false;
  Signal changed_;
  Deadline silence_;
};

}  // namespace

Await<void> WithComments(Loop& loop, Responder& client, std::chrono::milliseconds time,
                         std::function<Await<void>(Responder&)> handle) {
  if (time.count() == 0) co_return co_await handle(client);
  CommentingResponder commenting(loop, client, time);
  co_await handle(commenting);
  co_await commenting.Close();
}

}  // namespace kvd::http
