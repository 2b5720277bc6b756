// Tests a memory that is opened with another size: held sequences stay with their bytes, retained
// ones are evicted as needed, what does not fit is refused, and a start that is killed or fails at
// any step leaves the old state or the new one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "base/text.h"
#include "engine/memory/memory_home.h"
#include "engine/memory/resize.h"
#include "tests/crash/operations.h"
#include "tests/crash/recovered_state.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using test::MemoryKind;
using testing::HasSubstr;

// What a memory holds: the text of each sequence by "index generation", and the other lines.
struct Held {
  std::map<std::string, std::string> sequences;
  std::string others;
  friend bool operator==(const Held&, const Held&) = default;
};

class ResizeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvd-resize-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Use("state");
  }
  void TearDown() override {
    memory_.reset();
    fs::remove_all(root_);
  }

  void Use(const char* folder) {
    memory_.reset();
    folder_ = root_ / folder;
    fs::create_directories(folder_);
    directory_ = UniqueFd(::open(folder_.c_str(), O_DIRECTORY | O_CLOEXEC));
  }
  // Closes the memory and makes `folder` a copy of its files, which is used from now on.
  void UseCopy(const fs::path& of, const char* folder) {
    memory_.reset();
    fs::remove_all(root_ / folder);
    fs::copy(of, root_ / folder);
    Use(folder);
  }

  Result<MemoryStart> TryOpen(const FileProbe& probe = {}) {
    memory_.reset();
    MemoryHome home{.directory = directory_.get(), .slab_bytes = 4 * 4096};
    home.may_raise_capacity = may_raise_capacity_;
    home.may_return = [this](const SessionEntry&) { return clients_return_; };
    home.probe = probe;
    Result<OpenedMemory> opened = OpenMemory(home, *ComputeGeometry(options_), {}, {});
    if (!opened) return std::unexpected(opened.error());
    memory_ = std::move(opened->memory);
    return opened->start;
  }
  MemoryStart Open() {
    Result<MemoryStart> start = TryOpen();
    if (!start) throw std::runtime_error(start.error().message);
    return *std::move(start);
  }
  void SetCells(std::uint64_t cells) {
    for (GroupOptions& group : options_.groups) group.cells = cells;
  }

  // Writes the bytes of all cells and states that the memory holds, as RecoverState expects them.
  void FillBytes() {
    const MetaCopy copy(memory_->meta_bytes());
    const MemoryGeometry& geometry = memory_->geometry();
    const ConstMetaView meta(copy.bytes().data(), geometry.offsets, geometry.meta);
    for (const layout::SequenceRecord& record : meta.sequences()) {
      if ((record.flags & layout::kSequenceLive) == 0) continue;
      std::vector<std::uint64_t> sums = {test::kSumOfNothing};
      for (std::uint32_t group = 0; group < geometry.meta.group_count; ++group) {
        const ExtentView view{meta.entries(record.extents[group]),
                              CellCountOf(record, geometry.meta, group)};
        for (std::size_t at = 0; at < view.entries.size(); ++at) {
          const BlockRange range = view.RangeAt(at);
          for (std::uint32_t cell = range.first; cell < 0u + range.first + range.count; ++cell) {
            const layout::CellRecord& found = meta.cells(group, range.block)[cell];
            if (group == 0) sums.push_back(test::AddToSum(sums.back(), found.token));
            *test::CellBytes(*memory_, group, range.block, cell, true) =
                test::CellTag(found.token, found.stored_pos);
            *test::CellBytes(*memory_, group, range.block, cell, false) =
                test::CellTag(found.token, 0);
          }
        }
      }
      const auto write = [](std::byte* bytes, std::uint64_t sum) {
        std::memcpy(bytes, &sum, sizeof sum);
      };
      if (record.state_slot != layout::kNoSlot) {
        write(memory_->StateBytes(record.state_slot), sums[record.cell_count]);
      }
      for (const layout::Checkpoint& checkpoint : meta.checkpoints(record.checkpoints)) {
        write(memory_->StateBytes(checkpoint.state_slot), sums[checkpoint.cell_count]);
      }
      if (record.logits_slot != layout::kNoSlot) {
        write(memory_->LogitsBytes(record.logits_slot), sums[record.cell_count]);
      }
    }
  }
  // Reads everything that the memory holds, and expects that all bytes are there.
  Held Read() {
    const MetaCopy copy(memory_->meta_bytes());
    const MemoryGeometry& geometry = memory_->geometry();
    const test::RecoveredState state = test::RecoverState(
        MetaView(copy.bytes().data(), geometry.offsets, geometry.meta), *memory_);
    EXPECT_EQ(state.problem, "");
    const Result<DerivedTables> rebuilt = RebuildTables(memory_->meta_bytes());
    EXPECT_TRUE(rebuilt && *rebuilt == memory_->derived());
    Held held;
    std::istringstream lines(state.text);
    std::string* text = &held.others;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("sequence ")) {
        std::istringstream words(line);
        std::string word, index, generation, flags;
        words >> word >> index >> generation >> flags;
        if (flags == "0") {
          text = &held.others;
          continue;
        }
        text = &held.sequences[Concat(index, " ", generation)];
      } else if (line.starts_with("snapshot ") || line.starts_with("session ")) {
        text = &held.others;
      }
      // Rows of logits are a cache, which a smaller memory may drop.
      if (line != "logits") *text += line + "\n";
    }
    return held;
  }
  // The held sequences: live, pinned or published.
  Held ReadHeld() {
    Held held = Read();
    for (const SequenceInfo& info : memory_->sequences().List()) {
      const auto index = IndexOf(info.handle);
      const bool is_held =
          (info.flags & (layout::kSequencePublished | layout::kSequencePinned)) != 0 ||
          (info.flags & layout::kSequenceRetained) == 0;
      if (!is_held) {
        held.sequences.erase(std::to_string(index) + " " +
                             std::to_string(GenerationOf(info.handle)));
      }
    }
    return held;
  }

  // Creates a sequence; tokens follow an encoded text if the memory has texts.
  SequenceHandle Create() {
    const Result<SequenceHandle> made = memory_->sequences().Create(kOwner);
    if (!made) return SequenceHandle::kNone;
    if (memory_->geometry().meta.cross_group != layout::kNoSlot) {
      (void)EncodeText(*memory_, *made, 12);
    }
    return *made;
  }
  SequenceHandle Make(TokenId first, std::size_t count) {
    const SequenceHandle made = Create();
    const Status appended = AppendTokens(*memory_, made, first, count);
    EXPECT_TRUE(appended) << appended.error().message;
    return made;
  }
  SequenceHandle MakeRetained(TokenId first, std::size_t count) {
    const SequenceHandle made = Make(first, count);
    // A sequence with an encoded text is dropped instead.
    const bool has_texts = memory_->geometry().meta.cross_group != layout::kNoSlot;
    EXPECT_EQ(*memory_->prefixes().Retain(made), !has_texts);
    return made;
  }
  void OpenSession() {
    ASSERT_TRUE(memory_->sessions().Open({.id = kOwner.session, .owner = kOwner.id}));
  }

  fs::path root_, folder_;
  UniqueFd directory_;
  MemoryOptions options_ = test::OptionsOf(MemoryKind::kAttention);
  bool may_raise_capacity_ = false;
  bool clients_return_ = true;
  std::unique_ptr<Memory> memory_;
};

