// Tests StreamBuffer: readers from any byte and event, while it is written and afterwards.
#include "http/answer/stream_buffer.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <memory>
#include <string>
#include <utility>

#include "http/answer/answer_journal.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/recording_responder.h"

namespace kvd::http {
namespace {

using kvd::test::RecordingResponder;

class StreamBufferTest : public ::testing::Test {
 protected:
  template <class Awaitable>
  void Spawn(Awaitable awaitable) {
    boost::asio::co_spawn(loop_, std::move(awaitable), boost::asio::detached);
    Run();
  }
  void Run() {
    loop_.restart();
    loop_.poll();
  }
  void Begin() { Spawn(BeginIt(buffer_)); }
  void Write(std::string text) { Spawn(WriteIt(buffer_, std::move(text))); }
  void Follow(std::size_t from, RecordingResponder& reader) { Spawn(buffer_.Follow(from, reader)); }

  static Await<void> BeginIt(StreamBuffer& buffer) {
    GatewayReply head{.body = {}, .content_type = std::string(kEventStreamType)};
    co_await buffer.Begin(std::move(head));
  }
  static Await<void> WriteIt(StreamBuffer& buffer, std::string text) {
    co_await buffer.Write(std::move(text));
  }
  static Await<void> SendIt(StreamBuffer& buffer, GatewayReply reply) {
    co_await buffer.Send(std::move(reply));
  }

  Loop loop_;
  StreamBuffer buffer_{loop_, nullptr};
};

TEST_F(StreamBufferTest, ReadersBeginAtAnyByteAndGetLaterBytes) {
  RecordingResponder early;
  Follow(0, early);
  EXPECT_EQ(early.type, "");
  Begin();
  EXPECT_EQ(early.type, kEventStreamType);
  Write("hello ");
  RecordingResponder late;
  Follow(3, late);
  Write("world");
  EXPECT_EQ(early.text, "hello world");
  EXPECT_EQ(late.text, "lo world");
  EXPECT_FALSE(early.has_ended);
  buffer_.Finish();
  Run();
  EXPECT_TRUE(early.has_ended);
  EXPECT_TRUE(late.has_ended);
  RecordingResponder afterwards;
  Follow(6, afterwards);
  EXPECT_EQ(afterwards.text, "world");
  EXPECT_TRUE(afterwards.has_ended);
}

TEST_F(StreamBufferTest, AReaderThatLeavesDoesNotEndTheReply) {
  Begin();
  RecordingResponder reader;
  Follow(0, reader);
  reader.Leave();
  Run();
  Write("more");
  EXPECT_EQ(reader.text, "");
  EXPECT_FALSE(buffer_.is_gone());
  EXPECT_EQ(buffer_.byte_count(), 4u);
}

TEST_F(StreamBufferTest, CancelTellsTheHandler) {
  Begin();
  int calls = 0;
  buffer_.OnGone([&] { ++calls; });
  RecordingResponder reader;
  Follow(0, reader);
  buffer_.Cancel();
  buffer_.Cancel();
  Run();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(buffer_.is_gone());
  EXPECT_TRUE(reader.has_ended);
}

TEST_F(StreamBufferTest, AReaderOfAStreamThatNeverBeginsGetsAConflict) {
  RecordingResponder reader;
  Follow(0, reader);
  buffer_.Cancel();
  Run();
  ASSERT_TRUE(reader.whole);
  EXPECT_EQ(reader.whole->status, 409);
}

TEST_F(StreamBufferTest, ACompleteReplyIsForwarded) {
  RecordingResponder reader;
  Follow(0, reader);
  Spawn(SendIt(buffer_, GatewayReply{.status = 400, .body = "wrong"}));
  ASSERT_TRUE(reader.whole);
  EXPECT_EQ(reader.whole->status, 400);
  EXPECT_EQ(reader.whole->body, "wrong");
  EXPECT_TRUE(buffer_.is_whole());
}

TEST_F(StreamBufferTest, ALongReplyDropsItsFirstBytes) {
  Begin();
  const std::string portion(1u << 20, 'x');
  for (int i = 0; i < 20; ++i) Write(portion);
  EXPECT_EQ(buffer_.byte_count(), 20u << 20);
  EXPECT_GT(buffer_.dropped_bytes(), 0u);
  RecordingResponder lost;
  Follow(0, lost);
  ASSERT_TRUE(lost.whole);
  EXPECT_EQ(lost.whole->status, 400);
  buffer_.Finish();
  RecordingResponder last;
  Follow((20u << 20) - 5, last);
  EXPECT_EQ(last.text, "xxxxx");
}

// The journal of a stream, as the next process reads it.
class LoggedStreamTest : public StreamBufferTest {
 protected:
  LoggedStreamTest() : directory_(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY)) {
    Request request;
    request.method = "POST";
    auto created = AnswerJournal::Create(directory_.get(), "a.journal", "c1", request);
    EXPECT_TRUE(created) << created.error().message;
    first_ = std::make_unique<StreamBuffer>(loop_, *created);
    Spawn(BeginIt(*first_));
    Spawn(WriteIt(*first_, "event: a\ndata: 1.5\n\n"));
    Spawn(WriteIt(*first_, "event: b\ndata: 2.5\n\n"));
  }
  std::unique_ptr<StreamBuffer> Restored() {
    auto opened = AnswerJournal::Open(directory_.get(), "a.journal");
    EXPECT_TRUE(opened) << opened.error().message;
    return std::make_unique<StreamBuffer>(loop_, *opened);
  }
  std::string TextOf(StreamBuffer& buffer) {
    RecordingResponder reader;
    Spawn(buffer.Follow(0, reader));
    EXPECT_EQ(reader.type, kEventStreamType);
    reader.Leave();
    Run();
    return reader.text;
  }

