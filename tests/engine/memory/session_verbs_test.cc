// Sessions in `meta`. Tests that a request is recorded in the commit that applies it: after a kill
// at any moment of the commit, a later process finds both the record of the request and its effect,
// or neither.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>

#include "engine/memory/commit_log.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/rewrite_all.h"

namespace kvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr SessionId kSession = kOwner.session;

SessionEntry MakeSession(SessionId id) {
  SessionEntry session{.id = id, .owner = OwnerId{1000}};
  session.note.fill(std::byte{2});
  return session;
}

MemoryOptions Options() {
  MemoryOptions options = SmallOptions(256);
  options.session_capacity = 2;
  return options;
}

class SessionVerbsTest : public testing::Test {
 protected:
  SessionVerbsTest() : memory_(MakeMemory(Options())) {
    EXPECT_TRUE(memory_->sessions().Open(MakeSession(kSession)));
  }

  RequestTag Next() {
    return {.session = kSession, .request = static_cast<RequestId>(++request_), .kind = 3};
  }
  SequenceHandle Filled(std::size_t cells) {
    const SequenceHandle handle = *memory_->sequences().Create(kOwner);
    EXPECT_TRUE(AppendTokens(*memory_, handle, 10, cells));
    return handle;
  }
  Status Append(SequenceHandle handle, std::size_t count, const RequestTag& applied) {
    const std::vector<TokenId> tokens(count, 5);
    const AppendRequest request{.handle = handle,
                                .pos = memory_->sequences().Query(handle)->next_pos,
                                .tokens = tokens,
                                .applied = applied};
    StepPlan plan;
    KVD_CHECK_OK(memory_->steps().Reserve({&request, 1}, plan));
    Status status = memory_->steps().Commit(plan, 0);
    memory_->steps().EndStep(plan);
    return status;
  }

  // The state that a later process would find: the bytes of all records before the session records,
  // and whether the request is recorded.
  struct Seen {
    std::vector<std::byte> records;
    bool is_applied = false;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  Seen Look(RequestId request) {
    const MetaCopy copy(memory_->meta_bytes());
    const auto tables = RebuildTables(copy.bytes());
    EXPECT_TRUE(tables) << tables.error().message;
    const auto checked = ValidateHeader(copy.bytes());
    const MetaView meta(copy.bytes().data(), checked->offsets(), checked->geometry());
    EXPECT_TRUE(CommitLog::Replay(meta));
    Seen seen;
    const auto records = meta.bytes().subspan(meta.offsets().sequences,
                                              meta.offsets().sessions - meta.offsets().sequences);
    seen.records.assign(records.begin(), records.end());
    for (const layout::AppliedRecord& applied : meta.sessions()[0].applied) {
      seen.is_applied = seen.is_applied || applied.request == static_cast<std::uint64_t>(request);
    }
    return seen;
  }
  // Calls the verb and expects that, at every moment of its commits, a later process would find
  // both the change and the record of the request, or neither. Returns the recorded reply.
  // `changes`: the verb changes records other than those of sessions.
  AppliedReply ExpectTogether(const std::function<void(const RequestTag&)>& verb,
                              bool changes = true) {
    const RequestTag applied = Next();
    const Seen before = Look(applied.request);
    std::vector<Seen> moments;
    memory_->commit_log_for_test().set_probe_for_test(
        [&](CommitLog::Moment) { moments.push_back(Look(applied.request)); });
    verb(applied);
    memory_->commit_log_for_test().set_probe_for_test({});
    const Seen after = Look(applied.request);
    EXPECT_FALSE(before.is_applied);
    EXPECT_TRUE(after.is_applied);
    EXPECT_EQ(after.records != before.records, changes);
    EXPECT_GE(moments.size(), 4u);
    for (const Seen& moment : moments) EXPECT_TRUE(moment == before || moment == after);
    const auto reply = memory_->sessions().FindApplied(kSession, applied.request);
    EXPECT_TRUE(reply) << reply.error().message;
    return reply.value_or(AppliedReply{});
  }