TEST_F(ResizeTest, AGrowingPoolKeepsEverySequence) {
  for (const MemoryKind kind :
       {MemoryKind::kAttention, MemoryKind::kHybrid, MemoryKind::kEncoder}) {
    Use(std::to_string(static_cast<int>(kind)).c_str());
    options_ = test::OptionsOf(kind);
    options_.list_unit_count = 0;
    Open();
    OpenSession();
    const SequenceHandle live = Make(100, 200);
    MakeRetained(900, 50);
    ASSERT_TRUE(memory_->snapshots().Publish(live, kOwner, "snap", true, false));
    FillBytes();
    const Held before = Read();
    SetCells(64 * 32);
    const MemoryStart start = Open();
    EXPECT_TRUE(start.is_warm) << start.why_cold;
    EXPECT_EQ(start.resized_from, 32u * 32);
    EXPECT_EQ(start.evicted, 0u);
    EXPECT_EQ(memory_->Usage().total_blocks, 64u);
    EXPECT_EQ(Read(), before);
    EXPECT_TRUE(AppendTokens(*memory_, live, 5, 600)) << "the new room can be used";
  }
}

TEST_F(ResizeTest, AShrinkingPoolMovesBlocksAndCutsTheFile) {
  options_.list_unit_count = 0;
  Open();
  OpenSession();
  const SequenceHandle first = Make(1, 10 * 32);
  const SequenceHandle second = Make(1000, 10 * 32);
  SequenceHandle fork{};
  ASSERT_TRUE(memory_->sequences().Fork(second, kOwner, {&fork, 1}, std::nullopt));
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{40}, Pos{45}}));
  ASSERT_TRUE(memory_->sequences().Drop(first));
  FillBytes();
  const Held before = Read();
  SetCells(12 * 32);
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(Read(), before);
  EXPECT_EQ(fs::file_size(folder_ / "pool"), memory_->geometry().pool.total);
  EXPECT_EQ(memory_->Usage().total_blocks, 12u);
  // The handles are those of before.
  EXPECT_EQ(memory_->sequences().Query(second)->cell_count, 320u);
}