  kvd::test::TemporaryFolder folder_;
  UniqueFd directory_;
  std::unique_ptr<StreamBuffer> first_;
};

TEST_F(LoggedStreamTest, ARestoredStreamHasTheBytesThatReadersHaveSeen) {
  const auto buffer = Restored();
  const std::string logged = "event: a\ndata: 1.5\n\nevent: b\ndata: 2.5\n\n";
  EXPECT_EQ(TextOf(*buffer), logged);
  // The handler runs again, and its timings differ.
  Spawn(BeginIt(*buffer));
  Spawn(WriteIt(*buffer, "event: a\ndata: 1.75\n\n"));
  Spawn(WriteIt(*buffer, "event: b\ndata: 2.75\n\n"));
  Spawn(WriteIt(*buffer, "event: c\ndata: 3.75\n\n"));
  EXPECT_EQ(TextOf(*buffer), logged + "event: c\ndata: 3.75\n\n");
  EXPECT_EQ(TextOf(*Restored()), logged + "event: c\ndata: 3.75\n\n");
}

TEST_F(LoggedStreamTest, AHandlerThatFailsWhenItRunsAgainEndsTheStreamWithAnEvent) {
  const auto buffer = Restored();
  const std::string logged = TextOf(*buffer);
  Spawn(SendIt(*buffer, GatewayReply{.status = 500, .body = "{}"}));
  EXPECT_TRUE(buffer->is_over());
  EXPECT_FALSE(buffer->is_whole());
  EXPECT_EQ(TextOf(*buffer), logged + "event: error\ndata: {}\n\n");
}

TEST_F(LoggedStreamTest, ACompleteStreamIsNotResumed) {
  first_->journal()->PutOver();
  const auto buffer = Restored();
  EXPECT_TRUE(buffer->is_over());
  EXPECT_EQ(buffer->byte_count(), first_->byte_count());
}

TEST_F(StreamBufferTest, EventsAreCounted) {
  Begin();
  Write("data: 0\n\ndata: 1\n\n");
  RecordingResponder second;
  Spawn(buffer_.FollowEvents(1, second));
  RecordingResponder future;
  Spawn(buffer_.FollowEvents(3, future));
  Write("data: 2\n\n");
  EXPECT_EQ(future.text, "");
  Write("data: 3\n\n");
  buffer_.Finish();
  Run();
  EXPECT_EQ(second.text, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
  EXPECT_EQ(future.text, "data: 3\n\n");
  RecordingResponder beyond;
  Spawn(buffer_.FollowEvents(9, beyond));
  EXPECT_EQ(beyond.text, "");
  EXPECT_TRUE(beyond.has_ended);
}

}  // namespace
}  // namespace kvd::http