  std::unique_ptr<Memory> memory_;
  std::uint64_t request_ = 100;
};

TEST_F(SessionVerbsTest, EveryVerbIsRecordedTogetherWithItsChange) {
  SequenceHandle made = SequenceHandle::kNone;
  AppliedReply reply = ExpectTogether(
      [&](const RequestTag& applied) { made = *memory_->sequences().Create(kOwner, applied); });
  EXPECT_EQ(reply.sequence, made);
  EXPECT_EQ(reply.created, 1u);
  EXPECT_EQ(reply.kind, 3u);

  ASSERT_TRUE(AppendTokens(*memory_, made, 10, 40));
  std::array<SequenceHandle, 3> forks;
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().Fork(made, kOwner, forks, 33, applied));
  });
  EXPECT_EQ(reply.sequence, forks[0]);
  EXPECT_EQ(reply.created, 3u);
  EXPECT_EQ(reply.cells, 33u);
  EXPECT_THAT(memory_->sessions().CreatedBy(kSession, static_cast<RequestId>(request_)),
              ElementsAre(forks[0], forks[1], forks[2]));

  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->sequences().RemoveRange(made, {Pos{30}, kPosEnd}, applied), 10u);
  });
  EXPECT_EQ(reply.cells, 10u);
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->sequences().RemoveRange(made, {Pos{3}, Pos{5}}, applied), 2u);
  });
  EXPECT_EQ(reply.cells, 2u);
  ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().AddPositions(made, {Pos{20}, kPosEnd}, 7, applied));
  });
  ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().AddPositions(made, {}, 9, applied));
  });
  ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().Clear(forks[2], applied));
  });
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->sequences().CopyRange(forks[0], forks[2], {Pos{4}, Pos{9}}, applied), 5u);
  });
  EXPECT_EQ(reply.sequence, forks[2]);
  EXPECT_EQ(reply.cells, 5u);
  reply = ExpectTogether([&](const RequestTag& applied) {
    made = *memory_->snapshots().Publish(forks[0], kOwner, "name", false, false, applied);
  });
  EXPECT_EQ(reply.sequence, made);
  EXPECT_EQ(reply.cells, 33u);
  ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->snapshots().Unpublish("name", kOwner.id, applied));
  });
  ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().Drop(forks[1], applied));
  });
  ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().Keep(forks[0], kSession, applied));
  });
}

TEST_F(SessionVerbsTest, RetainingAndPinningAreRecordedTogetherWithTheirChange) {
  const SequenceHandle whole = Filled(40);
  AppliedReply reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().SetOwner(whole, kOwner, layout::kSequencePinned, 0, applied));
  });
  EXPECT_EQ(reply.sequence, whole);
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->prefixes().Retain(whole, applied), true);
  });
  EXPECT_EQ(reply.sequence, whole);
  // A second Retain of a retained sequence.
  reply = ExpectTogether(
      [&](const RequestTag& applied) {
        EXPECT_EQ(memory_->prefixes().Retain(whole, applied), true);
      },
      /*changes=*/false);
  EXPECT_EQ(reply.sequence, whole);
  // Retain cuts the sequence to its pristine cells.
  const SequenceHandle edited = *memory_->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, edited, 50, 40));
  ASSERT_EQ(memory_->sequences().RemoveRange(edited, {Pos{30}, Pos{31}}), 1u);
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->prefixes().Retain(edited, applied), true);
  });
  EXPECT_EQ(reply.sequence, edited);
  EXPECT_EQ(memory_->sequences().Query(edited)->cell_count, 30u);
  const SequenceHandle brief = Filled(3);
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->prefixes().Retain(brief, applied), false);
  });
  EXPECT_EQ(reply.sequence, SequenceHandle::kNone);
  reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().DropAll(std::array{whole, edited}, applied));
  });
  EXPECT_EQ(reply.cells, 2u);
  reply = ExpectTogether(
      [&](const RequestTag& applied) { EXPECT_TRUE(memory_->sequences().DropAll({}, applied)); },
      /*changes=*/false);
  EXPECT_EQ(reply.cells, 0u);
}