TEST_F(ResizeTest, RetainedSequencesAreEvictedAsNeededAndNoMore) {
  options_.list_unit_count = 0;
  Open();
  OpenSession();
  const SequenceHandle old = MakeRetained(1, 8 * 32);
  const SequenceHandle newer = MakeRetained(2000, 8 * 32);
  const SequenceHandle live = Make(5000, 8 * 32);
  FillBytes();
  SetCells(20 * 32);
  const MemoryStart start = Open();
  EXPECT_TRUE(start.is_warm) << start.why_cold;
  EXPECT_EQ(start.evicted, 1u);
  EXPECT_FALSE(memory_->sequences().Query(old));
  EXPECT_TRUE(memory_->sequences().Query(newer));
  EXPECT_TRUE(memory_->sequences().Query(live));
  EXPECT_EQ(Read().sequences.size(), 2u);
}

TEST_F(ResizeTest, HeldSequencesThatDoNotFitAreRefusedWithTheNumbersAndNothingChanges) {
  options_.list_unit_count = 0;
  Open();
  OpenSession();
  const SequenceHandle live = Make(1, 8 * 32);
  ASSERT_TRUE(memory_->snapshots().Publish(Make(3000, 4 * 32), kOwner, "snap", true, false));
  const SequenceHandle pinned = Make(2000, 4 * 32);
  ASSERT_TRUE(memory_->sequences().SetOwner(pinned, kOwner, layout::kSequencePinned, 0));
  MakeRetained(7000, 4 * 32);
  FillBytes();
  const Held before = Read();
  SetCells(15 * 32);
  const Result<MemoryStart> start = TryOpen();
  ASSERT_FALSE(start);
  EXPECT_EQ(start.error().code, Code::kConflict);
  EXPECT_THAT(start.error().message, HasSubstr("memory of 1024 cells cannot have 480"));
  EXPECT_THAT(start.error().message, HasSubstr("15 blocks of 32 cells, but 16 are in use"));
  EXPECT_THAT(start.error().message, HasSubstr("2 live, 1 pinned and 1 published"));
  EXPECT_THAT(start.error().message, HasSubstr("--cold"));
  SetCells(32 * 32);
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(Read(), before);
  EXPECT_TRUE(memory_->sequences().Query(live));
}

TEST_F(ResizeTest, SequencesOfClientsThatHaveEndedGiveTheirRoom) {
  options_.list_unit_count = 0;
  Open();
  OpenSession();
  const SequenceHandle live = Make(1, 20 * 32);
  FillBytes();
  clients_return_ = false;
  SetCells(10 * 32);
  const MemoryStart start = Open();
  EXPECT_TRUE(start.is_warm);
  EXPECT_EQ(start.evicted, 1u);
  EXPECT_FALSE(memory_->sequences().Query(live));
}

TEST_F(ResizeTest, StateSlotsMoveAndAreRefusedWithTheNumbers) {
  options_ = test::OptionsOf(MemoryKind::kHybrid);
  options_.list_unit_count = 0;
  Open();
  OpenSession();
  const SequenceHandle dropped = Make(1, 40);
  const SequenceHandle kept = Make(100, 40);
  ASSERT_TRUE(*memory_->states().KeepCheckpoint(kept));
  ASSERT_TRUE(AppendTokens(*memory_, kept, 500, 5));
  ASSERT_TRUE(memory_->sequences().Drop(dropped));
  FillBytes();
  const Held before = Read();
  options_.state_slots = 2;
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(Read(), before);
  options_.state_slots = 1;
  const Result<MemoryStart> start = TryOpen();
  ASSERT_FALSE(start);
  EXPECT_THAT(start.error().message, HasSubstr("state slots"));
  options_.state_slots = 20;
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(Read(), before);
}

