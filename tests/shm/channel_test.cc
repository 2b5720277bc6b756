#include "shm/channel.h"

#include <gtest/gtest.h>

#include <string>

#include "shm/channel_geometry.h"
#include "shm/shared_memory.h"
#include "shm/verb_table.h"
#include "tests/shm/support/shared_segments.h"

namespace kvd {
namespace {

Result<ClientChannel> AttachTo(const CreatedChannel& created, const ChannelGeometry& geometry) {
  return ClientChannel::Attach(geometry, created.descriptors[0].get(),
                               created.descriptors[1].get());
}

TEST(ChannelTest, ARequestIsReceivedAndItsReplyReturned) {
  auto created = CreateChannel(SmallGeometry(), "kvd-test");
  ASSERT_TRUE(created) << created.error().message;
  auto client = AttachTo(*created, SmallGeometry());
  ASSERT_TRUE(client) << client.error().message;

  auto room = client->submissions().Reserve(3);
  ASSERT_TRUE(room && *room);
  (*room)->front() = std::byte{42};
  wire::Submission submission{};
  submission.request = 1;
  submission.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
  // True: the client must ring the doorbell, because the daemon of a new channel sleeps.
  EXPECT_TRUE(client->submissions().Submit(submission));

  created->channel.WakeUp();
  ReceivedSubmission received;
  ASSERT_TRUE(created->channel.submissions().Take(received).value());
  ASSERT_TRUE(received.check);
  EXPECT_EQ(received.payload[0], std::byte{42});

  CompletionProducer& completions = created->channel.completions();
  ASSERT_TRUE(completions.Reserve());
  const auto piece = completions.AllocateOutput(3);
  ASSERT_TRUE(piece);
  piece->bytes[2] = std::byte{43};
  wire::Completion completion{};
  completion.request = 1;
  completion.verb = submission.verb;
  completions.WriteFinal(completion, *piece, 3);
  (void)completions.Publish();

  wire::Completion answer;
  ASSERT_TRUE(client->completions().Next(answer).value());
  EXPECT_EQ(client->completions().output(answer)[2], std::byte{43});
  client->completions().Release(answer);
  ASSERT_TRUE(completions.Refresh());
  EXPECT_EQ(completions.output_bytes_outstanding(), 0u);
}

TEST(ChannelTest, TheDaemonDoesNotSleepWhileASubmissionWaits) {
  auto created = CreateChannel(SmallGeometry(), "kvd-test");
  auto client = AttachTo(*created, SmallGeometry());
  ASSERT_TRUE(client);
  EXPECT_TRUE(created->channel.PrepareToSleep(false).value());
  created->channel.WakeUp();
  ASSERT_TRUE(client->submissions().Reserve(0).value().has_value());
  EXPECT_FALSE(client->submissions().Submit({}));
  EXPECT_FALSE(created->channel.PrepareToSleep(false).value());
}

TEST(ChannelTest, AStalledDaemonDoesNotSleepAfterARelease) {
  auto created = CreateChannel(SmallGeometry(), "kvd-test");
  auto client = AttachTo(*created, SmallGeometry());
  ASSERT_TRUE(client);
  CompletionProducer& completions = created->channel.completions();
  ASSERT_TRUE(completions.Reserve());
  wire::Completion completion{};
  completion.verb = 1;
  completions.WriteFinal(completion, *completions.AllocateOutput(64), 64);
  (void)completions.Publish();
  EXPECT_TRUE(created->channel.PrepareToSleep(true).value());
  EXPECT_TRUE(client->completions().daemon_stalled());
  ASSERT_TRUE(client->completions().Next(completion).value());
  EXPECT_FALSE(created->channel.PrepareToSleep(true).value());  // a completion slot is free again
  EXPECT_TRUE(created->channel.PrepareToSleep(true).value());
  client->completions().Release(completion);
  EXPECT_FALSE(created->channel.PrepareToSleep(true).value());  // output space is free again
  EXPECT_FALSE(client->completions().daemon_stalled());
}

TEST(ChannelTest, TheClientRefusesSegmentsOfAnotherGeometry) {
  auto created = CreateChannel(SmallGeometry(), "kvd-test");
  ChannelGeometry other = SmallGeometry();
  other.result_arena_bytes *= 2;
  EXPECT_EQ(AttachTo(*created, other).error().code, Code::kCorrupt);
  // The segments of this test have the right sizes, but empty headers.
  const ChannelGeometry geometry = SmallGeometry();
  auto bare_requests =
      CreateSealedMemory("kvd-test", geometry.request_segment_bytes(), Sealing::kSize);
  auto bare_results =
      CreateSealedMemory("kvd-test", geometry.result_segment_bytes(), Sealing::kSizeAndLaterWrites);
  ASSERT_TRUE(bare_requests && bare_results);
  EXPECT_NE(ClientChannel::Attach(geometry, bare_requests->descriptor.get(),
                                  created->descriptors[1].get())
                .error()
                .message.find("requests"),
            std::string::npos);
  EXPECT_NE(
      ClientChannel::Attach(geometry, created->descriptors[0].get(), bare_results->descriptor.get())
          .error()
          .message.find("results"),
      std::string::npos);
}

TEST(ChannelTest, TheClientRefusesResultsThatOthersCouldWrite) {
  const ChannelGeometry geometry = SmallGeometry();
  auto created = CreateChannel(geometry, "kvd-test");
  auto writable = CreateSealedMemory("kvd-test", geometry.result_segment_bytes(), Sealing::kSize);
  EXPECT_EQ(
      ClientChannel::Attach(geometry, created->descriptors[0].get(), writable->descriptor.get())
          .error()
          .code,
      Code::kCorrupt);
}

TEST(ChannelGeometryTest, EachNumberHasItsLimits) {
  const auto error = [](ChannelGeometry geometry) {
    const auto check = ValidateGeometry(geometry);
    EXPECT_FALSE(check.has_value());
    return check ? "" : check.error().message.substr(0, check.error().message.find(':'));
  };
  EXPECT_TRUE(ValidateGeometry({}));
  EXPECT_EQ(error({4, 16, 65536, 65536}), "submission_entries");
  EXPECT_EQ(error({12, 64, 65536, 65536}), "submission_entries");
  EXPECT_EQ(error({8192, 4096, 65536, 65536}), "submission_entries");
  EXPECT_EQ(error({8, 17, 65536, 65536}), "completion_entries");
  EXPECT_EQ(error({16, 16, 65536, 65536}), "completion_entries");
  EXPECT_EQ(error({8, 16, 4096, 65536}), "request_arena_bytes");
  EXPECT_EQ(error({8, 16, 65537, 65536}), "request_arena_bytes");
  EXPECT_EQ(error({8, 16, 65536, (1ull << 30) + 4096}), "result_arena_bytes");
}

TEST(ChannelGeometryTest, SegmentSizesFollowFromTheGeometry) {
  const ChannelGeometry geometry{64, 256, 1 << 20, 3 << 20};
  const auto computed = GeometryOfSegments(64, 256, geometry.request_segment_bytes(),
                                           geometry.result_segment_bytes());
  ASSERT_TRUE(computed);
  EXPECT_EQ(*computed, geometry);
  EXPECT_FALSE(GeometryOfSegments(64, 256, 100, geometry.result_segment_bytes()));
  EXPECT_FALSE(GeometryOfSegments(64, 256, geometry.request_segment_bytes(), 0));
}

}  // namespace
}  // namespace kvd
