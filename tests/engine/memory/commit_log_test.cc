#include "engine/memory/commit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/crc32c.h"
#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using testing::HasSubstr;

// A `meta` segment and its commit log. PutThree writes a redo record of three entries to the log.
class CommitLogTest : public testing::Test {
 protected:
  CommitLogTest()
      : segments_(*MemorySegments::CreateAnonymous(*ComputeGeometry(SmallOptions(64)))),
        meta_(segments_.meta.view()),
        log_(meta_) {}

  static std::vector<std::byte> Payload(std::size_t byte_count, int value) {
    return std::vector<std::byte>(byte_count, static_cast<std::byte>(value));
  }
  void PutThree() {
    log_.Begin();
    log_.Put(meta_.sequence_offset(1), Payload(256, 0x11));
    log_.Put(meta_.sequence_offset(3), Payload(8, 0x22));
    log_.Put(meta_.snapshot_offset(0), Payload(128, 0x33));
  }
  MetaView ViewOf(const MetaCopy& copy) const {
    return MetaView(copy.bytes().data(), meta_.offsets(), meta_.geometry());
  }
  // Returns the bytes of all records. Readers of `meta` find all other committed data through the
  // records.
  std::vector<std::byte> RecordsOf(MetaView meta) const {
    const auto records = meta.bytes().subspan(meta.offsets().sequences,
                                              meta.offsets().lists - meta.offsets().sequences);
    return {records.begin(), records.end()};
  }
  layout::CommitHeader& HeaderOf(const MetaCopy& copy) const {
    return *reinterpret_cast<layout::CommitHeader*>(copy.bytes().data() + meta_.offsets().commit);
  }
  layout::CommitEntry& FirstEntryOf(const MetaCopy& copy) const {
    return *reinterpret_cast<layout::CommitEntry*>(copy.bytes().data() + meta_.offsets().commit +
                                                   sizeof(layout::CommitHeader));
  }
  void Seal(const MetaCopy& copy) const {
    layout::CommitHeader& header = HeaderOf(copy);
    std::uint32_t crc = Crc32cOf(0, header.number);
    crc = Crc32cOf(crc, header.entry_count);
    crc = Crc32cOf(crc, header.body_bytes);
    header.crc = Crc32c(
        crc, copy.bytes().subspan(meta_.offsets().commit + sizeof header, header.body_bytes));
  }
  // Commits a redo record of three entries and returns the bytes of `meta` as a kill right after
  // the store that publishes the record would leave them.
  MetaCopy Published() {
    std::vector<MetaCopy> copies;
    log_.set_probe_for_test([&](CommitLog::Moment moment) {
      if (moment == CommitLog::Moment::kPublished) copies.emplace_back(meta_.bytes());
    });
    PutThree();
    EXPECT_TRUE(log_.Commit());
    log_.set_probe_for_test({});
    return std::move(copies.at(0));
  }

  MemorySegments segments_;
  MetaView meta_;
  CommitLog log_;
};

TEST_F(CommitLogTest, ACommitStoppedAtAnyPointIsAppliedCompletelyOrNotAtAll) {
  const std::vector<std::byte> before = RecordsOf(meta_);
  std::vector<std::pair<CommitLog::Moment, MetaCopy>> copies;
  log_.set_probe_for_test(
      [&](CommitLog::Moment moment) { copies.emplace_back(moment, MetaCopy(meta_.bytes())); });
  PutThree();
  ASSERT_TRUE(log_.Commit());
  const std::vector<std::byte> after = RecordsOf(meta_);
  ASSERT_NE(before, after);
  ASSERT_EQ(copies.size(), 9u);
  for (const auto& [moment, copy] : copies) {
    const bool is_published =
        moment == CommitLog::Moment::kPublished || moment == CommitLog::Moment::kEntryApplied;
    const Result<bool> replayed = CommitLog::Replay(ViewOf(copy));
    ASSERT_TRUE(replayed) << replayed.error().message;
    EXPECT_EQ(*replayed, is_published);
    const bool is_after = is_published || moment == CommitLog::Moment::kCleared;
    EXPECT_EQ(RecordsOf(ViewOf(copy)), is_after ? after : before);
    EXPECT_FALSE(*CommitLog::Replay(ViewOf(copy)));
  }
}

TEST_F(CommitLogTest, AnyPartOfTheRecordAppliedIsCompletedByReplay) {
  const MetaCopy published = Published();
  const std::vector<std::byte> after = RecordsOf(meta_);
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    // Applies a random subset of the record's 8-byte words, as a kill during the application could.
    const MetaCopy torn(published.bytes());
    std::byte* const records = torn.bytes().data() + meta_.offsets().sequences;
    for (std::size_t at = 0; at < after.size(); at += 8) {
      if (random() % 2 == 0) std::memcpy(records + at, after.data() + at, 8);
    }
    ASSERT_TRUE(*CommitLog::Replay(ViewOf(torn)));
    ASSERT_EQ(RecordsOf(ViewOf(torn)), after);
  }
}