TEST_F(ResizeTest, RecordsOfSequencesAreKeptAndNewHandlesDifferFromOldOnes) {
  options_.list_unit_count = 0;
  Open();
  OpenSession();
  std::vector<SequenceHandle> handles;
  for (TokenId at = 0; at < 10; ++at) handles.push_back(Make(100 * at + 1, 5));
  options_.sequence_capacity = 4;
  const Result<MemoryStart> refused = TryOpen();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--max-sequences: 4 records, but 10"));
  may_raise_capacity_ = true;
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(memory_->Usage().sequence_capacity, 12u);
  for (std::size_t at = 4; at < 10; ++at) ASSERT_TRUE(memory_->sequences().Drop(handles[at]));
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(memory_->Usage().sequence_capacity, 4u);
  options_.sequence_capacity = 12;
  EXPECT_TRUE(Open().is_warm);
  for (std::size_t at = 0; at < 10; ++at) {
    EXPECT_EQ(memory_->sequences().Query(handles[at]).has_value(), at < 4);
  }
  for (int at = 0; at < 8; ++at) {
    const SequenceHandle made = *memory_->sequences().Create(kOwner);
    EXPECT_EQ(std::ranges::find(handles, made), handles.end()) << "a handle names two sequences";
  }
}

TEST_F(ResizeTest, ALongerPoolThanItsMetaIsCut) {
  Open();
  OpenSession();
  Make(1, 100);
  FillBytes();
  const Held before = Read();
  memory_.reset();
  fs::resize_file(folder_ / "pool", 100 << 20);
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(Read(), before);
  EXPECT_EQ(fs::file_size(folder_ / "pool"), memory_->geometry().pool.total);
}

// ---- every step fails or is the last one

class ResizeStepsTest : public ResizeTest {
 protected:
  // A memory with forks, edits, holes between the blocks, a snapshot, and retained sequences.
  void MakeMemory(MemoryKind kind) {
    options_ = test::OptionsOf(kind);
    options_.list_unit_count = 0;
    Open();
    OpenSession();
    const SequenceHandle dropped = Make(1, 3 * 32);
    const SequenceHandle base = Make(100, 70);
    SequenceHandle fork{};
    ASSERT_TRUE(memory_->sequences().Fork(base, kOwner, {&fork, 1}, std::nullopt));
    ASSERT_TRUE(AppendTokens(*memory_, fork, 500, 60));
    if (kind == MemoryKind::kHybrid) {
      ASSERT_TRUE(*memory_->states().KeepCheckpoint(fork));
    }
    ASSERT_TRUE(memory_->snapshots().Publish(base, kOwner, "snap", true, false));
    MakeRetained(1000, 2 * 32);
    ASSERT_TRUE(memory_->sequences().Drop(dropped));
    FillBytes();
    memory_.reset();
  }
  void Shrink() {
    for (GroupOptions& group : options_.groups)
      group.cells = std::min<std::uint64_t>(group.cells, 7 * 32);
  }
};

