// Tests a memory that attaches to the files of an earlier process: the memory either starts warm,
// with all committed state except for damaged sequences, or starts cold and reports the reason.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>

#include "base/crc32c.h"
#include "engine/memory/memory_home.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AttachTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvd-attach-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    directory_ = UniqueFd(::open(pattern.c_str(), O_DIRECTORY | O_CLOEXEC));
    options_ = SmallOptions(64 * 32);
    model_[0] = 42;
  }
  void TearDown() override {
    memory_.reset();
    fs::remove_all(root_);
  }

  MemoryHome Home() const {
    MemoryHome home{.directory = directory_.get(),
                    .checks_boot = checks_boot_,
                    .slab_bytes = 4 * 4096,
                    .numeric_form = form_,
                    .model_name = "tiny",
                    .starts_cold = cold_};
    return home;
  }
  MemoryStart Open() {
    memory_.reset();
    Result<OpenedMemory> opened = OpenMemory(Home(), *ComputeGeometry(options_), model_, limits_);
    if (!opened) throw std::runtime_error(opened.error().message);
    memory_ = std::move(opened->memory);
    ExpectPrefixIndex(*memory_);
    return opened->start;
  }
  // Makes three sequences: `first_` with 70 cells, `fork_`, a fork of `first_` with cells removed
  // and shifted, and `published_`, a snapshot of `first_`.
  void Fill() {
    first_ = *memory_->sequences().Create(kOwner);
    ASSERT_TRUE(AppendTokens(*memory_, first_, 100, 70));
    ASSERT_TRUE(memory_->sequences().Fork(first_, kOwner, {&fork_, 1}, std::nullopt));
    ASSERT_TRUE(memory_->sequences().RemoveRange(fork_, {Pos{10}, Pos{20}}));
    ASSERT_TRUE(memory_->sequences().AddPositions(fork_, {Pos{20}, kPosEnd}, -10));
    published_ = *memory_->snapshots().Publish(first_, kOwner, "snap", true, false);
    for (const SequenceHandle handle : {first_, fork_, published_}) {
      contents_.push_back(ContentsOf(*memory_, handle));
    }
  }
  // Closes the memory and then damages the bytes of its `meta` file.
  void Damage(const std::function<void(MetaView)>& damage) {
    memory_.reset();
    UniqueFd file(::openat(directory_.get(), "meta", O_RDWR | O_CLOEXEC));
    Mapping<kReadWrite> mapping = std::move(*Mapping<kReadWrite>::MapAll(file.get()));
    const ConstMetaView view = *ValidateHeader(mapping.bytes());
    damage(MetaView(mapping.data(), view.offsets(), view.geometry()));
  }
  void Restore(const std::vector<std::byte>& bytes) {
    UniqueFd file(::openat(directory_.get(), "meta", O_RDWR | O_CLOEXEC));
    Mapping<kReadWrite> mapping = std::move(*Mapping<kReadWrite>::MapAll(file.get()));
    std::copy(bytes.begin(), bytes.end(), mapping.bytes().begin());
  }
  void ExpectCold(const std::string& why) {
    const MemoryStart start = Open();
    EXPECT_FALSE(start.is_warm);
    EXPECT_THAT(start.why_cold, HasSubstr(why));
    EXPECT_TRUE(start.kept_aside.starts_with("meta.bad"));
    EXPECT_TRUE(fs::exists(root_ / start.kept_aside));
    EXPECT_TRUE(memory_->sequences().List().empty());
    EXPECT_EQ(memory_->Usage().reserved_bytes, 0u);
    // The new memory can be used, and the next start finds its sequences.
    const SequenceHandle made = *memory_->sequences().Create(kOwner);
    ASSERT_TRUE(AppendTokens(*memory_, made, 5, 3));
    EXPECT_TRUE(Open().is_warm);
    EXPECT_EQ(ContentsOf(*memory_, made).tokens, (std::vector<TokenId>{5, 6, 7}));
  }
  void ExpectColdAfter(const std::string& why, const std::function<void(MetaView)>& damage) {
    Open();
    Fill();
    Damage(damage);
    ExpectCold(why);
  }
  SequenceHistory HistoryOf(SequenceHandle handle) {
    Result<SequenceHistory> history = memory_->sequences().QueryHistory(handle);
    if (!history) throw std::runtime_error(history.error().message);
    return *history;
  }
  void ExpectSound() {
    const Result<DerivedTables> rebuilt = RebuildTables(memory_->meta_bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    EXPECT_TRUE(*rebuilt == memory_->derived());
  }

  fs::path root_;
  UniqueFd directory_;
  MemoryOptions options_;
  FingerprintBytes model_ = {};
  CellLimits limits_;
  bool checks_boot_ = false;
  bool cold_ = false;
  NumericForm form_ = NumericForm::kFree;
  std::unique_ptr<Memory> memory_;
  SequenceHandle first_{}, fork_{}, published_{};
  std::vector<Contents> contents_;
};

