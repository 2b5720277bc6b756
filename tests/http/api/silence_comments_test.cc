// Tests WithComments: comments in silent streams, before and after their first event.
#include "http/api/silence_comments.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "http/loop/await.h"
#include "tests/http/recording_responder.h"

namespace kvd::http {
namespace {

using kvd::test::RecordingResponder;
using std::chrono::milliseconds;

class SilenceCommentsTest : public ::testing::Test {
 protected:
  // Runs the handler to its end.
  void Run(milliseconds time, std::function<Await<void>(Responder&)> handle) {
    bool has_returned = false;
    const auto whole = [&]() -> Await<void> {
      co_await WithComments(loop_, client_, time, std::move(handle));
      has_returned = true;
    };
    boost::asio::co_spawn(loop_, whole(), boost::asio::detached);
    loop_.run();
    EXPECT_TRUE(has_returned);
  }
  // Is silent until the client has a text that begins so, or has left.
  Await<void> WaitFor(std::string text) {
    Signal never(loop_);
    while (!client_.text.starts_with(text) && !client_.gone)
      co_await never.WaitFor(milliseconds(1));
  }

  Loop loop_;
  RecordingResponder client_;
};

TEST_F(SilenceCommentsTest, CommentsBeginAStreamAndSeparateItsEvents) {
  Run(milliseconds(2), [this](Responder& to) -> Await<void> {
    co_await WaitFor(":\n\n:\n\n");
    GatewayReply head{.body = {}, .content_type = std::string(kEventStreamType)};
    EXPECT_TRUE(co_await to.Begin(std::move(head)));
    client_.text.clear();
    EXPECT_TRUE(co_await to.Write("data: 1\n\n"));
    co_await WaitFor("data: 1\n\n:\n\n");
    EXPECT_TRUE(co_await to.End());
  });
  EXPECT_EQ(client_.type, kEventStreamType);
  EXPECT_TRUE(client_.text.starts_with("data: 1\n\n:\n\n"));
  EXPECT_TRUE(client_.has_ended);
}

TEST_F(SilenceCommentsTest, AnErrorAfterCommentsIsAnEvent) {
  Run(milliseconds(2), [this](Responder& to) -> Await<void> {
    co_await WaitFor(":\n\n");
    client_.text.clear();
    GatewayReply reply{.status = 500, .body = "{\"error\":1}"};
    EXPECT_TRUE(co_await to.Send(std::move(reply)));
  });
  EXPECT_EQ(client_.text, "event: error\ndata: {\"error\":1}\n\n");
  EXPECT_TRUE(client_.has_ended);
  EXPECT_FALSE(client_.whole);
}

TEST_F(SilenceCommentsTest, AnErrorBeforeCommentsIsAReply) {
  Run(std::chrono::hours(1), [](Responder& to) -> Await<void> {
    GatewayReply reply{.status = 404, .body = "{}"};
    EXPECT_TRUE(co_await to.Send(std::move(reply)));
  });
  ASSERT_TRUE(client_.whole);
  EXPECT_EQ(client_.whole->status, 404);
  EXPECT_EQ(client_.text, "");
}

TEST_F(SilenceCommentsTest, WithoutAnIntervalOrAClientThereAreNoComments) {
  Run(milliseconds(0), [this](Responder& to) -> Await<void> {
    EXPECT_EQ(&to, &client_);
    co_return;
  });
  loop_.restart();
  Run(milliseconds(1), [this](Responder& to) -> Await<void> {
    co_await WaitFor(":\n\n");
    client_.Leave();
    EXPECT_FALSE(co_await to.Write("data: 1\n\n"));
    client_.text.clear();
    Signal never(loop_);
    co_await never.WaitFor(milliseconds(20));
  });
  EXPECT_EQ(client_.text, "");
}

}  // namespace
}  // namespace kvd::http