TEST_F(ResizeStepsTest, KilledAtEachStepTheStateIsTheOldOneOrTheNewOne) {
  for (const MemoryKind kind :
       {MemoryKind::kAttention, MemoryKind::kHybrid, MemoryKind::kEncoder}) {
    for (const bool shrinks : {true, false}) {
      Use("original");
      fs::remove_all(folder_);
      Use("original");
      ASSERT_NO_FATAL_FAILURE(MakeMemory(kind));
      const MemoryOptions old_options = options_;
      Open();
      const Held before = ReadHeld();
      memory_.reset();
      MemoryOptions new_options = options_;
      if (shrinks) {
        Shrink();
        new_options = options_;
      } else {
        SetCells(80 * 32);
        new_options = options_;
      }
      bool is_done = false;
      for (int last_step = 0; !is_done; ++last_step) {
        SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " shrinks "
                                        << shrinks << " step " << last_step);
        ASSERT_LT(last_step, 1000);
        UseCopy(root_ / "original", "killed");
        const pid_t child = ::fork();
        if (child == 0) {
          int step = 0;
          options_ = new_options;
          const Result<MemoryStart> start = TryOpen([&](const char*) -> Status {
            if (step++ == last_step) ::_exit(7);
            return {};
          });
          ::_exit(start ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1) << status;
        is_done = WEXITSTATUS(status) == 0;
        for (const MemoryOptions& options : {new_options, old_options}) {
          UseCopy(root_ / "killed", "restarted");
          options_ = options;
          const MemoryStart start = Open();
          EXPECT_TRUE(start.is_warm) << start.why_cold;
          EXPECT_EQ(ReadHeld(), before);
          EXPECT_EQ(memory_->Usage().total_blocks, options.groups[0].cells / 32);
          EXPECT_FALSE(fs::exists(folder_ / "meta.new"));
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(ResizeStepsTest, AStepThatFailsRefusesTheStartAndKeepsTheState) {
  for (const MemoryKind kind :
       {MemoryKind::kAttention, MemoryKind::kHybrid, MemoryKind::kEncoder}) {
    Use("original");
    fs::remove_all(folder_);
    Use("original");
    ASSERT_NO_FATAL_FAILURE(MakeMemory(kind));
    const MemoryOptions old_options = options_;
    Open();
    const Held before = ReadHeld();
    memory_.reset();
    Shrink();
    const MemoryOptions new_options = options_;
    bool is_done = false;
    for (int failing = 0; !is_done; ++failing) {
      SCOPED_TRACE(failing);
      for (const Code code : {Code::kNoSpace, Code::kIo}) {
        for (const MemoryOptions& options : {new_options, old_options}) {
          UseCopy(root_ / "original", "failed");
          options_ = new_options;
          int step = 0;
          const Result<MemoryStart> start = TryOpen([&](const char* what) -> Status {
            if (step++ != failing) return {};
            return Fail(code, "the test's fault: ", what);
          });
          is_done = step <= failing;
          if (is_done) {
            EXPECT_TRUE(start);
          }
          options_ = options;
          const MemoryStart again = Open();
          EXPECT_TRUE(again.is_warm) << again.why_cold;
          EXPECT_EQ(ReadHeld(), before);
        }
      }
      if (HasFailure()) return;
    }
  }
}

// Random memories and sizes: held sequences stay with all their bytes, or the start is refused and
// the state is unchanged.
TEST_F(ResizeStepsTest, RandomMemoriesOfRandomSizesLoseNothing) {
  std::mt19937_64 random(test::Seed());
  const auto in = [&](std::uint64_t least, std::uint64_t most) {
    return least + random() % (most - least + 1);
  };
  int resized = 0, refused = 0;
  for (int round = 0; round < test::Scaled(60, 10); ++round) {
    SCOPED_TRACE(round);
    const auto kind = static_cast<MemoryKind>(random() % test::kMemoryKinds);
    Use("state");
    fs::remove_all(folder_);
    Use("state");
    options_ = test::OptionsOf(kind);
    options_.list_unit_count = 0;
    Open();
    OpenSession();
    for (int change = 0; change < 40; ++change) {
      const std::vector<SequenceInfo> all = memory_->sequences().List();
      const SequenceHandle some =
          all.empty() ? SequenceHandle::kNone : all[random() % all.size()].handle;
      switch (random() % 8) {
        case 0:
        case 1: {
          (void)AppendTokens(*memory_, Create(), static_cast<TokenId>(in(1, 5000)), in(1, 150));
          break;
        }
        case 2: {
          SequenceHandle fork{};
          (void)memory_->sequences().Fork(some, kOwner, {&fork, 1}, std::nullopt);
          break;
        }
        case 3:
          (void)AppendTokens(*memory_, some, static_cast<TokenId>(in(1, 5000)), in(1, 60));
          break;
        case 4:
          if (random() % 2 == 0) (void)memory_->sequences().Drop(some);
          break;
        case 5: (void)memory_->prefixes().Retain(some); break;
        case 6:
          (void)memory_->sequences().SetOwner(some, kOwner, layout::kSequencePinned, 0);
          break;
        default:
          if (random() % 2 == 0) {
            (void)memory_->snapshots().Publish(some, kOwner, "snap" + std::to_string(in(0, 2)),
                                               true, false);
          } else {
            const auto begin = static_cast<std::int32_t>(in(0, 60));
            (void)memory_->sequences().RemoveRange(some, {Pos{begin}, Pos{begin + 9}});
          }
      }
    }
    FillBytes();
    for (int size = 0; size < 3; ++size) {
      Held before = ReadHeld();
      const MemoryOptions old_options = options_;
      for (GroupOptions& group : options_.groups) group.cells = 32 * in(3, 60);
      if (kind == MemoryKind::kHybrid) options_.state_slots = static_cast<std::uint32_t>(in(4, 24));
      options_.sequence_capacity = static_cast<std::uint32_t>(in(8, 20));
      const Result<MemoryStart> start = TryOpen();
      if (start) {
        ++resized;
        EXPECT_TRUE(start->is_warm) << start->why_cold;
      } else {
        ++refused;
        EXPECT_EQ(start.error().code, Code::kConflict) << start.error().message;
        options_ = old_options;
        EXPECT_TRUE(Open().is_warm);
      }
      EXPECT_EQ(ReadHeld(), before);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(resized, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace kvd