TEST_F(AttachTest, AnEmptyDirectoryStartsColdWithoutAReason) {
  const MemoryStart start = Open();
  EXPECT_FALSE(start.is_warm);
  EXPECT_EQ(start.why_cold, "");
  EXPECT_FALSE(fs::exists(root_ / "meta.bad"));
}

TEST_F(AttachTest, CommittedSequencesAreRestoredAndCanContinue) {
  Open();
  Fill();
  std::memset(memory_->BlockBytes(0, BlockId{1}), 0x5a, 64);
  const std::uint64_t reserved = memory_->Usage().reserved_bytes;
  const std::uint32_t free_blocks = memory_->Usage().free_blocks;
  const MemoryStart start = Open();
  EXPECT_TRUE(start.is_warm);
  EXPECT_EQ(start.sequences, 3u);
  EXPECT_EQ(start.snapshots, 1u);
  EXPECT_TRUE(start.lost.empty());
  ExpectSound();
  EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
  EXPECT_EQ(ContentsOf(*memory_, fork_), contents_[1]);
  EXPECT_EQ(ContentsOf(*memory_, memory_->snapshots().Find("snap", kOwner.id)->sequence),
            contents_[2]);
  EXPECT_EQ(memory_->sequences().Query(first_)->owner.session, SessionId{7});
  EXPECT_EQ(static_cast<int>(memory_->BlockBytes(0, BlockId{1})[63]), 0x5a);
  EXPECT_EQ(memory_->Usage().reserved_bytes, reserved);
  EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);

  ASSERT_TRUE(AppendTokens(*memory_, first_, 500, 40));
  ASSERT_TRUE(memory_->sequences().Drop(fork_));
  ASSERT_TRUE(memory_->snapshots().Unpublish("snap", kOwner.id));
  ExpectSound();
  ASSERT_TRUE(memory_->sequences().Drop(first_));
  EXPECT_EQ(memory_->Usage().free_blocks, memory_->Usage().total_blocks);
}

TEST_F(AttachTest, ParentsAndEditsAreRestored) {
  Open();
  Fill();
  const std::vector<SequenceEdit> edits = HistoryOf(fork_).edits;
  ASSERT_EQ(edits.size(), 2u);
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(HistoryOf(fork_).parent, first_);
  EXPECT_EQ(HistoryOf(fork_).parent_cells, 70u);
  EXPECT_EQ(HistoryOf(fork_).edits, edits);
  EXPECT_EQ(HistoryOf(published_).parent, first_);
  // A new edit is appended to the restored edits.
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork_, {Pos{3}, kPosEnd}));
  EXPECT_EQ(HistoryOf(fork_).edit_count, 3u);
  EXPECT_EQ(HistoryOf(fork_).edits[1], edits[1]);
  EXPECT_EQ(HistoryOf(fork_).edits[2].range.begin, Pos{3});
}

