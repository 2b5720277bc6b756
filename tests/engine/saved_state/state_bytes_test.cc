// Tests saved states in memory: such a state has the same bytes as a file and is read like a file,
// and its count of pristine cells is accepted only if the state was written by this daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/saved_state/state_folder.h"
#include "tests/support/counting_work.h"
#include "tests/support/many_sections.h"
#include "tests/support/tiny_model.h"

namespace kvd::state_bytes_test {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::StateOfManySections;
using ::testing::HasSubstr;

class StateBytesTest : public testing::Test {
 protected:
  StateBytesTest() {
    ModelShape shape = test::TinyLlama();
    shape.architecture = Architecture::kLfm2;  // has both K and V rows and recurrent states
    engine_ = MakeEngine(shape, {.cells = 512, .checkpoint_every = 16, .threads = 1});
    sequence_ = *engine_->memory().sequences().Create({});
    (void)Feed(*engine_, sequence_, RandomTokens(3, 100, engine_->config().vocab_size), 40);
  }

  Result<std::vector<std::byte>> Written(const SaveProfile& profile, StateContent parts,
                                         WorkControl& work = Uncontrolled()) {
    KVD_TRY(const SequenceExport opened, SequenceExport::Open(*engine_, sequence_));
    const SaveItem item{.sequence = &opened};
    KVD_TRY(auto sections, PlanSections({&item, 1}, profile));
    std::vector<std::byte> bytes(kvd::StateBytes(sections, parts));
    KVD_CHECK_OK(
        WriteState(*engine_, {&item, 1}, profile, std::move(sections), parts, bytes, work));
    return bytes;
  }
  SequenceInfo Loaded(const std::vector<std::byte>& bytes, StateOrigin origin) {
    const auto reader = StateFileReader::FromBytes(bytes);
    EXPECT_TRUE(reader) << reader.error().message;
    const SequenceHandle handle = *engine_->memory().sequences().Create({});
    const auto loaded =
        LoadSequence(*engine_, *reader, 0, handle, 2, Uncontrolled(), {.origin = origin});
    EXPECT_TRUE(loaded) << loaded.error().message;
    return *engine_->memory().sequences().Query(handle);
  }

  std::unique_ptr<Engine> engine_;
  SequenceHandle sequence_{};
  test::StateFolder folder_;
};

TEST_F(StateBytesTest, StateBytesInMemoryEqualThoseOfAFile) {
  const SaveProfile profile{.packed = false};
  const auto bytes = Written(profile, StateContent::kAll);
  ASSERT_TRUE(bytes) << bytes.error().message;
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "same", profile));
  test::StateBytes file(folder_.Bytes("same"));
  state_file::FileHeader header;
  std::memcpy(&header, bytes->data(), sizeof header);
  file.header().saved_unix_ms = header.saved_unix_ms;
  file.SumUpHeader();
  const auto expected = std::as_bytes(std::span(file.bytes));
  EXPECT_TRUE(std::ranges::equal(*bytes, expected));
}

TEST_F(StateBytesTest, CellsLoadedFromAClientAreNotPristine) {
  const auto bytes = Written({.packed = false}, StateContent::kAll);
  ASSERT_TRUE(bytes);
  const SequenceInfo own = Loaded(*bytes, StateOrigin::kThisDaemon);
  const SequenceInfo foreign = Loaded(*bytes, StateOrigin::kClient);
  EXPECT_EQ(own.pristine_cells, 100u);
  EXPECT_EQ(foreign.pristine_cells, 0u);
  EXPECT_EQ(foreign.cell_count, 100u);
}

TEST_F(StateBytesTest, AnOutlineHasOnlyTheTableAndTheTokens) {
  const SaveProfile profile{.packed = false};
  const auto outline = Written(profile, StateContent::kOutline);
  const auto all = Written(profile, StateContent::kAll);
  ASSERT_TRUE(outline && all);
  EXPECT_LT(outline->size(), all->size() / 4);
  state_file::FileHeader sketch, whole;
  std::memcpy(&sketch, outline->data(), sizeof sketch);
  std::memcpy(&whole, all->data(), sizeof whole);
  EXPECT_EQ(sketch.file_bytes, all->size());
  EXPECT_EQ(sketch.section_count, whole.section_count);
  const auto read = StateFileReader::FromBytes(*outline);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("file_bytes"));
}

TEST_F(StateBytesTest, WithoutCheckpointsTheLastStateIsIncluded) {
  const auto few = Written({.packed = false, .with_checkpoints = false}, StateContent::kAll);
  ASSERT_TRUE(few);
  EXPECT_GT(Loaded(*Written({.packed = false}, StateContent::kAll), StateOrigin::kClient)
                .checkpoint_count,
            1u);
  const SequenceInfo loaded = Loaded(*few, StateOrigin::kClient);
  EXPECT_EQ(loaded.cell_count, 100u);
  EXPECT_EQ(loaded.checkpoint_count, 0u);
}

TEST_F(StateBytesTest, WritingChecksForACancelBeforeEachSection) {
  test::CountingWork work;
  ASSERT_TRUE(Written({.packed = false}, StateContent::kAll, work));
  EXPECT_GT(work.steps(), 10u);
  test::CountingWork cancelled(5);
  EXPECT_EQ(Written({.packed = false}, StateContent::kAll, cancelled).error().code,
            Code::kCancelled);
}

TEST_F(StateBytesTest, InvalidBytesAreRefused) {
  const auto message = [](std::span<const std::byte> bytes) {
    const auto read = StateFileReader::FromBytes(bytes);
    EXPECT_FALSE(read);
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(message({}), HasSubstr("length: 0 bytes"));
  const auto bytes = Written({.packed = false}, StateContent::kAll);
  ASSERT_TRUE(bytes);
  EXPECT_THAT(message(std::span(*bytes).first(191)), HasSubstr("length: 191"));
  EXPECT_THAT(message(std::span(*bytes).first(192)), HasSubstr("file_bytes"));
  EXPECT_THAT(message(std::span(*bytes).first(bytes->size() - 1)), HasSubstr("file_bytes"));
}

// A client may send a table of many sections without contents, so reading the table must take
// linear time.
TEST_F(StateBytesTest, ReadingATableTakesStepsLinearInItsSections) {
  const auto steps_of = [](std::uint32_t cells) {
    const std::vector<std::byte> state = StateOfManySections(cells);
    test::CountingWork work;
    const auto read = StateFileReader::FromBytes(state, work);
    EXPECT_TRUE(read) << read.error().message;
    return work.steps();
  };
  const std::uint64_t steps = steps_of(10'000);
  EXPECT_GT(steps, 50u);
  EXPECT_GT(steps_of(40'000), 3 * steps);
  EXPECT_LT(steps_of(40'000), 5 * steps);
  const std::vector<std::byte> state = StateOfManySections(10'000);
  for (const std::uint64_t at : {std::uint64_t{1}, steps / 2, steps - 1}) {
    test::CountingWork cancelled(at);
    EXPECT_EQ(StateFileReader::FromBytes(state, cancelled).error().code, Code::kCancelled) << at;
  }
}

}  // namespace
}  // namespace kvd::state_bytes_test
