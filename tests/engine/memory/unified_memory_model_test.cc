// Seeded random operations on a UnifiedMemory and on a naive reference, compared after each one.
//
// KVD_TEST_SEED replays a run; KVD_TEST_SCALE multiplies the number of operations (100,000). The
// run is cut into episodes, each with a fresh memory of random size, most of them so small that
// space runs out often.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "engine/memory/unified_memory.h"
#include "tests/engine/memory/memory_inspector.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd {
namespace {

std::uint64_t SeedOfRun() {
  if (const char* text = std::getenv("KVD_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return std::random_device()();
}
double Scale() {
  const char* text = std::getenv("KVD_TEST_SCALE");
  return text == nullptr ? 1.0 : std::strtod(text, nullptr);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Uniform in [least, most].
  std::int64_t In(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool OneIn(int chances) { return In(1, chances) == 1; }

 private:
  std::mt19937_64 engine_;
};

// Rewrites tags as a rotation would, and checks that it is asked for the cells that the reference
// rewrites, in order, and that the cells it writes to are nobody's.
class TagRotator : public CellRotator {
 public:
  TagRotator(const UnifiedMemory& memory, const MemoryInspector& inspector,
             std::vector<ReferenceCell> cells, std::int32_t divisor, std::uint32_t first_id)
      : memory_(memory),
        inspector_(inspector),
        cells_(std::move(cells)),
        divisor_(divisor),
        next_id_(first_id) {}

  void FailAt(std::int64_t cell) { fails_at_ = cell; }
  // Calls `interrupt` before the cell is rotated.
  void InterruptAt(std::int64_t cell, std::function<void()> interrupt) {
    interrupted_at_ = cell;
    interrupt_ = std::move(interrupt);
  }
  bool has_failed() const { return has_failed_; }
  std::size_t rotated() const { return rotated_; }

  Status RotateCell(std::uint32_t, BlockId source_block, std::uint32_t source_cell, Pos from,
                    BlockId destination_block, std::uint32_t destination_cell, Pos to) override {
    const auto number = static_cast<std::int64_t>(rotated_);
    if (number == interrupted_at_) interrupt_();
    if (number == fails_at_) {
      has_failed_ = true;
      return Fail(Code::kNumerical, "rotator: told to fail");
    }
    const ReferenceCell& cell = cells_.at(rotated_);
    EXPECT_EQ(from.value, cell.position - cell.shift);
    EXPECT_EQ(to.value, cell.position / divisor_);
    const auto source = static_cast<std::uint32_t>(source_block);
    const CellTag k = inspector_.ReadK(source, source_cell);
    const CellTag v = inspector_.ReadV(source, source_cell);
    EXPECT_EQ(k, (CellTag{cell.k_id, from.value}));
    EXPECT_EQ(v, (CellTag{cell.v_id, cell.token}));
    EXPECT_FALSE(memory_.is_free_block(0, source));

    const auto destination = static_cast<std::uint32_t>(destination_block);
    EXPECT_FALSE(memory_.is_free_block(0, destination));
    EXPECT_FALSE(memory_.derived().blocks[0].is_used(destination));
    EXPECT_EQ(destination_cell, rotated_ % layout::kBlockCells);
    EXPECT_TRUE(destination_cell == 0 || destination == last_destination_);
    last_destination_ = destination;
    inspector_.OpenPool();
    inspector_.Write(destination, destination_cell, {next_id_++, to.value}, v);
    inspector_.ClosePool();
    ++rotated_;
    return {};
  }

 private:
  const UnifiedMemory& memory_;
  const MemoryInspector& inspector_;
  std::vector<ReferenceCell> cells_;
  std::int32_t divisor_;
  std::uint32_t next_id_;
  std::int64_t fails_at_ = -1;
  std::int64_t interrupted_at_ = -1;
  std::function<void()> interrupt_;
  bool has_failed_ = false;
  std::size_t rotated_ = 0;
  std::uint32_t last_destination_ = 0;
};

// Copies tags as the engine copies cells.
class TagMover : public CellMover {
 public:
  TagMover(const MemoryInspector& inspector, std::function<void()> interrupt)
      : inspector_(inspector), interrupt_(std::move(interrupt)) {}

  void MoveCells(std::uint32_t, BlockId source_block, std::uint32_t source_cell,
                 BlockId destination_block, std::uint32_t destination_cell,
                 std::uint32_t count) override {
    interrupt_();
    inspector_.OpenPool();
    for (std::uint32_t k = 0; k < count; ++k) {
      const auto source = static_cast<std::uint32_t>(source_block);
      inspector_.Write(static_cast<std::uint32_t>(destination_block), destination_cell + k,
                       inspector_.ReadK(source, source_cell + k),
                       inspector_.ReadV(source, source_cell + k));
    }
    inspector_.ClosePool();
    moved_ += count;
  }
  std::uint64_t moved() const { return moved_; }

 private:
  const MemoryInspector& inspector_;
  std::function<void()> interrupt_;
  std::uint64_t moved_ = 0;
};

struct Tally {
  std::uint64_t operations = 0, succeeded = 0, refused = 0, no_space = 0, conflicts = 0;
  std::uint64_t long_operations = 0;  // on a sequence of more than three blocks
  std::uint64_t probed_commits = 0;
  std::map<std::string, std::array<std::uint64_t, 3>> by_verb;  // done, refused, without space
};

// One memory, its reference, and the operations on both.
class Episode {
 public:
  Episode(std::uint64_t seed, Tally* tally) : random_(seed), tally_(tally) {
    MemoryOptions options;
    const bool is_tiny = random_.OneIn(4);
    options.groups.resize(1);
    options.groups[0].cells =
        static_cast<std::uint64_t>(is_tiny ? random_.In(2, 10) : random_.In(20, 80)) *
        layout::kBlockCells;
    options.groups[0].layers = {{1, 2, 2}};
    options.k_type = kernels::DataType::kF32;
    options.v_type = kernels::DataType::kF32;
    options.sequence_capacity = static_cast<std::uint32_t>(random_.In(4, 14));
    options.snapshot_capacity = std::max(1u, options.sequence_capacity / 4);
    options.session_capacity = 0;
    // Often hardly a unit for each sequence, so that list room runs out too.
    options.list_unit_count =
        options.sequence_capacity * static_cast<std::uint32_t>(random_.In(2, 8)) / 2;
    memory_ = MakeMemory(options);
    memory_->DisableEvictionForTest();  // the reference knows nothing of it
    inspector_ = std::make_unique<MemoryInspector>(memory_.get());
    reference_.sequence_capacity = options.sequence_capacity;
    reference_.snapshot_capacity = options.snapshot_capacity;
    digest_ = inspector_->RecordsDigest();
  }

  // One operation and, if it is a step, those that interrupt it.
  void Operate() {
    const std::int64_t choice = random_.In(0, 99);
    if (choice < 36) {
      Step();
    } else if (choice < 40) {
      Divide();
    } else if (choice < 45) {
      Settle();
    } else if (choice < 48) {
      Defragment();
    } else {
      Verb();
    }
  }

 private:
  static constexpr int kProbeEvery = 40;

  // ---- choosing arguments
  SequenceHandle AnyHandle() {
    const SequenceHandle handle = DrawHandle();
    if (const ReferenceSequence* sequence = reference_.Find(handle)) {
      longest_drawn_ = std::max(longest_drawn_, sequence->cells.size());
    }
    return handle;
  }
  SequenceHandle DrawHandle() {
    if (random_.OneIn(40) && !dead_.empty()) {
      return dead_[static_cast<std::size_t>(
          random_.In(0, static_cast<std::int64_t>(dead_.size()) - 1))];
    }
    if (random_.OneIn(200)) return static_cast<SequenceHandle>(random_.In(0, INT64_MAX - 1));
    if (reference_.sequences.empty()) return SequenceHandle::kNone;
    if (!hot_.empty() && random_.OneIn(3)) {
      return hot_[static_cast<std::size_t>(
          random_.In(0, static_cast<std::int64_t>(hot_.size()) - 1))];
    }
    auto at = reference_.sequences.begin();
    std::advance(at, random_.In(0, static_cast<std::int64_t>(reference_.sequences.size()) - 1));
    // Long ones are the interesting ones.
    if (at->second.cells.size() < 97 && !random_.OneIn(3)) {
      for (auto other = reference_.sequences.begin(); other != reference_.sequences.end();
           ++other) {
        if (other->second.cells.size() > at->second.cells.size() && random_.OneIn(2)) at = other;
      }
    }
    if (at->second.is_published && !random_.OneIn(4)) return DrawHandle();
    return at->first;
  }
  SequenceOwner AnyOwner() {
    return {static_cast<std::uint32_t>(random_.In(1000, 1001)),
            SessionId{static_cast<std::uint64_t>(random_.In(1, 3))},
            static_cast<std::uint64_t>(random_.In(0, 1))};
  }
  PosRange AnyRange(SequenceHandle handle) {
    if (random_.OneIn(60)) return {Pos{-1}, kPosEnd};
    if (random_.OneIn(60)) return {Pos{9}, Pos{8}};
    const ReferenceSequence* sequence = reference_.Find(handle);
    if (sequence == nullptr || sequence->cells.empty() || random_.OneIn(20)) return {};
    const auto position = [&] {
      const auto ordinal = random_.In(0, static_cast<std::int64_t>(sequence->cells.size()) - 1);
      return static_cast<std::int32_t>(sequence->cells[static_cast<std::size_t>(ordinal)].position);
    };
    std::int32_t begin = random_.OneIn(4) ? 0 : position();
    std::int32_t end = random_.OneIn(5) ? kPosEnd.value : position();
    if (begin > end) std::swap(begin, end);
    if (!random_.OneIn(4) && end != kPosEnd.value) end = std::min(end, begin + 20);
    return {Pos{begin}, Pos{end}};
  }
  // Of some extents side by side.
  PosRange AnyWholeExtents(SequenceHandle handle) {
    const ReferenceSequence* sequence = reference_.Find(handle);
    if (sequence == nullptr || sequence->cells.empty()) return {};
    const std::vector<std::uint32_t> bounds = inspector_->ExtentBounds(handle);
    const auto extent_count = static_cast<std::int64_t>(bounds.size()) - 1;
    const std::int64_t first = random_.In(0, extent_count - 1);
    const std::int64_t last = random_.OneIn(2) ? extent_count : random_.In(first + 1, extent_count);
    const auto position = [&](std::int64_t bound) {
      const std::size_t ordinal = bounds[static_cast<std::size_t>(bound)];
      return ordinal == sequence->cells.size()
                 ? kPosEnd
                 : Pos{static_cast<std::int32_t>(sequence->cells[ordinal].position)};
    };
    return {position(first), position(last)};
  }
  std::int32_t AnyDelta(PosRange range) {
    switch (random_.In(0, 9)) {
      case 0: return 0;
      case 1: return static_cast<std::int32_t>(random_.In(INT32_MIN, INT32_MAX));
      case 2: return -range.begin.value;
      case 3:
      case 4:
      case 5: return static_cast<std::int32_t>(random_.In(-30, 0));
      default: return static_cast<std::int32_t>(random_.In(0, 60));
    }
  }
  std::size_t AnyTokenCount() {
    switch (random_.In(0, 9)) {
      case 0:
      case 1: return static_cast<std::size_t>(random_.In(60, 250));
      case 2: return static_cast<std::size_t>(random_.In(9, 70));
      case 3:
      case 4:
      case 5: return static_cast<std::size_t>(random_.In(2, 8));
      default: return 1;
    }
  }
  std::string AnyName() { return "name" + std::to_string(random_.In(0, 3)); }

  // ---- after an operation
  // The memory's answer against the reference's. True if the reference should do it too.
  bool Judge(const char* verb, Code expected, const Status& actual, bool may_lack_space) {
    verb_ = verb;
    const Code code = actual ? Code::kOk : actual.error().code;
    if (code == Code::kNoSpace && expected == Code::kOk && may_lack_space) {
      const std::string& message = actual.error().message;
      EXPECT_TRUE(message.starts_with("cells: ") || message.starts_with("lists: ")) << message;
      ++tally_->no_space;
      ++tally_->by_verb[verb][2];
      return false;
    }
    EXPECT_EQ(code, expected) << verb << ": " << (actual ? "" : actual.error().message);
    if (code == Code::kNoSpace) ++tally_->no_space;
    ++tally_->by_verb[verb][code == Code::kOk ? 0 : code == Code::kNoSpace ? 2 : 1];
    ++(code == Code::kOk ? tally_->succeeded : tally_->refused);
    return code == Code::kOk;
  }
  void Check(bool succeeded) {
    SCOPED_TRACE(verb_);
    ++tally_->operations;
    tally_->long_operations += longest_drawn_ > 3 * layout::kBlockCells;
    longest_drawn_ = 0;
    const std::uint32_t digest = inspector_->RecordsDigest();
    if (!succeeded) {
      ASSERT_EQ(digest, digest_) << "a refused operation changed something";
    }
    CheckMoments(digest);
    digest_ = digest;
    ASSERT_NO_FATAL_FAILURE(inspector_->ExpectTables(step_is_running_));
    ASSERT_NO_FATAL_FAILURE(inspector_->ExpectEqual(reference_));
    if (step_is_running_) ExpectStepKeepsItsBlocks();
    ArmMoments();
  }

  // A step reads its snapshot of the extents without the lock: whatever the verbs do, those blocks
  // are not handed out.
  void ExpectStepKeepsItsBlocks() const {
    for (std::size_t index = 0; index < plan_.count; ++index) {
      for (const layout::Extent& extent : plan_.sequences[index].groups[0].extents) {
        ASSERT_FALSE(memory_->is_free_block(0, extent.block)) << "block " << extent.block;
      }
    }
  }

  // Every now and then the bytes are copied at each moment of the operation's commit, as a kill
  // would leave them.
  void ArmMoments() {
    if (!random_.OneIn(kProbeEvery)) return;
    memory_->commit_log_for_test().set_probe_for_test(
        [this](CommitLog::Moment) { moments_.emplace_back(memory_->meta_bytes()); });
  }
  void CheckMoments(std::uint32_t digest_after) {
    memory_->commit_log_for_test().set_probe_for_test({});
    bool was_after = false;
    for (const MetaCopy& copy : moments_) {
      const Result<ConstMetaView> view = ValidateHeader(copy.bytes());
      ASSERT_TRUE(view);
      ASSERT_TRUE(
          CommitLog::Replay(MetaView(copy.bytes().data(), view->offsets(), view->geometry())));
      const std::uint32_t digest = inspector_->RecordsDigest(copy.bytes());
      if (!has_several_commits_) {
        ASSERT_TRUE(digest == digest_ || digest == digest_after);
        ASSERT_TRUE(!was_after || digest == digest_after);
      }
      was_after |= digest == digest_after;
      const Result<DerivedTables> tables = RebuildTables(copy.bytes());
      ASSERT_TRUE(tables) << tables.error().message;
    }
    tally_->probed_commits += !moments_.empty();
    moments_.clear();
    has_several_commits_ = false;
  }

  void Bury(SequenceHandle handle) {
    dead_.push_back(handle);
    reference_.sequences.erase(handle);
  }

  // ---- verbs
  void Verb() {
    const std::int64_t choice = random_.In(0, 99);
    if (reference_.CheckRoom(1) != Code::kOk && random_.OneIn(4)) return Drop();
    if (choice < 9) return Create();
    if (choice < 22) return Fork();
    if (choice < 36) return CopyRange();
    if (choice < 55) return RemoveRange();
    if (choice < 57) return Clear();
    if (choice < 66) return Drop();
    if (choice < 68) return DropTwo();
    if (choice < 69) return Keep();
    if (choice < 86) return AddPositions();
    if (choice < 91) return Publish();
    if (choice < 94) return Unpublish();
    return SetOwner();
  }

  void Create() {
    const SequenceOwner owner = AnyOwner();
    const Result<SequenceHandle> handle = memory_->Create(owner);
    const bool done = Judge("create", reference_.CheckRoom(1), ToStatus(handle), false);
    if (done) {
      ReferenceSequence sequence;
      sequence.uid = owner.uid;
      sequence.session = static_cast<std::uint64_t>(owner.session);
      sequence.salt = owner.namespace_salt;
      reference_.sequences[*handle] = sequence;
    }
    Check(done);
  }

  void Fork() {
    const SequenceHandle source = AnyHandle();
    const SequenceOwner owner = AnyOwner();
    std::vector<SequenceHandle> forks(
        static_cast<std::size_t>(random_.OneIn(30) ? 0 : random_.In(1, 3)));
    if (random_.OneIn(2) && !forks.empty()) forks.resize(1);
    std::optional<std::uint32_t> cells;
    if (random_.OneIn(3)) {
      const ReferenceSequence* sequence = reference_.Find(source);
      const auto most = sequence == nullptr ? 5 : static_cast<std::int64_t>(sequence->cells.size());
      cells = static_cast<std::uint32_t>(random_.OneIn(20) ? most + 1 : random_.In(0, most));
    }
    const Code expected = reference_.CheckFork(source, forks.size(), cells);
    const bool done = Judge("fork", expected, memory_->Fork(source, owner, forks, cells), true);
    if (done) {
      for (const SequenceHandle fork : forks) {
        reference_.Fork(source, fork, owner.uid, static_cast<std::uint64_t>(owner.session),
                        owner.namespace_salt, cells);
      }
    }
    Check(done);
  }

  void CopyRange() {
    const SequenceHandle source = AnyHandle();
    SequenceHandle destination = AnyHandle();
    if (random_.OneIn(2)) {
      for (const auto& [handle, sequence] : reference_.sequences) {
        if (sequence.cells.empty() && handle != source) destination = handle;
      }
    }
    const PosRange range = AnyRange(source);
    const Result<std::uint32_t> copied = memory_->CopyRange(source, destination, range);
    const bool done =
        Judge("copy", reference_.CheckCopy(source, destination, range), ToStatus(copied), true);
    if (done) {
      const std::uint32_t expected = reference_.Copy(source, destination, range);
      EXPECT_EQ(*copied, expected);
    }
    Check(done);
  }

  void RemoveRange() {
    const SequenceHandle handle = AnyHandle();
    const PosRange range = AnyRange(handle);
    const Result<std::uint32_t> removed = memory_->RemoveRange(handle, range);
    const bool done =
        Judge("remove", reference_.CheckRemove(handle, range), ToStatus(removed), true);
    if (done) {
      const std::uint32_t expected = reference_.Remove(handle, range);
      EXPECT_EQ(*removed, expected);
    }
    Check(done);
  }

  void Clear() {
    const SequenceHandle handle = AnyHandle();
    const bool done =
        Judge("clear", reference_.CheckRemove(handle, {}), memory_->Clear(handle), false);
    if (done) reference_.Remove(handle, {});
    Check(done);
  }

  void Drop() {
    SequenceHandle handle = AnyHandle();
    const ReferenceSequence* sequence = reference_.Find(handle);
    if (sequence != nullptr && sequence->cells.size() > 96 && !random_.OneIn(4))
      handle = AnyHandle();
    const bool done = Judge("drop", reference_.CheckMutable(handle), memory_->Drop(handle), false);
    if (done) Bury(handle);
    Check(done);
  }

  void DropTwo() {
    const SequenceHandle handles[] = {AnyHandle(), AnyHandle()};
    Code expected = reference_.CheckMutable(handles[0]);
    if (expected == Code::kOk) expected = reference_.CheckMutable(handles[1]);
    if (expected == Code::kOk && handles[0] == handles[1]) expected = Code::kInvalidArgument;
    const bool done = Judge("drop two", expected, memory_->DropAll(handles), false);
    if (done) {
      Bury(handles[0]);
      Bury(handles[1]);
    }
    Check(done);
  }

  void Keep() {
    const SequenceHandle handle = AnyHandle();
    const auto session = static_cast<std::uint64_t>(random_.In(1, 3));
    const Code expected = reference_.CheckKeep(handle, session);
    const bool done = Judge("keep", expected, memory_->Keep(handle, SessionId{session}), false);
    if (done) reference_.Keep(handle, session);
    Check(done);
  }

  void AddPositions() {
    const SequenceHandle handle = AnyHandle();
    PosRange range = AnyRange(handle);
    if (random_.OneIn(3)) range.end = kPosEnd;  // the usual shift
    if (random_.OneIn(3)) range = AnyWholeExtents(handle);
    const std::int32_t delta = AnyDelta(range);
    const Code expected = reference_.CheckAdd(handle, range, delta);
    const bool done = Judge("add", expected, memory_->AddPositions(handle, range, delta), true);
    if (done) reference_.Add(handle, range, delta);
    Check(done);
  }

  void Publish() {
    const SequenceHandle source = AnyHandle();
    const SequenceOwner owner = AnyOwner();
    const std::string name = random_.OneIn(30) ? std::string(65, 'x') : AnyName();
    const bool is_public = random_.OneIn(2);
    const bool replace = random_.OneIn(2);
    Code expected = Code::kOk;
    const auto existing = reference_.snapshots.find(name);
    const bool replaces = existing != reference_.snapshots.end();
    if (name.size() > 64) {
      expected = Code::kInvalidArgument;
    } else if (reference_.Find(source) == nullptr) {
      expected = Code::kNotFound;
    } else if (replaces && !replace) {
      expected = Code::kExists;
    } else if (!replaces && reference_.snapshots.size() == reference_.snapshot_capacity) {
      expected = Code::kNoSpace;
    } else {
      expected = reference_.CheckRoom(1);
    }
    const Result<SequenceHandle> handle = memory_->Publish(source, owner, name, is_public, replace);
    const bool done = Judge("publish", expected, ToStatus(handle), true);
    if (done) {
      reference_.Fork(source, *handle, owner.uid, static_cast<std::uint64_t>(owner.session),
                      owner.namespace_salt, std::nullopt);
      reference_.sequences.at(*handle).is_published = true;
      if (replaces) Bury(existing->second.sequence);
      reference_.snapshots[name] = {*handle, owner.uid, is_public};
    }
    Check(done);
  }

  void Unpublish() {
    const std::string name = AnyName();
    const auto existing = reference_.snapshots.find(name);
    const bool exists = existing != reference_.snapshots.end();
    EXPECT_EQ(exists, memory_->FindSnapshot(name).has_value());
    const bool done =
        Judge("unpublish", exists ? Code::kOk : Code::kNotFound, memory_->Unpublish(name), false);
    if (done) {
      Bury(existing->second.sequence);
      reference_.snapshots.erase(existing);
    }
    Check(done);
  }

  void SetOwner() {
    const SequenceHandle handle = AnyHandle();
    const SequenceOwner owner = AnyOwner();
    const auto set = static_cast<std::uint32_t>(random_.In(0, 4))
                     << 1;  // sometimes published, which it may not
    const auto clear = static_cast<std::uint32_t>(random_.In(0, 3)) << 1;
    Code expected = Code::kInvalidArgument;
    if (set <= 6 && (set & clear) == 0) expected = reference_.CheckMutable(handle);
    const bool done =
        Judge("set owner", expected, memory_->SetOwner(handle, owner, set, clear), false);
    if (done) {
      ReferenceSequence& sequence = reference_.sequences.at(handle);
      sequence.uid = owner.uid;
      sequence.session = static_cast<std::uint64_t>(owner.session);
      sequence.salt = owner.namespace_salt;
      sequence.is_retained = (sequence.is_retained || (set & layout::kSequenceRetained) != 0) &&
                             (clear & layout::kSequenceRetained) == 0;
      sequence.is_pinned = (sequence.is_pinned || (set & layout::kSequencePinned) != 0) &&
                           (clear & layout::kSequencePinned) == 0;
      ++sequence.edit_number;
    }
    Check(done);
  }

  // ---- rewriting cells
  void Divide() {
    const SequenceHandle handle = AnyHandle();
    const PosRange range = AnyRange(handle);
    const auto divisor =
        static_cast<std::int32_t>(random_.OneIn(10) ? random_.In(-1, 0) : random_.In(1, 5));
    const Code expected = reference_.CheckDivide(handle, range, divisor);
    std::vector<ReferenceCell> cells;
    if (expected == Code::kOk && divisor > 1) {
      for (const ReferenceCell& cell : reference_.Find(handle)->cells) {
        if (ReferenceMemory::IsIn(cell, range)) cells.push_back(cell);
      }
    }
    const auto cell_count = static_cast<std::uint32_t>(cells.size());
    const bool done =
        Rewrite("divide", handle, expected, std::move(cells), divisor, [&](CellRotator& rotator) {
          return memory_->DividePositions(handle, range, divisor, rotator);
        });
    if (done && cell_count > 0) reference_.Divide(handle, range, divisor, next_id_);
    next_id_ += cell_count;
    Check(done);
  }

  void Settle() {
    SequenceHandle handle = AnyHandle();
    for (int tries = 0; tries < 4 && !HasShifted(handle); ++tries) handle = AnyHandle();
    const bool all = random_.OneIn(2);
    const Code expected = reference_.CheckMutable(handle);
    std::vector<ReferenceCell> cells;
    if (expected == Code::kOk) {
      const auto [begin, end] = reference_.SettledCells(handle, all);
      const auto first = reference_.Find(handle)->cells.begin();
      cells.assign(first + static_cast<std::ptrdiff_t>(begin),
                   first + static_cast<std::ptrdiff_t>(end));
    }
    const auto cell_count = static_cast<std::uint32_t>(cells.size());
    const auto scope = all ? Memory::SettleScope::kAll : Memory::SettleScope::kShifted;
    const bool done =
        Rewrite("settle", handle, expected, std::move(cells), 1,
                [&](CellRotator& rotator) { return memory_->Settle(handle, scope, rotator); });
    if (done) {
      reference_.Settle(handle, all, next_id_);
      EXPECT_EQ(reference_.SettledCells(handle, true), (std::pair<std::size_t, std::size_t>()));
    }
    next_id_ += cell_count;
    Check(done);
  }
  bool HasShifted(SequenceHandle handle) const {
    if (reference_.CheckMutable(handle) != Code::kOk) return false;
    const auto [begin, end] = reference_.SettledCells(handle, false);
    return begin != end;
  }

  // Moves cells and changes nothing that anyone could see.
  void Defragment() {
    const std::uint64_t live = memory_->Usage().live_cells;
    const std::uint32_t used = memory_->Usage().total_blocks - memory_->Usage().free_blocks;
    bool interrupts = random_.OneIn(4);
    const bool is_interrupted = interrupts;
    TagMover mover(*inspector_, [&] {
      if (std::exchange(interrupts, false)) Interrupt(AnyHandle());
    });
    const auto cells_max = static_cast<std::uint32_t>(random_.In(1, 200));
    const Result<DefragSlice> slice = memory_->Defragment(cells_max, mover);
    const bool done = Judge("defragment", Code::kOk, ToStatus(slice), true);
    if (done) {
      EXPECT_EQ(slice->cells_moved, mover.moved());
      EXPECT_EQ(slice->is_done, mover.moved() == 0);
    }
    if (done && !is_interrupted) {
      EXPECT_EQ(memory_->Usage().live_cells, live);
      EXPECT_LE(memory_->Usage().total_blocks - memory_->Usage().free_blocks, used);
    }
    has_several_commits_ = true;
    Check(done || is_interrupted);
  }

  // Rewrites `cells` of the sequence by `call`; now and then the rotator fails, or other verbs come
  // in between. True if the reference should do it too.
  template <class Call>
  bool Rewrite(const char* verb, SequenceHandle handle, Code expected,
               std::vector<ReferenceCell> cells, std::int32_t divisor, Call call) {
    const auto cell_count = static_cast<std::uint32_t>(cells.size());
    TagRotator rotator(*memory_, *inspector_, std::move(cells), divisor, next_id_);
    std::uint64_t content_number = 0;
    if (cell_count > 0) {
      content_number = reference_.Find(handle)->content_number;
      if (random_.OneIn(8)) rotator.FailAt(random_.In(0, cell_count - 1));
      if (random_.OneIn(3)) {
        rotator.InterruptAt(random_.In(0, cell_count - 1), [this, handle] { Interrupt(handle); });
      }
    }
    const Result<std::uint32_t> rewritten = call(rotator);
    if (rotator.has_failed()) {
      expected = Code::kNumerical;
    } else if (cell_count > 0) {
      const ReferenceSequence* sequence = reference_.Find(handle);
      if (sequence == nullptr || sequence->content_number != content_number) {
        expected = Code::kConflict;
        ++tally_->conflicts;
      }
    }
    const bool done = Judge(verb, expected, ToStatus(rewritten), true);
    if (done) {
      EXPECT_EQ(*rewritten, cell_count);
      EXPECT_EQ(rotator.rotated(), cell_count);
    }
    return done;
  }
  // Other verbs while cells are rewritten. From a thread of their own, as a daemon would: the one
  // that rewrites holds the memory's growth mutex.
  void Interrupt(SequenceHandle rewritten) {
    const std::size_t longest_drawn = longest_drawn_;
    std::thread([&] {
      step_is_running_ = true;
      hot_ = {rewritten};
      do {
        Verb();
      } while (random_.OneIn(2) && !testing::Test::HasFatalFailure());
      hot_.clear();
      step_is_running_ = false;
    }).join();
    longest_drawn_ = longest_drawn;
  }

  // ---- steps
  struct Part {
    SequenceHandle handle = SequenceHandle::kNone;
    std::vector<TokenId> tokens;
    Pos pos;
    std::uint32_t first_id = 0;
    std::uint64_t content_number = 0;
  };

  void Step() {
    std::vector<Part> parts(static_cast<std::size_t>(random_.OneIn(2) ? 1 : random_.In(1, 3)));
    std::vector<AppendRequest> requests;
    Code expected = Code::kOk;
    std::size_t at_fault = parts.size();
    std::uint64_t blocks_at_most = 0;
    for (std::size_t index = 0; index < parts.size(); ++index) {
      Part& part = parts[index];
      part.handle = AnyHandle();
      for (int tries = 0; tries < 4 && !random_.OneIn(30); ++tries) {
        const bool is_taken = std::any_of(
            parts.data(), &part, [&](const Part& other) { return other.handle == part.handle; });
        if (!is_taken && reference_.CheckMutable(part.handle) == Code::kOk) break;
        part.handle = AnyHandle();
      }
      const ReferenceSequence* sequence = reference_.Find(part.handle);
      if (!random_.OneIn(60)) {
        part.tokens.resize(AnyTokenCount());
        if (sequence != nullptr && sequence->cells.size() < 97 && random_.OneIn(3)) {
          part.tokens.resize(static_cast<std::size_t>(random_.In(60, 250)));
        }
        for (TokenId& token : part.tokens) token = static_cast<TokenId>(random_.In(0, 31999));
      }
      part.pos = Pos{sequence == nullptr ? 0 : static_cast<std::int32_t>(sequence->next_pos())};
      if (random_.OneIn(60)) part.pos = Pos{part.pos.value + (random_.OneIn(2) ? 1 : -1)};
      requests.push_back({part.handle, part.pos, part.tokens});
      blocks_at_most += (part.tokens.size() + layout::kBlockCells - 1) / layout::kBlockCells;
      if (expected != Code::kOk) continue;
      expected = reference_.CheckAppend(part.handle, part.pos.value, part.tokens.size());
      for (std::size_t other = 0; other < index && expected == Code::kOk; ++other) {
        if (parts[other].handle == part.handle) expected = Code::kInvalidArgument;
      }
      if (expected != Code::kOk) at_fault = index;
    }
    std::size_t failed = parts.size();
    const std::uint32_t free_blocks = memory_->Usage().free_blocks;
    const Status status = memory_->Reserve(requests, &plan_, &failed);
    const bool reserved = Judge("reserve", expected, status, true);
    if (!reserved) {
      if (expected != Code::kOk) {
        EXPECT_EQ(failed, at_fault);
      } else {
        EXPECT_LT(failed, parts.size());
        if (status.error().message.starts_with("cells: ")) {
          EXPECT_LT(free_blocks, blocks_at_most);
        }
      }
      EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);
      Check(false);
      return;
    }
    step_is_running_ = true;
    for (const Part& part : parts) hot_.push_back(part.handle);
    for (std::size_t index = 0; index < parts.size(); ++index)
      WriteTags(&parts[index], plan_.sequences[index]);
    Check(false);  // a reservation is not committed state

    while (random_.OneIn(3) && !testing::Test::HasFatalFailure()) Verb();
    std::vector<std::size_t> order;
    for (std::size_t index = 0; index < parts.size(); ++index) {
      order.insert(order.begin() + random_.In(0, static_cast<std::int64_t>(order.size())), index);
    }
    for (const std::size_t index : order) {
      EndPart(parts[index], index);
      if (random_.OneIn(6)) Verb();
      if (testing::Test::HasFatalFailure()) return;
    }
    memory_->EndStep(plan_);
    step_is_running_ = false;
    hot_.clear();
    verb_ = "end step";
    Check(true);
  }

  void WriteTags(Part* part, const StepSequence& reserved) {
    const ReferenceSequence& sequence = *reference_.Find(part->handle);
    part->content_number = sequence.content_number;
    part->first_id = next_id_;
    next_id_ += static_cast<std::uint32_t>(part->tokens.size());
    EXPECT_EQ(reserved.handle, part->handle);
    EXPECT_EQ(reserved.past_cells, sequence.cells.size());
    EXPECT_EQ(reserved.tokens, part->tokens);
    EXPECT_EQ(reserved.edit_number, sequence.edit_number);
    const ExtentView view{reserved.groups[0].extents, reserved.past_cells + reserved.new_cells};
    inspector_->OpenPool();
    for (std::uint32_t ordinal = 0; ordinal < view.cell_count; ++ordinal) {
      const std::size_t index = FindExtent(view, ordinal);
      const layout::Extent& extent = view.entries[index];
      const std::uint32_t cell = extent.first + (ordinal - extent.start);
      if (ordinal < reserved.past_cells) {
        EXPECT_EQ(inspector_->ReadK(extent.block, cell).id, sequence.cells[ordinal].k_id);
        continue;
      }
      EXPECT_GE(index, reserved.groups[0].first_new_extent);
      const std::uint32_t k = ordinal - reserved.past_cells;
      const std::int32_t stored =
          static_cast<std::int32_t>(std::int64_t{part->pos.value} + k - extent.delta);
      inspector_->Write(extent.block, cell, {part->first_id + k, stored},
                        {part->first_id + k, part->tokens[k]});
    }
    inspector_->ClosePool();
  }

  void EndPart(const Part& part, std::size_t index) {
    if (const ReferenceSequence* computed = reference_.Find(part.handle)) {
      longest_drawn_ = computed->cells.size() + part.tokens.size();
    }
    if (random_.OneIn(6)) {
      memory_->Abandon(plan_, index);
      verb_ = "abandon";
      Check(false);
      return;
    }
    const ReferenceSequence* sequence = reference_.Find(part.handle);
    const bool conflicts = sequence == nullptr || sequence->content_number != part.content_number;
    const bool done = Judge("commit", conflicts ? Code::kConflict : Code::kOk,
                            memory_->Commit(plan_, index), true);
    if (done) reference_.Append(part.handle, part.tokens, part.first_id);
    tally_->conflicts += conflicts;
    Check(done);
  }

  template <class T>
  static Status ToStatus(const Result<T>& result) {
    if (!result) return std::unexpected(result.error());
    return {};
  }

  Random random_;
  Tally* tally_;
  std::unique_ptr<UnifiedMemory> memory_;
  std::unique_ptr<MemoryInspector> inspector_;
  ReferenceMemory reference_;
  StepPlan plan_;
  std::vector<SequenceHandle> dead_;
  std::vector<SequenceHandle> hot_;  // being computed
  std::vector<MetaCopy> moments_;
  bool has_several_commits_ = false;  // the operation in progress: one for each sequence
  std::uint32_t next_id_ = 1;
  std::uint32_t digest_ = 0;
  bool step_is_running_ = false;
  std::size_t longest_drawn_ = 0;  // cells of the sequences chosen for the operation
  const char* verb_ = "";
};

TEST(UnifiedMemoryModelTest, RandomOperationsDoWhatTheReferenceDoes) {
  const std::uint64_t seed = SeedOfRun();
  const auto operations = static_cast<std::uint64_t>(100000 * Scale());
  std::printf("KVD_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Tally tally;
  for (std::uint64_t number = 0; tally.operations < operations; ++number) {
    Episode episode(seed + number, &tally);
    const std::uint64_t end = tally.operations + 1500;
    while (tally.operations < end) {
      episode.Operate();
      ASSERT_FALSE(HasFailure()) << "KVD_TEST_SEED=" << seed << " episode " << number
                                 << ", operation " << tally.operations;
    }
  }
  std::printf(
      "%llu operations: %llu done, %llu refused, %llu without space, %llu conflicts, %llu on more "
      "than "
      "three blocks, %llu commits stopped at every moment\n",
      static_cast<unsigned long long>(tally.operations),
      static_cast<unsigned long long>(tally.succeeded),
      static_cast<unsigned long long>(tally.refused),
      static_cast<unsigned long long>(tally.no_space),
      static_cast<unsigned long long>(tally.conflicts),
      static_cast<unsigned long long>(tally.long_operations),
      static_cast<unsigned long long>(tally.probed_commits));
  for (const auto& [verb, counts] : tally.by_verb) {
    std::printf("  %-10s %8llu done %8llu refused %8llu without space\n", verb.c_str(),
                static_cast<unsigned long long>(counts[0]),
                static_cast<unsigned long long>(counts[1]),
                static_cast<unsigned long long>(counts[2]));
  }
  if (operations >= 10000) {
    EXPECT_GT(tally.long_operations * 10, tally.operations * 3);
    EXPECT_GT(tally.no_space * 50, tally.operations);
    EXPECT_GT(tally.conflicts * 500, tally.operations);
  }
}

}  // namespace
}  // namespace kvd