TEST_F(AttachTest, ADamagedHistoryDropsOnlyItsSequence) {
  Open();
  Fill();
  Damage([&](MetaView meta) { meta.history(IndexOf(fork_))[1].end = -5; });
  const MemoryStart start = Open();
  EXPECT_TRUE(start.is_warm);
  ASSERT_EQ(start.lost.size(), 1u);
  EXPECT_EQ(start.lost[0].handle, fork_);
  EXPECT_THAT(start.lost[0].reason, HasSubstr("edit 1 range"));
  EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
  EXPECT_EQ(ContentsOf(*memory_, published_), contents_[2]);
  ExpectSound();
}

TEST_F(AttachTest, BytesThatNoSequenceUsesAreReturnedToTheSystem) {
  Open();
  Fill();
  const std::uint64_t reserved = memory_->Usage().reserved_bytes;
  StepPlan plan;  // the reservation of a step that a kill interrupts
  const std::vector<TokenId> tokens(30 * 32, 1);
  const AppendRequest request{first_, memory_->sequences().Query(first_)->next_pos, tokens};
  ASSERT_TRUE(memory_->steps().Reserve({&request, 1}, plan));
  EXPECT_GT(memory_->Usage().reserved_bytes, reserved);
  Open();
  EXPECT_EQ(memory_->Usage().reserved_bytes, reserved);
  struct stat found{};
  ASSERT_EQ(::fstatat(directory_.get(), "pool", &found, 0), 0);
  // A file system on a disk may count up to 8192 bytes of its own metadata in st_blocks.
  EXPECT_LE(static_cast<std::uint64_t>(found.st_blocks) * 512, reserved + 8192);
  EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
}

TEST_F(AttachTest, APublishedRecordIsApplied) {
  Open();
  Fill();
  std::vector<std::byte> bytes;
  memory_->commit_log_for_test().set_probe_for_test([&](CommitLog::Moment moment) {
    if (moment != CommitLog::Moment::kPublished) return;
    bytes.assign(memory_->meta_bytes().begin(), memory_->meta_bytes().end());
  });
  ASSERT_TRUE(memory_->sequences().Drop(first_));
  Damage([&](MetaView meta) { std::copy(bytes.begin(), bytes.end(), meta.bytes().begin()); });
  EXPECT_TRUE(Open().is_warm);
  EXPECT_FALSE(memory_->sequences().Query(first_));
  EXPECT_EQ(ContentsOf(*memory_, fork_), contents_[1]);
  ExpectSound();
}

TEST_F(AttachTest, DamageOfCommonStructuresStartsColdWithTheReason) {
  ExpectColdAfter("magic", [](MetaView meta) { ++meta.header().magic; });
  ExpectColdAfter("version", [](MetaView meta) { ++meta.header().version; });
  ExpectColdAfter("header_crc", [](MetaView meta) { ++meta.header().total_bytes; });
  ExpectColdAfter("layout_signature", [](MetaView meta) {
    ++meta.header().layout_signature;
    meta.header().header_crc =
        Crc32c(0, meta.bytes().first(offsetof(layout::MetaHeader, header_crc)));
  });
  ExpectColdAfter("commit record", [](MetaView meta) { meta.header().commit_word.store(99); });
  ExpectColdAfter("sequence 3 flags", [](MetaView meta) { meta.sequences()[3].flags = 1u << 9; });
  ExpectColdAfter("sequence 1 generation",
                  [](MetaView meta) { meta.sequences()[1].generation = 0; });
  ExpectColdAfter("sequence 1 extents[0] first_unit",
                  [](MetaView meta) { meta.sequences()[1].extents[0].first_unit = 1u << 30; });
  ExpectColdAfter("overlaps another list", [](MetaView meta) {
    meta.sequences()[1].extents[0].first_unit = meta.sequences()[0].extents[0].first_unit;
  });
  ExpectColdAfter("snapshot 0 sequence",
                  [](MetaView meta) { meta.snapshots()[0].sequence = 1234; });
}