TEST_F(SessionVerbsTest, ChangesOfFilesAreRecordedAtTheirBeginAndEnd) {
  RequestTag request;
  AppliedReply reply = ExpectTogether(
      [&](const RequestTag& applied) {
        request = applied;
        EXPECT_TRUE(memory_->sessions().Remember(applied, Sessions::Stage::kBegun, 0));
      },
      /*changes=*/false);
  EXPECT_FALSE(reply.has_ended);
  ASSERT_TRUE(memory_->sequences().Create(kOwner, Next()));
  ASSERT_TRUE(memory_->sessions().Remember(request, Sessions::Stage::kEnded, 99));
  reply = *memory_->sessions().FindApplied(kSession, request.request);
  EXPECT_TRUE(reply.has_ended);
  EXPECT_EQ(reply.cells, 99u);
  // The entry that records the end of a request has replaced the entry that recorded its beginning,
  // so two entries are in use.
  const MetaCopy copy(memory_->meta_bytes());
  const auto checked = ValidateHeader(copy.bytes());
  const MetaView meta(copy.bytes().data(), checked->offsets(), checked->geometry());
  EXPECT_EQ(std::ranges::count_if(meta.sessions()[0].applied,
                                  [](const auto& applied) { return applied.request != 0; }),
            2);
  // A request without a session, or of a session that is not stored, is not recorded.
  EXPECT_TRUE(memory_->sessions().Remember({}, Sessions::Stage::kBegun, 0));
  request.session = SessionId{8};
  EXPECT_TRUE(memory_->sessions().Remember(request, Sessions::Stage::kBegun, 0));
  EXPECT_EQ(memory_->sessions().FindApplied(SessionId{8}, request.request).error().code,
            Code::kNotFound);
}

TEST_F(SessionVerbsTest, DivisionsAreRecordedTogetherWithTheirChange) {
  struct NoRotation final : CellRotator {
    Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                      Pos) override {
      return {};
    }
  } rotator;
  const SequenceHandle handle = *memory_->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, handle, 10, 1));
  ASSERT_TRUE(memory_->sequences().AddPositions(handle, {}, 8));
  const AppliedReply reply = ExpectTogether([&](const RequestTag& applied) {
    EXPECT_EQ(DividePositions(*memory_, handle, {}, 2, rotator, applied), 1u);
  });
  EXPECT_EQ(reply.cells, 1u);
  ExpectTogether(
      [&](const RequestTag& applied) {
        EXPECT_EQ(DividePositions(*memory_, handle, {}, 1, rotator, applied), 0u);
      },
      /*changes=*/false);
}

TEST_F(SessionVerbsTest, RequestsThatChangeNothingAreRecorded) {
  const SequenceHandle handle = Filled(5);
  const SequenceHandle other = *memory_->sequences().Create(kOwner);
  const auto expect = [&](const std::function<void(const RequestTag&)>& verb) {
    ExpectTogether(verb, /*changes=*/false);
  };
  expect([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->sequences().RemoveRange(handle, {Pos{50}, kPosEnd}, applied), 0u);
  });
  expect([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().AddPositions(handle, {}, 0, applied));
  });
  expect([&](const RequestTag& applied) {
    EXPECT_EQ(memory_->sequences().CopyRange(other, handle, {}, applied), 0u);
  });
  ASSERT_TRUE(memory_->sequences().Drop(other));
  expect([&](const RequestTag& applied) {
    EXPECT_TRUE(memory_->sequences().Keep(handle, kSession, applied));
  });
}

