#include "shm/request_channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "shm/verb_table.h"
#include "tests/shm/support/shared_segments.h"

namespace kvd {
namespace {

wire::Submission Ping(std::uint64_t request) {
  wire::Submission submission{};
  submission.request = request;
  submission.verb = static_cast<std::uint16_t>(wire::Verb::kTokenize);
  return submission;
}

class RequestChannelTest : public testing::Test {
 protected:
  // Submits a request whose payload has `payload_bytes` bytes of value `fill`. False: there is no
  // room.
  bool Send(std::uint64_t request, std::size_t payload_bytes, std::byte fill) {
    auto room = producer_.Reserve(payload_bytes);
    EXPECT_TRUE(room.has_value());
    if (!*room) return false;
    EXPECT_EQ((*room)->size(), payload_bytes);
    std::fill((*room)->begin(), (*room)->end(), fill);
    was_rung_ = producer_.Submit(Ping(request));
    return true;
  }

  SharedSegments segments_{SmallGeometry()};
  SubmissionProducer producer_{segments_.requests(), segments_.results(), segments_.geometry()};
  SubmissionConsumer consumer_{segments_.requests(), segments_.results(), segments_.geometry()};
  ReceivedSubmission received_;
  bool was_rung_ = false;
};

TEST_F(RequestChannelTest, SubmissionsArriveInOrderWithTheirPayloads) {
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(Send(i, i * 7, static_cast<std::byte>(i)));
    EXPECT_EQ(consumer_.Waiting().value(), 1u);
    ASSERT_TRUE(consumer_.Take(received_).value());
    EXPECT_TRUE(received_.check);
    EXPECT_EQ(received_.submission.request, i);
    EXPECT_EQ(received_.payload, std::vector<std::byte>(i * 7, static_cast<std::byte>(i)));
    EXPECT_FALSE(consumer_.Take(received_).value());
  }
}

TEST_F(RequestChannelTest, ARequestWithoutPayloadFreesTheWholeArena) {
  ASSERT_TRUE(Send(1, 8, std::byte{1}));
  ASSERT_TRUE(Send(2, 0, std::byte{}));
  ASSERT_TRUE(consumer_.Take(received_).value());
  // The second request is in flight and has no payload in the arena.
  ASSERT_TRUE(producer_.Reserve(16).value());
  ASSERT_TRUE(consumer_.Take(received_).value());
  EXPECT_TRUE(Send(3, segments_.geometry().request_arena_bytes, std::byte{3}));
}

TEST_F(RequestChannelTest, WaitingRequestsCanBeInspectedAndAreTakenInOrder) {
  EXPECT_FALSE(consumer_.Peek(0).value());
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(Send(i, 8, static_cast<std::byte>(i)));
  for (std::uint32_t ahead = 0; ahead < 3; ++ahead) {
    const auto waiting = consumer_.Peek(ahead).value();
    ASSERT_TRUE(waiting);
    EXPECT_EQ(waiting->request, ahead + 1u);
  }
  EXPECT_FALSE(consumer_.Peek(3).value());
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(consumer_.Take(received_).value());
    EXPECT_EQ(received_.submission.request, i);
    EXPECT_EQ(received_.payload, std::vector<std::byte>(8, static_cast<std::byte>(i)));
  }
}

TEST_F(RequestChannelTest, APayloadIsCopiedOnlyIfItIsAdmitted) {
  ASSERT_TRUE(Send(1, 8, std::byte{1}));
  ASSERT_TRUE(Send(2, 8, std::byte{2}));
  const SubmissionConsumer::Admit admit = [](const wire::Submission& submission) -> Status {
    if (submission.request == 2) return {};
    return Fail(Code::kNoSpace, "held bytes");
  };
  constexpr std::uint64_t kAny = ~std::uint64_t{0};
  ASSERT_TRUE(consumer_.Take(received_, kAny, admit).value());
  ASSERT_FALSE(received_.check);
  EXPECT_EQ(received_.check.error().code, Code::kNoSpace);
  EXPECT_TRUE(received_.payload.empty());
  ASSERT_TRUE(consumer_.Take(received_, kAny, admit).value());
  EXPECT_TRUE(received_.check);
  EXPECT_EQ(received_.payload.size(), 8u);
}

TEST_F(RequestChannelTest, MoreTokensThanTheDaemonTakesAreRefusedWithoutACopy) {
  wire::Submission decode = Ping(1);
  decode.verb = static_cast<std::uint16_t>(wire::Verb::kDetokenize);
  ASSERT_TRUE(producer_.Reserve(44).value());
  (void)producer_.Submit(decode);
  ASSERT_TRUE(consumer_.Take(received_, 10).value());
  ASSERT_FALSE(received_.check);
  EXPECT_EQ(received_.check.error().message, "detokenize.tokens: 11, the pool has 10 cells");
  EXPECT_TRUE(received_.payload.empty());
}

TEST_F(RequestChannelTest, AFullRingHasNoRoomUntilARequestIsTaken) {
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(Send(i, 0, {}));
  EXPECT_FALSE(Send(8, 0, {}));
  EXPECT_EQ(producer_.unread_count(), 8u);
  ASSERT_TRUE(consumer_.Take(received_).value());
  EXPECT_TRUE(Send(8, 0, {}));
}