TEST_F(AttachTest, OnlyTheDamagedSequenceIsDropped) {
  const auto damages = std::to_array<std::function<void(MetaView)>>({
      [](MetaView meta) { ++meta.list(meta.sequences()[1].extents[0].first_unit)->delta; },
      [](MetaView meta) { ++meta.sequences()[1].extents[0].crc; },
      [](MetaView meta) { ++meta.sequences()[1].next_pos; },
      [](MetaView meta) { --meta.sequences()[1].cell_count; },
      [](MetaView meta) { meta.sequences()[1].sampler.seed = 1; },
  });
  for (const auto& damage : damages) {
    contents_.clear();
    fs::remove(root_ / "meta");
    Open();
    Fill();
    ASSERT_EQ(IndexOf(fork_), 1u);
    Damage(damage);
    const MemoryStart start = Open();
    EXPECT_TRUE(start.is_warm) << start.why_cold;
    ASSERT_EQ(start.lost.size(), 1u);
    EXPECT_EQ(start.lost[0].handle, fork_);
    EXPECT_THAT(start.lost[0].reason, HasSubstr("sequence 1"));
    EXPECT_EQ(memory_->sequences().Query(fork_).error().code, Code::kNotFound);
    EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
    EXPECT_TRUE(memory_->snapshots().Find("snap", kOwner.id));
    ExpectSound();
    // The drop is permanent: the next start loses no sequence, and the handle is not reused.
    EXPECT_TRUE(Open().lost.empty());
    EXPECT_NE(*memory_->sequences().Create(kOwner), fork_);
  }
}

TEST_F(AttachTest, ADamagedCellDropsEverySequenceThatRefersToIt) {
  Open();
  Fill();
  // cell 15 is in first_ and published_, but not in fork_
  Damage([](MetaView meta) { ++meta.cells(0, 0)[15].token; });
  const MemoryStart start = Open();
  ASSERT_EQ(start.lost.size(), 2u);
  EXPECT_EQ(start.lost[0].handle, first_);
  EXPECT_EQ(start.lost[0].snapshot, "");
  EXPECT_THAT(start.lost[0].reason, HasSubstr("cell 15 check"));
  EXPECT_EQ(start.lost[1].handle, published_);
  EXPECT_EQ(start.lost[1].snapshot, "snap");
  EXPECT_EQ(ContentsOf(*memory_, fork_), contents_[1]);
  EXPECT_FALSE(memory_->snapshots().Find("snap", kOwner.id));
  EXPECT_TRUE(memory_->snapshots().Publish(fork_, kOwner, "snap", true, false));
  ExpectSound();
}

// If the flag were accepted, the published sequence could be evicted, and its snapshot would name a
// sequence that does not exist.
TEST_F(AttachTest, APublishedSequenceThatIsRetainedOrPinnedIsDroppedWithItsSnapshot) {
  for (const std::uint32_t flag : {layout::kSequenceRetained, layout::kSequencePinned}) {
    Open();
    Fill();
    Damage([&](MetaView meta) { meta.sequences()[IndexOf(published_)].flags |= flag; });
    const MemoryStart start = Open();
    EXPECT_TRUE(start.is_warm) << start.why_cold;
    ASSERT_EQ(start.lost.size(), 1u);
    EXPECT_EQ(start.lost[0].snapshot, "snap");
    EXPECT_THAT(start.lost[0].reason, HasSubstr("flags: published, and retained or pinned"));
    EXPECT_FALSE(memory_->snapshots().Find("snap", kOwner.id));
    ExpectSound();
    ASSERT_TRUE(memory_->sequences().Drop(first_));
    ASSERT_TRUE(memory_->sequences().Drop(fork_));
    contents_.clear();
  }
}

TEST_F(AttachTest, TokensAndKeyRotationsUnknownToTheModelDropTheirSequences) {
  Open();
  Fill();
  limits_.vocab_size = 170;  // the sequences contain the tokens 100 to 169
  EXPECT_TRUE(Open().lost.empty());
  limits_.vocab_size = 169;
  const MemoryStart start = Open();
  EXPECT_EQ(start.lost.size(), 3u);
  EXPECT_THAT(start.lost[0].reason, HasSubstr("token: 169"));
}