TEST_F(SessionVerbsTest, UnfinishedRequestsMarkOnlyTheSequencesThatTheyCreate) {
  RequestTag part = Next();
  part.completes = false;
  const SequenceHandle made = *memory_->sequences().Create(kOwner, part);
  EXPECT_EQ(memory_->sessions().FindApplied(kSession, part.request).error().code, Code::kNotFound);
  EXPECT_THAT(memory_->sessions().CreatedBy(kSession, part.request), ElementsAre(made));
  EXPECT_THAT(memory_->sessions().CreatedBy(SessionId{8}, part.request), ElementsAre());
  EXPECT_EQ(memory_->sessions().LastRequest(kSession), part.request);
}

TEST_F(SessionVerbsTest, TheLowestRequestsLeaveTheWindow) {
  const SequenceHandle handle = Filled(1);
  const std::uint64_t first = request_ + 1;
  for (std::uint32_t i = 0; i < layout::kAppliedMax + 3; ++i) {
    ASSERT_TRUE(memory_->sequences().AddPositions(handle, {}, 1, Next()));
  }
  const auto code = [&](std::uint64_t request) {
    const auto found = memory_->sessions().FindApplied(kSession, static_cast<RequestId>(request));
    return found ? Code::kOk : found.error().code;
  };
  EXPECT_EQ(code(first + 2), Code::kConflict);
  EXPECT_EQ(code(first + 3), Code::kOk);
  EXPECT_EQ(code(request_), Code::kOk);
  EXPECT_EQ(code(request_ + 1), Code::kNotFound);
  EXPECT_EQ(memory_->sessions().LastRequest(kSession), static_cast<RequestId>(request_));
}

TEST_F(SessionVerbsTest, StepsMarkTheirRequest) {
  const SequenceHandle handle = Filled(4);
  EXPECT_EQ(memory_->sequences().Query(handle)->request, RequestId{});
  const RequestTag computing = Next();
  ASSERT_TRUE(Append(handle, 3, computing));
  ASSERT_TRUE(Append(handle, 2, computing));
  SequenceInfo info = *memory_->sequences().Query(handle);
  EXPECT_EQ(info.request, computing.request);
  EXPECT_EQ(info.request_session, kSession);
  EXPECT_EQ(info.request_first_cell, 4u);
  // A removal without a request tag keeps request_first_cell.
  ASSERT_EQ(memory_->sequences().RemoveRange(handle, {Pos{8}, kPosEnd}), 1u);
  EXPECT_EQ(memory_->sequences().Query(handle)->request_first_cell, 4u);
  ASSERT_EQ(memory_->sequences().RemoveRange(handle, {Pos{7}, kPosEnd}, Next()), 1u);
  info = *memory_->sequences().Query(handle);
  EXPECT_EQ(info.request, computing.request);
  EXPECT_EQ(info.request_first_cell, std::nullopt);
  ASSERT_TRUE(Append(handle, 1, computing));
  EXPECT_EQ(memory_->sequences().Query(handle)->request_first_cell, std::nullopt);
  const RequestTag next = Next();
  ASSERT_TRUE(Append(handle, 1, next));
  EXPECT_EQ(memory_->sequences().Query(handle)->request_first_cell, 8u);
  // The removal includes the first cell of the request, so request_first_cell is cleared.
  ASSERT_EQ(memory_->sequences().RemoveRange(handle, {Pos{2}, kPosEnd}), 7u);
  EXPECT_EQ(memory_->sequences().Query(handle)->request_first_cell, std::nullopt);
  const auto tables = RebuildTables(memory_->meta_bytes());
  ASSERT_TRUE(tables) << tables.error().message;
  ASSERT_TRUE(
      memory_->sequences().SetOwner(handle, {.id = OwnerId{1000}}, layout::kSequenceRetained, 0));
  EXPECT_EQ(memory_->sequences().Query(handle)->request, RequestId{});
}