TEST_F(RequestChannelTest, AFullArenaHasNoRoomUntilPayloadsAreCopied) {
  ASSERT_TRUE(Send(1, 40000, std::byte{1}));
  EXPECT_FALSE(Send(2, 40000, std::byte{2}));
  ASSERT_TRUE(consumer_.Take(received_).value());
  ASSERT_TRUE(Send(2, 40000, std::byte{2}));
  ASSERT_TRUE(consumer_.Take(received_).value());
  EXPECT_EQ(received_.payload, std::vector<std::byte>(40000, std::byte{2}));
}

TEST_F(RequestChannelTest, APayloadOfTheSizeOfTheArenaFitsAtAnyOffset) {
  ASSERT_TRUE(Send(1, 100, std::byte{1}));
  ASSERT_TRUE(consumer_.Take(received_).value());
  ASSERT_TRUE(Send(2, 65536, std::byte{2}));
  ASSERT_TRUE(consumer_.Take(received_).value());
  EXPECT_EQ(received_.payload, std::vector<std::byte>(65536, std::byte{2}));
}

TEST_F(RequestChannelTest, APayloadLargerThanTheArenaIsRefusedWithBothNumbers) {
  const auto room = producer_.Reserve(65537);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().code, Code::kTooLarge);
  EXPECT_NE(room.error().message.find("65537"), std::string::npos);
  EXPECT_NE(room.error().message.find("65536"), std::string::npos);
}

TEST_F(RequestChannelTest, TheProducerRingsOnlyASleepingDaemon) {
  Send(1, 0, {});
  EXPECT_FALSE(was_rung_);
  segments_.results_header().daemon_sleeps = layout::kDaemonSleeps;
  Send(2, 0, {});
  EXPECT_TRUE(was_rung_);
  segments_.results_header().daemon_sleeps = layout::kDaemonStalled;
  Send(3, 0, {});
  EXPECT_TRUE(was_rung_);
}

TEST_F(RequestChannelTest, ATailThatJumpsAheadIsNamed) {
  segments_.requests_header().submission_tail = 9;
  const auto waiting = consumer_.Waiting();
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code, Code::kCorrupt);
  EXPECT_NE(waiting.error().message.find("submission_tail: 9"), std::string::npos);
  EXPECT_FALSE(consumer_.Take(received_));
}

TEST_F(RequestChannelTest, ATailThatMovesBackwardsIsNamed) {
  Send(1, 0, {});
  Send(2, 0, {});
  ASSERT_EQ(consumer_.Waiting().value(), 2u);
  segments_.requests_header().submission_tail = 1;
  const auto waiting = consumer_.Waiting();
  ASSERT_FALSE(waiting);
  EXPECT_NE(waiting.error().message.find("backwards"), std::string::npos);
}

TEST_F(RequestChannelTest, APayloadOutsideTheArenaIsABadRequestAndNothingIsRead) {
  Send(7, 16, {});
  auto* entry = reinterpret_cast<wire::Submission*>(segments_.requests().data() +
                                                    sizeof(layout::RequestsHeader));
  entry->payload_offset = ~std::uint64_t{0} - 8;
  ASSERT_TRUE(consumer_.Take(received_).value());
  ASSERT_FALSE(received_.check);
  EXPECT_EQ(received_.check.error().code, Code::kInvalidArgument);
  EXPECT_EQ(received_.submission.request, 7u);
  EXPECT_TRUE(received_.payload.empty());
  // The channel still works.
  Send(8, 4, std::byte{4});
  ASSERT_TRUE(consumer_.Take(received_).value());
  EXPECT_TRUE(received_.check);
}

TEST_F(RequestChannelTest, ADaemonCursorOutOfRangeIsNamed) {
  segments_.results_header().submission_head = 1;
  const auto room = producer_.Reserve(0);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().code, Code::kCorrupt);
  EXPECT_NE(room.error().message.find("submission_head"), std::string::npos);
}

TEST_F(RequestChannelTest, ASubmissionChangedAfterTheCopyHasNoEffect) {
  Send(5, 8, std::byte{5});
  ASSERT_TRUE(consumer_.Take(received_).value());
  std::memset(segments_.requests().data() + sizeof(layout::RequestsHeader), 0xff, 4096);
  EXPECT_EQ(received_.submission.request, 5u);
  EXPECT_EQ(received_.payload, std::vector<std::byte>(8, std::byte{5}));
}

TEST_F(RequestChannelTest, TwoThreadsPassAMillionBytesUnchanged) {
  constexpr std::uint64_t kCount = 5000;
  std::thread daemon([&] {
    ReceivedSubmission received;
    for (std::uint64_t i = 0; i < kCount;) {
      const auto taken = consumer_.Take(received);
      ASSERT_TRUE(taken.has_value());
      if (!*taken) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(received.submission.request, i);
      for (const std::byte byte : received.payload) ASSERT_EQ(byte, static_cast<std::byte>(i));
      ++i;
    }
  });
  std::mt19937 random(1);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    while (!Send(i, random() % 5000, static_cast<std::byte>(i))) std::this_thread::yield();
  }
  daemon.join();
}

}  // namespace
}  // namespace kvd