TEST_F(AttachTest, OptionsThatWouldDiscardHeldSequencesAreRefusedWithTheNumbers) {
  Open();
  Fill();
  ASSERT_TRUE(memory_->sessions().Open({.id = SessionId{7}, .owner = OwnerId{1000}}));
  const auto expect_refused = [&](const std::string& why, const auto& change) {
    const MemoryOptions options = options_;
    const FingerprintBytes model = model_;
    const NumericForm form = form_;
    change();
    memory_.reset();
    const Result<OpenedMemory> opened =
        OpenMemory(Home(), *ComputeGeometry(options_), model_, limits_);
    ASSERT_FALSE(opened) << why;
    EXPECT_EQ(opened.error().code, Code::kConflict);
    EXPECT_THAT(opened.error().message, HasSubstr(why));
    EXPECT_THAT(opened.error().message,
                HasSubstr("2 live, 0 pinned and 1 published sequences with 200 tokens"));
    options_ = options;
    model_ = model;
    form_ = form;
    EXPECT_TRUE(Open().is_warm);
    EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
  };
  expect_refused("belongs to another model (tiny)", [&] { ++model_[31]; });
  expect_refused("cell types: K of f32 and V of f32; this daemon: K of f16 and V of f32",
                 [&] { options_.k_type = kernels::DataType::kF16; });
  expect_refused("--swa-full", [&] {
    options_.groups.push_back({.cells = 64, .layers = {{1, 2, 2}}, .window = 16});
  });
  expect_refused("another configuration",
                 [&] { options_.groups[0].layers.push_back({9, 64, 64}); });
  // The cells were computed without --deterministic.
  expect_refused("numeric_form", [&] { form_ = NumericForm::kFloat32; });
}

TEST_F(AttachTest, WithColdTheMemoryBeginsEmptyAndTheStateIsKeptAside) {
  Open();
  Fill();
  ++model_[31];
  cold_ = true;
  const MemoryStart start = Open();
  EXPECT_FALSE(start.is_warm);
  EXPECT_THAT(start.why_cold, HasSubstr("--cold"));
  EXPECT_EQ(start.kept_aside, "meta.bad");
  EXPECT_GT(start.aside_bytes, 0u);
  EXPECT_TRUE(memory_->sequences().List().empty());
  // A person puts the state back.
  memory_.reset();
  fs::rename(root_ / "meta.bad", root_ / "meta");
  --model_[31];
  cold_ = false;
  EXPECT_TRUE(Open().is_warm);
  EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
  EXPECT_FALSE(fs::exists(root_ / "pool.1"));
}

TEST_F(AttachTest, OptionsThatDiscardOnlyRetainedSequencesStartColdAndFreeTheirRoom) {
  Open();
  const SequenceHandle made = *memory_->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, made, 5, 64));
  ASSERT_TRUE(*memory_->prefixes().Retain(made));
  ++model_[31];
  const MemoryStart start = Open();
  EXPECT_FALSE(start.is_warm);
  EXPECT_THAT(start.why_cold, HasSubstr("model_fingerprint"));
  EXPECT_EQ(start.kept_aside, "");
  EXPECT_FALSE(fs::exists(root_ / "pool"));
}

TEST_F(AttachTest, AnotherProcessorStartsColdAndKeepsTheStateAside) {
  form_ = NumericForm::kBf16Pairs;
  Open();
  Fill();
  form_ = NumericForm::kBf16Tiles;
  ExpectCold("numeric_form: products of bf16 in pairs");
}