TEST_F(CommitLogTest, APartlyWrittenRecordIsIgnored) {
  const MetaCopy before(meta_.bytes());
  const MetaCopy published = Published();
  for (std::size_t written = 0; written < 600; written += 8) {
    const MetaCopy copy(before.bytes());
    std::memcpy(copy.bytes().data() + meta_.offsets().commit,
                published.bytes().data() + meta_.offsets().commit, written);
    EXPECT_FALSE(*CommitLog::Replay(ViewOf(copy)));
    EXPECT_EQ(RecordsOf(ViewOf(copy)), RecordsOf(ViewOf(before)));
  }
}

TEST_F(CommitLogTest, ARecordThatIsTooLargeChangesNothing) {
  const std::vector<std::byte> before = RecordsOf(meta_);
  log_.Begin();
  for (int k = 0; k < 4000; ++k) log_.Put(meta_.sequence_offset(0), Payload(256, 1));
  const Status status = log_.Commit();
  EXPECT_EQ(status.error().code, Code::kNoSpace);
  EXPECT_THAT(status.error().message, HasSubstr("1088000 bytes"));
  EXPECT_EQ(RecordsOf(meta_), before);
  PutThree();
  EXPECT_TRUE(log_.Commit());
}

TEST_F(CommitLogTest, AThousandForksFitOneRecord) {
  static_assert(layout::kForksMax * (sizeof(layout::CommitEntry) + sizeof(layout::SequenceRecord)) <
                layout::kCommitRecordBytes);
}

TEST_F(CommitLogTest, CommitNumbersContinueAfterARestart) {
  (void)Published();
  CommitLog next(meta_);
  const MetaCopy first(meta_.bytes());
  next.Put(meta_.sequence_offset(0), Payload(8, 1));
  ASSERT_TRUE(next.Commit());
  const MetaCopy second(meta_.bytes());
  EXPECT_EQ(HeaderOf(second).number, HeaderOf(first).number + 1);
}

TEST_F(CommitLogTest, EveryDamageOfAPublishedRecordIsNamedAndAppliesNothing) {
  const MetaCopy published = Published();
  const std::vector<std::byte> before = RecordsOf(ViewOf(published));
  const auto expect = [&](const char* field, auto damage) {
    const MetaCopy copy(published.bytes());
    damage(copy);
    const Result<bool> replayed = CommitLog::Replay(ViewOf(copy));
    ASSERT_FALSE(replayed) << field;
    EXPECT_EQ(replayed.error().code, Code::kCorrupt);
    EXPECT_THAT(replayed.error().message, HasSubstr(field));
    EXPECT_EQ(RecordsOf(ViewOf(copy)), before) << field;
  };
  const auto sealed = [&](auto damage) {
    return [this, damage](const MetaCopy& copy) {
      damage(copy);
      Seal(copy);
    };
  };
  expect("number", [&](const MetaCopy& copy) { ++HeaderOf(copy).number; });
  expect("body_bytes", [&](const MetaCopy& copy) { HeaderOf(copy).body_bytes = ~0u; });
  expect("reserved", [&](const MetaCopy& copy) { HeaderOf(copy).reserved = 1; });
  expect("crc", [&](const MetaCopy& copy) { ++HeaderOf(copy).crc; });
  expect("crc", [&](const MetaCopy& copy) { FirstEntryOf(copy).offset += 8; });
  expect("after body_bytes", sealed([&](const MetaCopy& copy) { ++HeaderOf(copy).entry_count; }));
  expect("entries end before", sealed([&](const MetaCopy& copy) { --HeaderOf(copy).entry_count; }));
  expect("payload_bytes",
         sealed([&](const MetaCopy& copy) { FirstEntryOf(copy).payload_bytes = ~0u; }));
  expect("entry 0 reserved",
         sealed([&](const MetaCopy& copy) { FirstEntryOf(copy).reserved = 1; }));
  for (const std::uint64_t offset :
       {std::uint64_t{0}, meta_.offsets().sequences - 8, meta_.offsets().lists,
        meta_.offsets().sequences + 4, ~std::uint64_t{7}}) {
    expect("entry 0 offset",
           sealed([&](const MetaCopy& copy) { FirstEntryOf(copy).offset = offset; }));
  }
}

}  // namespace
}  // namespace kvd
