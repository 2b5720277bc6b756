#include "shm/result_channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shm/verb_table.h"
#include "tests/shm/support/shared_segments.h"

namespace kvd {
namespace {

constexpr std::size_t kArena = 65536;

wire::Completion Answer(std::uint64_t request) {
  wire::Completion completion{};
  completion.request = request;
  completion.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
  return completion;
}

class ResultChannelTest : public testing::Test {
 protected:
  OutputPiece Allocate(std::size_t byte_count) {
    auto piece = producer_.AllocateOutput(byte_count);
    EXPECT_TRUE(piece.has_value()) << byte_count;
    return piece.value_or(OutputPiece{});
  }
  void Finish(std::uint64_t request, const OutputPiece& piece) {
    ASSERT_TRUE(producer_.Reserve());
    producer_.WriteFinal(Answer(request), piece, static_cast<std::uint32_t>(piece.bytes.size()));
    (void)producer_.Publish();
  }
  wire::Completion Receive() {
    wire::Completion completion{};
    EXPECT_TRUE(consumer_.Next(completion).value());
    return completion;
  }
  std::string RefreshError() {
    const auto status = producer_.Refresh();
    EXPECT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    return status ? "" : status.error().message;
  }

  SharedSegments segments_{SmallGeometry()};
  CompletionProducer producer_{segments_.results(), segments_.requests(), segments_.geometry()};
  CompletionConsumer consumer_{segments_.results(), segments_.requests(), segments_.geometry()};
};

TEST_F(ResultChannelTest, AnOutputIsReadInPlace) {
  OutputPiece piece = Allocate(100);
  std::ranges::fill(piece.bytes, std::byte{7});
  Finish(3, piece);
  const wire::Completion completion = Receive();
  EXPECT_EQ(completion.request, 3u);
  EXPECT_EQ(completion.flags, 0);
  const auto output = consumer_.output(completion);
  EXPECT_EQ(output.data(), piece.bytes.data());
  EXPECT_EQ(output.size(), 100u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(output.data()) % 64, 0u);
  EXPECT_FALSE(consumer_.HasNext());
}

TEST_F(ResultChannelTest, WrittenCompletionsAreInvisibleUntilPublished) {
  ASSERT_TRUE(producer_.Reserve());
  producer_.WriteFinal(Answer(1), {}, 0);
  EXPECT_FALSE(consumer_.HasNext());
  EXPECT_FALSE(producer_.Publish());
  EXPECT_TRUE(consumer_.HasNext());
}

TEST_F(ResultChannelTest, ReservedSlotsAreNotFree) {
  EXPECT_EQ(producer_.free_slots(), 16u);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(producer_.Reserve());
  EXPECT_EQ(producer_.free_slots(), 0u);
  EXPECT_FALSE(producer_.Reserve());
  producer_.Unreserve();
  EXPECT_EQ(producer_.free_slots(), 1u);
  producer_.WriteMore(Answer(1), {}, 0);
  EXPECT_EQ(producer_.free_slots(), 0u);
  (void)producer_.Publish();
  EXPECT_EQ(Receive().flags, wire::kMore);
  EXPECT_EQ(producer_.free_slots(), 0u);  // the producer has not read the client's head yet
  ASSERT_TRUE(producer_.Refresh());
  EXPECT_EQ(producer_.free_slots(), 1u);
}

TEST_F(ResultChannelTest, AFullArenaGrantsNothingUntilTheClientReleases) {
  Finish(1, Allocate(kArena));
  EXPECT_EQ(producer_.output_space(), 0u);
  EXPECT_FALSE(producer_.AllocateOutput(1).has_value());
  const wire::Completion completion = Receive();
  ASSERT_TRUE(producer_.Refresh());
  EXPECT_FALSE(producer_.AllocateOutput(1).has_value());
  consumer_.Release(completion);
  EXPECT_FALSE(producer_.AllocateOutput(1).has_value());
  ASSERT_TRUE(producer_.Refresh());
  EXPECT_EQ(producer_.output_space(), kArena);
  Allocate(kArena);
}

TEST_F(ResultChannelTest, APieceNeverCrossesTheEndOfTheArena) {
  Finish(1, Allocate(40000));
  Finish(2, Allocate(10000));
  consumer_.Release(Receive());
  ASSERT_TRUE(producer_.Refresh());
  // The arena has 15,488 bytes left at its end, so that the output begins at the arena's start.
  const OutputPiece piece = Allocate(20000);
  EXPECT_EQ(piece.cursor, kArena);
  Finish(3, piece);
  Receive();
  const wire::Completion third = Receive();
  EXPECT_EQ(consumer_.output(third).data(), piece.bytes.data());
}

TEST_F(ResultChannelTest, TheReportedOutputSpaceCanBeAllocated) {
  std::mt19937 random(3);
  std::deque<wire::Completion> held;
  for (int round = 0; round < 20000; ++round) {
    const std::size_t space = producer_.output_space();
    const std::size_t want = random() % 20000 + 1;
    ASSERT_EQ(producer_.output_space() % 64, 0u);
    if (want <= space) {
      ASSERT_LE(space, kArena);
      if (space < kArena) {
        ASSERT_FALSE(producer_.AllocateOutput(space + 1).has_value());
      }
      Finish(1, Allocate(want));
      held.push_back(Receive());
    } else {
      ASSERT_FALSE(producer_.AllocateOutput(want).has_value());
      ASSERT_FALSE(held.empty());
    }
    while (!held.empty() && (random() % 3 == 0 || want > space)) {
      consumer_.Release(held.front());
      held.pop_front();
      ASSERT_TRUE(producer_.Refresh());
      if (producer_.output_space() >= 20000) break;
    }
    ASSERT_TRUE(producer_.Refresh());
  }
}

TEST_F(ResultChannelTest, AShorterOutputReturnsItsTail) {
  const OutputPiece piece = Allocate(10000);
  ASSERT_TRUE(producer_.Reserve());
  producer_.WriteFinal(Answer(1), piece, 10);
  EXPECT_EQ(producer_.output_bytes_outstanding(), 64u);
  EXPECT_EQ(Allocate(64).cursor, 64u);
}

TEST_F(ResultChannelTest, AnAbandonedPieceDelaysNoOther) {
  const OutputPiece first = Allocate(30000);
  const OutputPiece second = Allocate(30000);
  producer_.AbandonOutput(second);
  Finish(1, first);
  consumer_.Release(Receive());
  ASSERT_TRUE(producer_.Refresh());
  EXPECT_EQ(producer_.output_bytes_outstanding(), 0u);
}

TEST_F(ResultChannelTest, AnAbandonedLastPieceFreesItsRoomAtOnce) {
  const OutputPiece kept = Allocate(30000);
  for (int i = 0; i < 10; ++i) {
    const OutputPiece middle = Allocate(10000);
    const OutputPiece last = Allocate(20000);
    producer_.AbandonOutput(middle);
    producer_.AbandonOutput(last);
  }
  EXPECT_EQ(producer_.output_space(), kArena - 30016);
  Finish(1, kept);
}

TEST_F(ResultChannelTest, APieceBeingWrittenIsNotFree) {
  const OutputPiece writing = Allocate(64);
  producer_.AbandonOutput(Allocate(64));
  ASSERT_TRUE(producer_.Refresh());
  EXPECT_GE(producer_.output_bytes_outstanding(), 64u);
  Finish(1, writing);
}

TEST_F(ResultChannelTest, AReleaseInsideAPieceFreesOnlyEarlierPieces) {
  Finish(1, Allocate(128));
  Finish(2, Allocate(128));
  segments_.requests_header().output_released = 130;
  ASSERT_TRUE(producer_.Refresh());
  EXPECT_EQ(producer_.output_bytes_outstanding(), 128u);
}

TEST_F(ResultChannelTest, AReleaseBeyondTheGrantedRangeIsNamed) {
  Finish(1, Allocate(128));
  Allocate(128);  // this output is not handed to the client
  segments_.requests_header().output_released = 129;
  EXPECT_NE(RefreshError().find("output_released: 129"), std::string::npos);
}

TEST_F(ResultChannelTest, AReleaseThatMovesBackwardsIsNamed) {
  Finish(1, Allocate(128));
  segments_.requests_header().output_released = 128;
  ASSERT_TRUE(producer_.Refresh());
  segments_.requests_header().output_released = 64;
  EXPECT_NE(RefreshError().find("output_released: 64"), std::string::npos);
}

TEST_F(ResultChannelTest, ACompletionHeadBeyondTheTailIsNamed) {
  Finish(1, {});
  segments_.requests_header().completion_head = 2;
  EXPECT_NE(RefreshError().find("completion_head: 2"), std::string::npos);
}

TEST_F(ResultChannelTest, ACompletionHeadThatMovesBackwardsIsNamed) {
  Finish(1, {});
  Receive();
  ASSERT_TRUE(producer_.Refresh());
  segments_.requests_header().completion_head = 0;
  EXPECT_NE(RefreshError().find("completion_head: 0"), std::string::npos);
}

TEST_F(ResultChannelTest, TheClientNamesATailOutOfRange) {
  segments_.results_header().completion_tail = 17;
  wire::Completion completion;
  const auto next = consumer_.Next(completion);
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().message.find("completion_tail: 17"), std::string::npos);
}

TEST_F(ResultChannelTest, TheClientChecksEachCompletion) {
  Finish(1, {});
  auto* entry = reinterpret_cast<wire::Completion*>(segments_.results().data() +
                                                    sizeof(layout::ResultsHeader));
  entry->verb = 99;
  wire::Completion completion;
  const auto next = consumer_.Next(completion);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::kCorrupt);
}