TEST_F(SessionVerbsTest, SessionsAreAddedAndRemoved) {
  EXPECT_EQ(memory_->sessions().Open(MakeSession(kSession)).error().code, Code::kExists);
  EXPECT_EQ(memory_->sessions().Open(MakeSession(SessionId::kNone)).error().code,
            Code::kInvalidArgument);
  ASSERT_TRUE(memory_->sessions().Open(MakeSession(SessionId{9})));
  const Status full = memory_->sessions().Open(MakeSession(SessionId{10}));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kNoSpace);
  EXPECT_THAT(full.error().message, HasSubstr("2 records"));
  const auto stored = memory_->sessions().List();
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[1].id, SessionId{9});
  EXPECT_EQ(stored[1].owner, OwnerId{1000});
  EXPECT_EQ(stored[1].note, MakeSession(SessionId{9}).note);
  SessionNote note{};
  note.back() = std::byte{5};
  ASSERT_TRUE(memory_->sessions().SetNote(SessionId{9}, note));
  EXPECT_EQ(memory_->sessions().List()[1].note, note);
  EXPECT_EQ(memory_->sessions().List()[0].note, stored[0].note);
  EXPECT_EQ(memory_->sessions().SetNote(SessionId{8}, note).error().code, Code::kNotFound);
  EXPECT_EQ(memory_->sessions().Last(), SessionId{9});
  EXPECT_EQ(*RebuildTables(memory_->meta_bytes()), memory_->derived());
  ASSERT_TRUE(memory_->sessions().Close(SessionId{9}));
  EXPECT_EQ(memory_->sessions().Close(SessionId{9}).error().code, Code::kNotFound);
  EXPECT_EQ(*RebuildTables(memory_->meta_bytes()), memory_->derived());
  ASSERT_TRUE(memory_->sessions().Open(MakeSession(SessionId{11})));
  // Requests of a session that is not stored are applied but not recorded.
  ASSERT_TRUE(memory_->sessions().Close(kSession));
  const RequestTag applied = Next();
  ASSERT_TRUE(memory_->sequences().Create(kOwner, applied));
  EXPECT_EQ(memory_->sessions().FindApplied(kSession, applied.request).error().code,
            Code::kNotFound);
}

TEST_F(SessionVerbsTest, DamagedSessionsAreNamed) {
  ASSERT_TRUE(memory_->sequences().Create(kOwner, Next()));
  const auto expect = [&](const char* named, const std::function<void(MetaView)>& damage) {
    const MetaCopy copy(memory_->meta_bytes());
    const auto checked = ValidateHeader(copy.bytes());
    damage(MetaView(copy.bytes().data(), checked->offsets(), checked->geometry()));
    const auto tables = RebuildTables(copy.bytes());
    ASSERT_FALSE(tables) << named;
    EXPECT_EQ(tables.error().code, Code::kCorrupt);
    EXPECT_THAT(tables.error().message, HasSubstr(named));
  };
  expect("session 1: the record is free but not zero",
         [](MetaView meta) { meta.sessions()[1].owner = 1; });
  expect("state", [](MetaView meta) { meta.sessions()[0].applied[0].state = 2; });
  expect("applied", [](MetaView meta) { meta.sessions()[0].applied[9].cells = 1; });
  expect("created", [](MetaView meta) { meta.sessions()[0].applied[0].created = 1025; });
  expect("the id of another session", [](MetaView meta) { meta.sessions()[1].session = 7; });
  expect("request_first_cell", [](MetaView meta) { meta.sequences()[0].request_first_cell = 1; });
  expect("request_first_cell", [](MetaView meta) { meta.sequences()[0].request_session = 1; });
  expect("request_first_cell", [](MetaView meta) {
    meta.sequences()[0].request = meta.sequences()[0].request_session = 1;
    meta.sequences()[0].request_first_cell = 1;
  });
}

}  // namespace
}  // namespace kvd