TEST_F(AttachTest, KilledAtEachStepOfAColdStartTheStateIsTheOldOneOrANewOne) {
  for (const bool is_damaged : {true, false}) {
    bool is_done = false;
    for (int last_step = 0; !is_done; ++last_step) {
      SCOPED_TRACE(last_step);
      memory_.reset();
      for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
      contents_.clear();
      cold_ = false;
      Open();
      Fill();
      if (is_damaged) Damage([](MetaView meta) { ++meta.header().magic; });
      memory_.reset();
      const pid_t child = ::fork();
      if (child == 0) {
        int step = 0;
        cold_ = true;
        MemoryHome home = Home();
        home.probe = [&](const char*) -> Status {
          if (step++ == last_step) ::_exit(7);
          return {};
        };
        const bool is_open =
            OpenMemory(home, *ComputeGeometry(options_), model_, limits_).has_value();
        ::_exit(is_open ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1);
      is_done = WEXITSTATUS(status) == 0;
      const MemoryStart start = Open();
      const bool is_kept = fs::exists(root_ / "meta.bad");
      if (is_damaged) {
        EXPECT_TRUE(is_kept && fs::exists(root_ / "pool"));
      } else if (memory_->sequences().Query(first_)) {
        EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
      } else {
        EXPECT_TRUE(is_kept && fs::exists(root_ / "pool"));
        memory_.reset();
        fs::rename(root_ / "meta.bad", root_ / "meta");
        EXPECT_TRUE(Open().is_warm);
        EXPECT_EQ(ContentsOf(*memory_, first_), contents_[0]);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(AttachTest, AFailedCallRefusesTheStartAndKeepsTheState) {
  Open();
  Fill();
  memory_.reset();
  // No further descriptor can be opened.
  struct rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const UniqueFd next(::dup(0));
  const rlimit few{static_cast<rlim_t>(next.get()) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<OpenedMemory> opened =
      OpenMemory(Home(), *ComputeGeometry(options_), model_, limits_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kIo);
  EXPECT_TRUE(Open().is_warm);
}

TEST_F(AttachTest, MissingResizedOrLinkedFilesStartCold) {
  const auto expect = [&](const std::string& why, const std::function<void()>& change) {
    memory_.reset();
    for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
    Open();
    Fill();
    memory_.reset();
    change();
    ExpectCold(why);
  };
  expect("pool: no such file", [&] { fs::remove(root_ / "pool"); });
  expect("pool: size", [&] { fs::resize_file(root_ / "pool", 4096); });
  expect("meta: size", [&] { fs::resize_file(root_ / "meta", 100); });
  expect("total_bytes", [&] { fs::resize_file(root_ / "meta", 8192); });
  expect("meta: a symbolic link", [&] {
    fs::rename(root_ / "meta", root_ / "else");
    fs::create_symlink("else", root_ / "meta");
  });
  expect("meta: mode: gives access to group or others",
         [&] { fs::permissions(root_ / "meta", fs::perms::group_read, fs::perm_options::add); });
  expect("pool: not a regular file", [&] {
    fs::remove(root_ / "pool");
    ASSERT_EQ(::mkfifo((root_ / "pool").c_str(), 0600), 0);
  });
}

TEST_F(AttachTest, StateOnADiskFromAnotherBootStartsCold) {
  const auto reboot = [](MetaView meta) {
    ++meta.header().boot_id[0];
    meta.header().header_crc =
        Crc32c(0, meta.bytes().first(offsetof(layout::MetaHeader, header_crc)));
  };
  Open();
  Fill();
  Damage(reboot);
  EXPECT_TRUE(Open().is_warm);  // checks_boot_ is false, as for files that do not survive a boot
  checks_boot_ = true;
  ExpectCold("boot_id");
  EXPECT_TRUE(Open().is_warm);
}

// A memory with a window group, recurrent states, a checkpoint and kept logits is attached. The
// free counts and contents of the attached memory are the same as before, and dropping the sequence
// frees all its slots.
TEST_F(AttachTest, StatesCheckpointsAndLogitsAreKept) {
  options_.groups.push_back({.cells = 32 * 32, .layers = {{1, 2, 2}}, .window = 16});
  options_.state_bytes = 64;
  options_.state_slots = 8;
  options_.checkpoint_slots = 4;
  options_.logits_bytes = 16;
  options_.logits_rows = 2;
  Open();
  const SequenceHandle made = *memory_->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, made, 1, 40));
  ASSERT_TRUE(*memory_->states().KeepCheckpoint(made));
  ASSERT_TRUE(AppendTokens(*memory_, made, 50, 3));
  const std::array<float, 4> kept = {1.5f, 2.5f, 3.5f, 4.5f};
  ASSERT_TRUE(*memory_->states().KeepLogits(made, kept.data()));
  const PoolUsage before = memory_->Usage();
  const Contents contents = ContentsOf(*memory_, made);

  EXPECT_TRUE(Open().is_warm);
  ExpectSound();
  const PoolUsage after = memory_->Usage();
  EXPECT_EQ(after.free_state_slots, before.free_state_slots);
  EXPECT_EQ(after.checkpoint_slots, 1u);
  EXPECT_EQ(after.free_logits_rows, before.free_logits_rows);
  EXPECT_EQ(after.groups[1].free_blocks, before.groups[1].free_blocks);
  EXPECT_EQ(ContentsOf(*memory_, made), contents);
  std::array<float, 4> row{};
  EXPECT_TRUE(*memory_->states().ReadLogits(made, row.data()));
  EXPECT_EQ(row, kept);
  ASSERT_TRUE(memory_->sequences().RemoveRange(made, {Pos{40}, kPosEnd}))
      << "the checkpoint at 40 cells is restored";
  ASSERT_TRUE(AppendTokens(*memory_, made, 60, 20));
  ASSERT_TRUE(memory_->sequences().Drop(made));
  ExpectSound();
  EXPECT_EQ(memory_->Usage().free_state_slots, 8u);
  EXPECT_EQ(memory_->Usage().free_logits_rows, 2u);
}

// After each random damage of 1 to 4 bits, the attached memory is consistent, its sequences can be
// edited and dropped, and all blocks are free at the end.
TEST_F(AttachTest, RandomDamageAffectsOnlyItsOwnSequences) {
  options_ = SmallOptions(16 * 32);
  options_.list_unit_count = 64;
  Open();
  Fill();
  ASSERT_TRUE(memory_->sessions().Open({.id = SessionId{7}, .owner = OwnerId{1000}}));
  const std::vector<std::byte> good(memory_->meta_bytes().begin(), memory_->meta_bytes().end());
  const int rounds = test::Scaled(1000);
  std::mt19937_64 random(1);
  std::size_t warm = 0;
  std::size_t lost = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    memory_.reset();
    if (fs::exists(root_ / "meta.bad")) fs::rename(root_ / "meta.bad", root_ / "meta");
    Restore(good);
    Damage([&](MetaView meta) {
      const MetaOffsets& offsets = meta.offsets();
      for (std::uint64_t left = 1 + random() % 4; left > 0; --left) {
        // Offsets at which `meta` is in use: the records, the first lists and the first cells.
        const std::array<std::uint64_t, 6> starts = {offsets.sequences, offsets.sequences + 256,
                                                     offsets.snapshots, offsets.sessions,
                                                     offsets.lists,     offsets.cells[0]};
        const std::uint64_t at = starts[random() % starts.size()] + random() % 512;
        meta.bytes()[at] ^= static_cast<std::byte>(1u << (random() % 8));
      }
    });
    const MemoryStart start = Open();
    warm += start.is_warm ? 1 : 0;
    lost += start.lost.size();
    ExpectSound();
    for (const SequenceInfo& info : memory_->sequences().List()) {
      if ((info.flags & layout::kSequencePublished) == 0) {
        (void)AppendTokens(*memory_, info.handle, 1, 3);
        (void)memory_->sequences().RemoveRange(info.handle, {Pos{2}, Pos{5}});
        EXPECT_TRUE(memory_->sequences().Drop(info.handle));
      }
    }
    for (const SnapshotInfo& info : memory_->snapshots().List())
      EXPECT_TRUE(memory_->snapshots().Unpublish(info.name, info.owner));
    ExpectSound();
    EXPECT_EQ(memory_->Usage().free_blocks, memory_->Usage().total_blocks);
    if (HasFailure()) return;
  }
  if (rounds >= 1000) {
    EXPECT_GT(warm, 150u);
    EXPECT_GT(lost, 150u);
  }
}

}  // namespace
}  // namespace kvd