TEST_F(ResultChannelTest, ASleepingClientIsRungOncePerPublication) {
  ASSERT_TRUE(consumer_.PrepareToSleep());
  ASSERT_TRUE(producer_.Reserve());
  producer_.WriteFinal(Answer(1), {}, 0);
  EXPECT_TRUE(producer_.Publish());
  EXPECT_FALSE(producer_.Publish());  // no new completion, so no doorbell
  EXPECT_FALSE(consumer_.PrepareToSleep());
  Receive();
  consumer_.WakeUp();
  Finish(2, {});
  EXPECT_EQ(segments_.requests_header().client_sleeps, 0u);
}

TEST_F(ResultChannelTest, AReleaseRingsOnlyAStalledDaemon) {
  EXPECT_FALSE(consumer_.daemon_stalled());
  segments_.results_header().daemon_sleeps = layout::kDaemonSleeps;
  EXPECT_FALSE(consumer_.daemon_stalled());
  segments_.results_header().daemon_sleeps = layout::kDaemonStalled;
  EXPECT_TRUE(consumer_.daemon_stalled());
}

TEST_F(ResultChannelTest, TwoThreadsPassOutputsUnchanged) {
  constexpr std::uint64_t kCount = 5000;
  std::thread client([&] {
    for (std::uint64_t i = 0; i < kCount;) {
      wire::Completion completion;
      const auto next = consumer_.Next(completion);
      ASSERT_TRUE(next.has_value());
      if (!*next) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(completion.request, i);
      for (const std::byte byte : consumer_.output(completion)) {
        ASSERT_EQ(byte, static_cast<std::byte>(i));
      }
      consumer_.Release(completion);
      ++i;
    }
  });
  std::mt19937 random(1);
  for (std::uint64_t i = 0; i < kCount;) {
    ASSERT_TRUE(producer_.Refresh());
    const auto piece = producer_.AllocateOutput(random() % 9000);
    if (!piece || producer_.free_slots() == 0) {
      if (piece) producer_.AbandonOutput(*piece);
      std::this_thread::yield();
      continue;
    }
    std::ranges::fill(piece->bytes, static_cast<std::byte>(i));
    ASSERT_TRUE(producer_.Reserve());
    producer_.WriteFinal(Answer(i), *piece, static_cast<std::uint32_t>(piece->bytes.size()));
    (void)producer_.Publish();
    ++i;
  }
  client.join();
}

}  // namespace
}  // namespace kvd
