// Seeded random operations on a memory of every kind (attention, window, recurrent, both, with an
// encoder), compared with the naive reference after each one; steps fail for want of cells, slots
// and list room, are abandoned, and are interrupted by verbs; so are replays.
//
// Truth lies in the bytes: a cell's K row holds its identity, a state is a sum over the tokens that
// it has seen, a row of logits repeats that sum. KVD_TEST_SEED replays a run, KVD_TEST_SCALE
// multiplies the operations (40,000). unified_memory_model_test goes deeper into attention alone.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "engine/memory/hold_and_restore.h"
#include "shm/crc32c.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd {
namespace {

enum class Kind { kAttention, kWindow, kRecurrent, kHybrid, kWindowHybrid, kEncoder };
constexpr int kKindCount = 6;

using Sum = std::uint64_t;
constexpr Sum kSumOfNothing = 0x9e3779b97f4a7c15ull;
Sum AddToSum(Sum sum, TokenId token) {
  return (sum ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ull + 1;
}
Sum SumOf(std::span<const ReferenceCell> cells) {
  Sum sum = kSumOfNothing;
  for (const ReferenceCell& cell : cells) sum = AddToSum(sum, cell.token);
  return sum;
}

struct KindTally {
  std::uint64_t operations = 0, done = 0, refused = 0;
  std::map<std::string, std::uint64_t> codes;  // "verb code"
};

class KindEpisode {
 public:
  KindEpisode(std::uint64_t seed, Kind kind, KindTally* tally)
      : random_(seed),
        tally_(tally),
        has_state_(kind == Kind::kRecurrent || kind == Kind::kHybrid ||
                   kind == Kind::kWindowHybrid),
        has_encoder_(kind == Kind::kEncoder) {
    MemoryOptions options = SmallOptions(Cells(3, 40));
    if (kind == Kind::kRecurrent) options.groups[0].layers.clear();
    if (kind == Kind::kWindow || kind == Kind::kWindowHybrid) {
      window_ = static_cast<std::uint32_t>(In(1, 80));
      options.groups.push_back({.cells = Cells(3, 20), .layers = {{1, 2, 2}}, .window = window_});
    }
    if (has_encoder_) {
      options.groups.push_back({.cells = Cells(3, 12), .layers = {{1, 2, 2}}, .is_cross = true});
    }
    if (has_state_) {
      options.state_bytes = sizeof(Sum);
      options.state_slots = static_cast<std::uint32_t>(In(3, 24));
      options.checkpoint_slots = static_cast<std::uint32_t>(In(0, 12));
      options.logits_bytes = sizeof(Sum);
      options.logits_rows = static_cast<std::uint32_t>(In(1, 4));
    }
    options.list_unit_count = options.sequence_capacity * static_cast<std::uint32_t>(In(2, 9)) / 2;
    memory_ = MakeMemory(options);
    memory_->DisableEvictionForTest();  // the reference knows nothing of it
    meta_ = *ValidateHeader(memory_->meta_bytes());
    reference_.sequence_capacity = options.sequence_capacity;
    reference_.snapshot_capacity = options.snapshot_capacity;
    digest_ = Digest();
  }

  void Operate() {
    const auto choice = In(0, 99);
    if (choice < 45) return Step();
    if (choice < 52 && has_state_) return GoBack();
    if (choice < 58) return Rewrite();
    if (choice < 61) return Defragment();
    if (choice < 65) return SaveAndRestore();
    Verb();
  }

 private:
  // ---- drawing
  std::int64_t In(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool OneIn(int chances) { return In(1, chances) == 1; }
  std::uint64_t Cells(std::int64_t least, std::int64_t most) {
    return static_cast<std::uint64_t>(In(least, most)) * layout::kBlockCells;
  }
  SequenceHandle Any() {
    if (reference_.sequences.empty() || OneIn(50)) return MakeHandle(3, 99);
    auto at = reference_.sequences.begin();
    std::advance(at, In(0, static_cast<std::int64_t>(reference_.sequences.size()) - 1));
    if (at->second.is_published && !OneIn(4)) return Any();
    return at->first;
  }
  std::int32_t AnyPosition(SequenceHandle handle) {
    const ReferenceSequence* sequence = reference_.Find(handle);
    if (sequence == nullptr || sequence->cells.empty()) return 0;
    // Near the end more often: further back a window is lost.
    const auto count = static_cast<std::int64_t>(sequence->cells.size());
    const std::int64_t at =
        OneIn(2) ? In(0, count - 1) : In(std::max<std::int64_t>(0, count - 20), count - 1);
    return static_cast<std::int32_t>(sequence->cells[static_cast<std::size_t>(at)].position);
  }
  PosRange AnyRange(SequenceHandle handle) {
    std::int32_t begin = OneIn(5) ? 0 : AnyPosition(handle);
    std::int32_t end = OneIn(2) ? kPosEnd.value : AnyPosition(handle);
    if (begin > end) std::swap(begin, end);
    return {Pos{begin}, Pos{end}};
  }

  // ---- what the bytes say
  const layout::SequenceRecord& Record(SequenceHandle handle) const {
    return meta_.sequences()[IndexOf(handle)];
  }
  std::uint32_t Digest() const {
    const MetaOffsets& at = meta_.offsets();
    return Crc32c(0, memory_->meta_bytes().subspan(at.sequences, at.lists - at.sequences));
  }
  bool has_bytes(std::uint32_t group) const {
    return meta_.geometry().block_stride_bytes[group] != 0;
  }
  std::uint32_t* Tag(std::uint32_t group, std::uint32_t block, std::uint32_t cell) const {
    return reinterpret_cast<std::uint32_t*>(memory_->BlockBytes(group, BlockId{block}) +
                                            cell * sizeof(float) * 2);
  }
  Sum StateIn(std::uint32_t slot) const {
    if (slot == layout::kNoSlot) return kSumOfNothing;
    Sum sum = 0;
    std::memcpy(&sum, memory_->StateBytes(slot), sizeof sum);
    return sum;
  }
  void WriteState(std::uint32_t slot, Sum sum) const {
    std::memcpy(memory_->StateBytes(slot), &sum, sizeof sum);
  }
  bool HasCheckpoint(SequenceHandle handle, std::size_t cells) const {
    if (cells == 0 || cells == reference_.Find(handle)->cells.size()) return true;
    for (const layout::Checkpoint& c : meta_.checkpoints(Record(handle).checkpoints)) {
      if (c.cell_count == cells) return true;
    }
    return false;
  }
  // Whether a token behind these cells reaches a dropped one, or one before a dropped one.
  bool IsLost(const std::vector<ReferenceCell>& cells, std::int64_t next) const {
    for (std::size_t at = cells.size(); at-- > 0;) {
      if (cells[at].is_dropped) return next - cells[at].position < window_;
    }
    return false;
  }
  bool IsLost(const ReferenceMemory& after, SequenceHandle handle) const {
    const ReferenceSequence& sequence = after.sequences.at(handle);
    return IsLost(sequence.cells, sequence.next_pos());
  }

  // ---- after an operation
  // True if the reference should do it too.
  bool Judge(const char* verb, Code expected, const Status& actual) {
    const Code code = actual ? Code::kOk : actual.error().code;
    verb_ = verb;
    ++tally_->codes[std::string(verb) + " " + std::string(CodeName(code))];
    ++(code == Code::kOk ? tally_->done : tally_->refused);
    const bool lacks_room =
        code == Code::kNoSpace && (expected == Code::kOk || expected == Code::kWindowLost);
    if (!lacks_room) {
      EXPECT_EQ(code, expected) << verb << (actual ? "" : actual.error().message);
    }
    return code == Code::kOk;
  }
  template <class T>
  bool Judge(const char* verb, Code expected, const Result<T>& actual) {
    return Judge(verb, expected, actual ? Status{} : Status(std::unexpected(actual.error())));
  }
  void Check(bool may_change) {
    SCOPED_TRACE(verb_);
    ++tally_->operations;
    const std::uint32_t digest = Digest();
    if (!may_change) {
      ASSERT_EQ(digest, digest_) << "a refused operation changed something";
    }
    digest_ = digest;
    const Result<DerivedTables> rebuilt = RebuildTables(memory_->meta_bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    ASSERT_TRUE(*rebuilt == memory_->derived());
    ASSERT_NO_FATAL_FAILURE(ExpectPrefixIndex(*memory_));
    ASSERT_EQ(memory_->Usage().live_sequences, reference_.sequences.size());
    for (auto& [handle, sequence] : reference_.sequences) {
      ASSERT_NO_FATAL_FAILURE(ExpectCells(handle, &sequence));
      ASSERT_NO_FATAL_FAILURE(ExpectState(handle, sequence));
    }
    if (!step_is_open_ && !rewind_is_open_ && lent_ == 0) ExpectNothingLeaks();
  }
  void ExpectNothingLeaks() const {
    const DerivedTables& tables = memory_->derived();
    for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
      for (std::uint32_t b = 0; b < meta_.geometry().block_count[group]; ++b) {
        ASSERT_NE(memory_->is_free_block(group, b), tables.blocks[group].is_used(b)) << b;
      }
    }
    for (std::uint32_t slot = 0; slot < meta_.geometry().state_slot_count; ++slot) {
      ASSERT_NE(memory_->is_free_state(slot), tables.states.is_used(slot)) << "state " << slot;
    }
    for (std::uint32_t slot = 0; slot < meta_.geometry().logits_row_count; ++slot) {
      ASSERT_NE(memory_->is_free_logits(slot), tables.logits.is_used(slot)) << "logits " << slot;
    }
  }
  void ExpectCells(SequenceHandle handle, ReferenceSequence* sequence) {
    const Contents contents = ContentsOf(*memory_, handle);
    ASSERT_EQ(contents.tokens.size(), sequence->cells.size());
    for (std::size_t at = 0; at < sequence->cells.size(); ++at) {
      ASSERT_EQ(contents.tokens[at], sequence->cells[at].token);
      ASSERT_EQ(contents.positions[at], sequence->cells[at].position);
    }
    const layout::SequenceRecord& record = Record(handle);
    for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
      const bool is_cross = group == meta_.geometry().cross_group;
      const std::vector<std::uint32_t>& text = texts_[handle];
      const ExtentView view{meta_.entries(record.extents[group]),
                            is_cross ? record.cross_cells : record.cell_count};
      if (is_cross) {
        ASSERT_EQ(text.size(), view.cell_count);
      }
      if (group == 1 && !is_cross) DropCells(view.first_cell(), sequence);
      std::uint32_t ordinal = view.first_cell();
      for (std::size_t e = 0; e < view.entries.size(); ++e) {
        const Piece piece = view.PieceAt(e);
        for (std::uint32_t k = 0; k < piece.count; ++k, ++ordinal) {
          const std::uint32_t id = is_cross ? text[ordinal] : sequence->cells[ordinal].k_id;
          if (has_bytes(group)) {
            ASSERT_EQ(*Tag(group, piece.block, piece.first + k), id) << "group " << group;
          }
        }
      }
    }
  }
  // What is dropped stays so, and nothing in reach goes.
  void DropCells(std::uint32_t first_cell, ReferenceSequence* sequence) const {
    for (std::size_t at = 0; at < sequence->cells.size(); ++at) {
      ReferenceCell& cell = sequence->cells[at];
      if (at >= first_cell) {
        EXPECT_FALSE(cell.is_dropped) << "cell " << at;
      } else {
        EXPECT_GE(sequence->next_pos() - cell.position, window_) << "cell " << at;
        cell.is_dropped = true;
      }
    }
  }
  void ExpectState(SequenceHandle handle, const ReferenceSequence& sequence) {
    if (!has_state_) return;
    const layout::SequenceRecord& record = Record(handle);
    const std::span<const ReferenceCell> cells = sequence.cells;
    ASSERT_EQ(StateIn(record.state_slot), SumOf(cells));
    for (const layout::Checkpoint& checkpoint : meta_.checkpoints(record.checkpoints)) {
      ASSERT_EQ(StateIn(checkpoint.state_slot), SumOf(cells.first(checkpoint.cell_count)))
          << "checkpoint at " << checkpoint.cell_count;
    }
    float row[2];
    if (*memory_->ReadLogits(handle, row)) {
      Sum sum = 0;
      std::memcpy(&sum, row, sizeof sum);
      ASSERT_EQ(sum, SumOf(cells));
    }
  }

  // ---- verbs
  void Verb() {
    switch (In(0, 11)) {
      case 0: return Create();
      case 1:
      case 2: return Fork();
      case 3:
      case 4: return Copy();
      case 5:
      case 6:
      case 7: return Remove();
      case 8: return Drop();
      case 9: return Add();
      case 10: return OneIn(2) ? Publish() : Retain();
      default: return Keep();
    }
  }
  void Create() {
    const Result<SequenceHandle> handle = memory_->Create({1000, SessionId{1}, 0});
    const bool done = Judge("create", reference_.CheckRoom(1), handle);
    if (done) reference_.sequences[*handle] = {};
    Check(done);
  }
  void Fork() {
    const SequenceHandle source = Any();
    const ReferenceSequence* sequence = reference_.Find(source);
    std::optional<std::uint32_t> cells;
    if (sequence != nullptr && OneIn(2)) {
      cells = static_cast<std::uint32_t>(In(0, static_cast<std::int64_t>(sequence->cells.size())));
      const auto checkpoints = meta_.checkpoints(Record(source).checkpoints);
      if (!checkpoints.empty() && OneIn(2)) cells = checkpoints.front().cell_count;
    }
    Code expected = Code::kNotFound;
    ReferenceMemory after = reference_;
    const SequenceHandle unborn = MakeHandle(0, 0);
    if (sequence != nullptr) {
      expected = reference_.CheckFork(source, 1, cells);
      if (has_state_ && cells && !HasCheckpoint(source, *cells)) expected = Code::kNeedsReplay;
      if (expected == Code::kOk) {
        after.Fork(source, unborn, 1000, 1, 0, cells);
        if (IsLost(after, unborn)) expected = Code::kWindowLost;
      }
    }
    SequenceHandle fork{};
    const bool done =
        Judge("fork", expected, memory_->Fork(source, {1000, SessionId{1}, 0}, {&fork, 1}, cells));
    if (done) {
      reference_.Fork(source, fork, 1000, 1, 0, cells);
      texts_[fork] = texts_[source];
    }
    Check(done);
  }
  void Copy() {
    const SequenceHandle source = Any();
    SequenceHandle destination = Any();
    for (const auto& [handle, sequence] : reference_.sequences) {
      if (sequence.cells.empty() && handle != source && !OneIn(3)) destination = handle;
    }
    PosRange range = AnyRange(source);
    if (OneIn(3)) range.begin = Pos{0};
    const auto expected = [&]() -> Code {
      if (source == destination) return Code::kInvalidArgument;
      if (reference_.Find(source) == nullptr) return Code::kNotFound;
      if (const Code code = reference_.CheckMutable(destination); code != Code::kOk) return code;
      const std::uint32_t count = reference_.CountIn(source, range);
      if (count == 0) return Code::kOk;
      const ReferenceSequence& from = *reference_.Find(source);
      const ReferenceSequence& to = *reference_.Find(destination);
      const bool is_prefix = ReferenceMemory::IsIn(from.cells[0], range);
      if (has_state_ && (!is_prefix || !to.cells.empty())) return Code::kUnsupported;
      if (const Code code = reference_.CheckCopy(source, destination, range); code != Code::kOk) {
        return code;
      }
      if (has_state_ && !HasCheckpoint(source, count)) return Code::kNeedsReplay;
      if ((!texts_[destination].empty() || !to.cells.empty()) &&
          texts_[destination] != texts_[source]) {
        return Code::kUnsupported;
      }
      ReferenceMemory after = reference_;
      after.Copy(source, destination, range);
      return IsLost(after, destination) ? Code::kWindowLost : Code::kOk;
    }();
    const Result<std::uint32_t> copied = memory_->CopyRange(source, destination, range);
    const bool done = Judge("copy", expected, copied);
    if (done) {
      ASSERT_EQ(*copied, reference_.Copy(source, destination, range));
      if (*copied > 0) {
        texts_[destination] = texts_[source];
        // Cells before a dropped one go too.
        DropBefore(&reference_.sequences.at(destination));
      }
    }
    Check(done);
  }
  static void DropBefore(ReferenceSequence* sequence) {
    bool is_dropped = false;
    for (std::size_t at = sequence->cells.size(); at-- > 0;) {
      is_dropped |= sequence->cells[at].is_dropped;
      sequence->cells[at].is_dropped = is_dropped;
    }
  }
  Code ExpectedRemoval(SequenceHandle handle, PosRange range) {
    const Code code = reference_.CheckRemove(handle, range);
    if (code != Code::kOk || reference_.CountIn(handle, range) == 0) return code;
    ReferenceMemory after = reference_;
    after.Remove(handle, range);
    const ReferenceSequence& cells = after.sequences.at(handle);
    if (has_state_) {
      const std::vector<ReferenceCell>& old = reference_.Find(handle)->cells;
      const bool is_tail = ReferenceMemory::IsIn(old.back(), range);
      if (!is_tail || !HasCheckpoint(handle, cells.cells.size())) return Code::kNeedsReplay;
    }
    return IsLost(after, handle) ? Code::kWindowLost : Code::kOk;
  }
  void Remove() {
    const SequenceHandle handle = Any();
    PosRange range = AnyRange(handle);
    if (reference_.Find(handle) != nullptr && OneIn(4)) {  // back to a checkpoint
      for (const layout::Checkpoint& c : meta_.checkpoints(Record(handle).checkpoints)) {
        const auto& cells = reference_.Find(handle)->cells;
        if (c.cell_count < cells.size() && OneIn(2)) {
          range = {Pos{static_cast<std::int32_t>(cells[c.cell_count].position)}, kPosEnd};
        }
      }
    }
    const Result<std::uint32_t> removed = memory_->RemoveRange(handle, range);
    const bool done = Judge("remove", ExpectedRemoval(handle, range), removed);
    if (done) {
      ASSERT_EQ(*removed, reference_.Remove(handle, range));
    }
    Check(done);
  }
  void Drop() {
    const SequenceHandle handle = Any();
    const bool done = Judge("drop", reference_.CheckMutable(handle), memory_->Drop(handle));
    if (done) Bury(handle);
    Check(done);
  }
  void Bury(SequenceHandle handle) {
    reference_.sequences.erase(handle);
    texts_.erase(handle);
  }
  void Add() {
    const SequenceHandle handle = Any();
    const PosRange range = AnyRange(handle);
    const auto delta = static_cast<std::int32_t>(OneIn(2) ? In(0, 9) : In(-30, 0));
    Code expected = reference_.CheckAdd(handle, range, delta);
    if (expected == Code::kOk && delta != 0 && reference_.CountIn(handle, range) != 0) {
      ReferenceMemory after = reference_;
      after.Add(handle, range, delta);
      if (IsLost(after, handle)) expected = Code::kWindowLost;
    }
    const bool done = Judge("add", expected, memory_->AddPositions(handle, range, delta));
    if (done) reference_.Add(handle, range, delta);
    Check(done);
  }
  void Publish() {
    const SequenceHandle source = Any();
    const auto existing = reference_.snapshots.find("name");
    const bool replaces = existing != reference_.snapshots.end();
    const Code expected =
        reference_.Find(source) == nullptr ? Code::kNotFound : reference_.CheckRoom(1);
    const Result<SequenceHandle> handle =
        memory_->Publish(source, {1000, SessionId{1}, 0}, "name", true, true);
    const bool done = Judge("publish", expected, handle);
    if (done) {
      reference_.Fork(source, *handle, 1000, 1, 0, std::nullopt);
      reference_.sequences.at(*handle).is_published = true;
      texts_[*handle] = texts_[source];
      if (replaces) Bury(existing->second.sequence);
      reference_.snapshots["name"] = {*handle, 1000, true};
    }
    Check(done);
  }
  void Retain() {
    const SequenceHandle handle = Any();
    const std::uint32_t flag = layout::kSequenceRetained;
    const bool sets = OneIn(2);
    const bool done =
        Judge("retain", reference_.CheckMutable(handle),
              memory_->SetOwner(handle, {1000, SessionId{1}, 0}, sets ? flag : 0, sets ? 0 : flag));
    Check(done);
  }
  void Keep() {
    const SequenceHandle handle = Any();
    const Code expected = reference_.Find(handle) == nullptr ? Code::kNotFound : Code::kOk;
    const bool done = Judge("keep", expected, memory_->KeepCheckpoint(handle));
    Check(done);
  }

  // ---- rewriting, packing
  // A cell that is rewritten: the same K may lie behind several cells of a sequence, so what a cell
  // becomes goes by its place.
  struct Rewritten {
    std::uint32_t at, old_id, new_id;
  };
  class TagRotator : public CellRotator {
   public:
    // `cells`: in their order. Those before a group's first cell are not in it.
    TagRotator(KindEpisode* episode, SequenceHandle handle, std::vector<Rewritten> cells,
               std::int64_t fails_at)
        : episode_(episode), cells_(std::move(cells)), fails_at_(fails_at) {
      if (cells_.empty()) return;
      for (std::uint32_t group = 0; group < next_.size(); ++group) {
        const std::uint32_t first = episode->Record(handle).first_cell[group];
        while (next_[group] < cells_.size() && cells_[next_[group]].at < first) ++next_[group];
      }
    }
    Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell, Pos,
                      BlockId destination_block, std::uint32_t destination_cell, Pos) override {
      if (fails_at_-- == 0) return Fail(Code::kNumerical, "told to fail");
      fails_at_ = std::max<std::int64_t>(fails_at_, 0);
      const auto block = static_cast<std::uint32_t>(destination_block);
      EXPECT_FALSE(episode_->memory_->derived().blocks[group].is_used(block));
      if (next_[group] == cells_.size()) {
        ADD_FAILURE() << "more cells are rewritten than the reference wants";
        return {};
      }
      const Rewritten& cell = cells_[next_[group]++];
      EXPECT_EQ(*episode_->Tag(group, static_cast<std::uint32_t>(source_block), source_cell),
                cell.old_id);
      *episode_->Tag(group, block, destination_cell) = cell.new_id;
      return {};
    }

   private:
    KindEpisode* episode_;
    std::vector<Rewritten> cells_;
    std::array<std::size_t, layout::kGroupsMax> next_ = {};  // by group: of cells_
    std::int64_t fails_at_;                                  // below 0: it has failed
  };
  void Rewrite() {
    const SequenceHandle handle = Any();
    const bool divides = OneIn(2);
    const PosRange range = AnyRange(handle);
    const auto divisor = static_cast<std::int32_t>(In(1, 3));
    Code expected =
        divides ? reference_.CheckDivide(handle, range, divisor) : reference_.CheckMutable(handle);
    ReferenceMemory after = reference_;
    std::vector<Rewritten> cells;
    const std::uint32_t first_id = next_id_;
    if (expected == Code::kOk) {
      if (divides && divisor > 1 && reference_.CountIn(handle, range) > 0) {
        after.Divide(handle, range, divisor, first_id);
      } else if (!divides) {
        after.Settle(handle, true, first_id);
      }
      const auto& old_cells = reference_.Find(handle)->cells;
      const auto& new_cells = after.Find(handle)->cells;
      for (std::size_t at = 0; at < old_cells.size(); ++at) {
        const std::uint32_t old_id = old_cells[at].k_id, new_id = new_cells[at].k_id;
        if (old_id != new_id) cells.push_back({static_cast<std::uint32_t>(at), old_id, new_id});
        next_id_ = std::max(next_id_, new_id + 1);
      }
      if (IsLost(after, handle)) expected = Code::kWindowLost;
    }
    TagRotator rotator(this, handle, std::move(cells), OneIn(6) ? In(0, 20) : INT64_MAX / 2);
    const Result<std::uint32_t> rewritten =
        divides ? memory_->DividePositions(handle, range, divisor, rotator)
                : memory_->Settle(handle, Memory::SettleScope::kAll, rotator);
    if (expected == Code::kOk && !rewritten && rewritten.error().code == Code::kNumerical) {
      expected = Code::kNumerical;
    }
    if (expected == Code::kWindowLost && !rewritten && rewritten.error().code == Code::kNumerical) {
      expected = Code::kNumerical;
    }
    const bool done = Judge(divides ? "divide" : "settle", expected, rewritten);
    if (done) reference_ = after;
    Check(done);
  }
  void Defragment() {
    class Mover : public CellMover {
     public:
      explicit Mover(KindEpisode* episode) : episode_(episode) {}
      void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                     BlockId destination_block, std::uint32_t destination_cell,
                     std::uint32_t count) override {
        for (std::uint32_t k = 0; k < count; ++k) {
          *episode_->Tag(group, static_cast<std::uint32_t>(destination_block),
                         destination_cell + k) =
              *episode_->Tag(group, static_cast<std::uint32_t>(source_block), source_cell + k);
        }
      }

     private:
      KindEpisode* episode_;
    };
    Mover mover(this);
    const bool done = Judge("defragment", Code::kOk,
                            memory_->Defragment(static_cast<std::uint32_t>(In(1, 200)), mover));
    Check(done);
  }

  // ---- steps
  struct Part {
    SequenceHandle handle = SequenceHandle::kNone;
    std::vector<TokenId> tokens;
    bool is_encoding = false;
    std::uint32_t first_id = 0;
    std::uint64_t content_number = 0;
    Sum sum_before = 0;
  };
  Code ExpectedAppend(const Part& part, std::int64_t pos) {
    if (const Code code = reference_.CheckMutable(part.handle); code != Code::kOk) return code;
    const bool is_encoded = !texts_[part.handle].empty();
    if (part.is_encoding) {
      if (!has_encoder_) return Code::kUnsupported;
      return is_encoded ? Code::kExists : Code::kOk;  // no cells without a text
    }
    if (has_encoder_ && !is_encoded) return Code::kInvalidArgument;
    return reference_.CheckAppend(part.handle, pos, part.tokens.size());
  }
  void Step() {
    std::vector<Part> parts(OneIn(3) ? 2 : 1);
    std::vector<AppendRequest> requests;
    std::set<SequenceHandle> taken;
    Code expected = Code::kOk;
    for (Part& part : parts) {
      part.handle = Any();
      const bool is_taken = !taken.insert(part.handle).second;
      part.tokens.resize(static_cast<std::size_t>(OneIn(3) ? In(30, 150) : In(1, 12)));
      for (TokenId& token : part.tokens) token = static_cast<TokenId>(In(0, 999));
      const ReferenceSequence* sequence = reference_.Find(part.handle);
      const std::int64_t pos = sequence == nullptr ? 0 : sequence->next_pos();
      part.is_encoding = has_encoder_ ? texts_[part.handle].empty() != OneIn(20) : OneIn(60);
      requests.push_back({.handle = part.handle,
                          .pos = Pos{part.is_encoding ? 0 : static_cast<std::int32_t>(pos)},
                          .tokens = part.tokens,
                          .is_encoding = part.is_encoding});
      if (expected != Code::kOk) continue;
      expected = ExpectedAppend(part, pos);
      if (expected != Code::kNotFound && expected != Code::kPermission && is_taken) {
        expected = Code::kInvalidArgument;
      }
    }
    for (auto at = texts_.begin(); at != texts_.end();) {
      at = reference_.Find(at->first) == nullptr ? texts_.erase(at) : std::next(at);
    }
    std::size_t failed = 99;
    StepPlan plan;
    const bool reserved = Judge("reserve", expected, memory_->Reserve(requests, &plan, &failed));
    // Checkpoints may be given up for a step that is possible.
    if (!reserved) {
      EXPECT_LT(failed, parts.size());
      return Check(false);
    }
    step_is_open_ = true;
    for (std::size_t index = 0; index < parts.size(); ++index) {
      Compute(&parts[index], plan.sequences[index]);
    }
    Check(has_state_);
    while (OneIn(3) && !testing::Test::HasFatalFailure()) Verb();
    for (std::size_t index = 0; index < parts.size(); ++index) {
      if (testing::Test::HasFatalFailure()) return;
      EndPart(parts[index], &plan, index);
    }
    memory_->EndStep(plan);
    step_is_open_ = false;
    verb_ = "end step";
    Check(true);
  }
  void Compute(Part* part, const StepSequence& step) {
    const ReferenceSequence& sequence = *reference_.Find(part->handle);
    part->content_number = sequence.content_number;
    part->first_id = next_id_;
    next_id_ += static_cast<std::uint32_t>(part->tokens.size());
    part->sum_before = SumOf(sequence.cells);
    for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
      const GroupPart& cells = step.groups[group];
      const bool is_cross = group == meta_.geometry().cross_group;
      const std::size_t past = is_cross ? texts_[part->handle].size() : sequence.cells.size();
      const bool is_written = is_cross == part->is_encoding;
      ASSERT_EQ(cells.cell_count, past + (is_written ? part->tokens.size() : 0));
      ASSERT_EQ(cells.first_cell, cells.view().first_cell());
      if (!is_written) {
        ASSERT_EQ(cells.first_new_extent, cells.extents.size());
      }
      for (std::uint32_t at = cells.first_cell; at < cells.cell_count; ++at) {
        const std::size_t e = FindExtent(cells.view(), at);
        const layout::Extent& extent = cells.extents[e];
        ASSERT_FALSE(memory_->is_free_block(group, extent.block));
        if (!has_bytes(group)) continue;
        std::uint32_t* const tag = Tag(group, extent.block, extent.first + (at - extent.start));
        if (at >= past) {
          ASSERT_GE(e, cells.first_new_extent);
          *tag = part->first_id + (at - static_cast<std::uint32_t>(past));
        } else {
          ASSERT_EQ(*tag, is_cross ? texts_[part->handle][at] : sequence.cells[at].k_id);
        }
      }
    }
    if (!has_state_ || part->is_encoding) return;
    ASSERT_EQ(StateIn(step.state_from), part->sum_before);
    Sum sum = part->sum_before;
    for (const TokenId token : part->tokens) sum = AddToSum(sum, token);
    WriteState(step.state_to, sum);
  }
  void EndPart(const Part& part, StepPlan* plan, std::size_t index) {
    const StepSequence& step = plan->sequences[index];
    if (has_state_ && !part.is_encoding) {  // whatever has happened, it could still be read
      ASSERT_EQ(StateIn(step.state_from), part.sum_before);
    }
    if (OneIn(5)) {  // a kernel's error, a cancel
      memory_->Abandon(*plan, index);
      verb_ = "abandon";
      return Check(false);
    }
    const ReferenceSequence* sequence = reference_.Find(part.handle);
    const bool conflicts = sequence == nullptr || sequence->content_number != part.content_number;
    const bool done =
        Judge("commit", conflicts ? Code::kConflict : Code::kOk, memory_->Commit(*plan, index));
    if (done && part.is_encoding) {
      for (std::uint32_t k = 0; k < part.tokens.size(); ++k) {
        texts_[part.handle].push_back(part.first_id + k);
      }
      ++reference_.sequences.at(part.handle).content_number;
    } else if (done) {
      reference_.Append(part.handle, part.tokens, part.first_id);
    }
    Check(done);
    if (!done || !has_state_) return;
    if (OneIn(3)) Keep();
    if (OneIn(3)) {
      const Sum sum = SumOf(reference_.Find(part.handle)->cells);
      float row[2];
      std::memcpy(row, &sum, sizeof sum);
      Check(Judge("keep logits", Code::kOk, memory_->KeepLogits(part.handle, row)));
    }
  }

  // ---- going back
  void GoBack() {
    const SequenceHandle handle = Any();
    const PosRange range = AnyRange(handle);
    Code expected = reference_.CheckRemove(handle, range);
    if (expected == Code::kOk && reference_.CountIn(handle, range) == 0) {
      expected = Code::kInvalidArgument;
    }
    Rewind rewind;
    std::vector<ReferenceCell> cells;
    if (expected == Code::kOk) {
      ReferenceMemory after = reference_;
      after.Remove(handle, range);
      cells = after.Find(handle)->cells;
    }
    const Status begun = memory_->BeginRewind(handle, range, &rewind);
    // How far back the replay reaches depends on the checkpoint that it starts from.
    if (expected == Code::kOk && !begun && begun.error().code == Code::kWindowLost) {
      EXPECT_NE(window_, 0u);
      expected = Code::kWindowLost;
    }
    if (!Judge("begin rewind", expected, begun)) return Check(false);
    rewind_is_open_ = true;
    ASSERT_EQ(rewind.cell_count, cells.size());
    ASSERT_EQ(rewind.tokens.size(), cells.size() - rewind.replay_from);
    const std::uint64_t content_number = reference_.Find(handle)->content_number;
    if (!rewind.tokens.empty()) {
      EXPECT_FALSE(IsLost(cells, rewind.positions[0].value));
    }
    Check(true);
    Sum sum = SumOf(std::span(cells).first(rewind.replay_from));
    while (rewind.done < rewind.tokens.size() && !testing::Test::HasFatalFailure()) {
      if (OneIn(3)) {
        if (OneIn(2))
          Verb();
        else
          Step();
      }
      // Whatever came in between: the state is still there.
      ASSERT_EQ(StateIn(rewind.done == 0 ? rewind.state_from : rewind.last_slot), sum);
      const std::size_t end = std::min<std::size_t>(rewind.tokens.size(), rewind.done + 20);
      for (; rewind.done < end; ++rewind.done) sum = AddToSum(sum, rewind.tokens[rewind.done]);
      rewind.last_slot = rewind.last_slot == rewind.slots[0] ? rewind.slots[1] : rewind.slots[0];
      WriteState(rewind.last_slot, sum);
    }
    if (testing::Test::HasFatalFailure()) return;
    rewind_is_open_ = false;
    if (OneIn(6)) {
      memory_->AbandonRewind(rewind);
      verb_ = "abandon rewind";
      return Check(false);
    }
    const ReferenceSequence* sequence = reference_.Find(handle);
    const bool conflicts = sequence == nullptr || sequence->content_number != content_number;
    expected = conflicts ? Code::kConflict : Code::kOk;
    if (!conflicts && IsLost(cells, cells.empty() ? 0 : cells.back().position + 1)) {
      expected = Code::kWindowLost;
    }
    const bool done = Judge("commit rewind", expected, memory_->CommitRewind(rewind));
    if (done) reference_.Remove(handle, range);
    Check(done);
  }

  // ---- holds and restores
  void Meanwhile() {
    while (OneIn(2) && !testing::Test::HasFatalFailure()) {
      if (step_is_open_ || OneIn(2)) {
        Verb();
      } else if (OneIn(4)) {
        Defragment();
      } else {
        Step();
      }
    }
  }
  // Holds a sequence, brings what the hold says back as another one, others in between.
  void SaveAndRestore() {
    const SequenceHandle source = Any();
    const ReferenceSequence* found = reference_.Find(source);
    SequenceHold hold;
    const Code expected = found == nullptr ? Code::kNotFound : Code::kOk;
    if (!Judge("hold", expected, memory_->Hold(source, &hold))) return Check(false);
    ++lent_;
    const std::vector<ReferenceCell> cells = found->cells;
    const std::vector<std::uint32_t> text = texts_[source];
    ASSERT_NO_FATAL_FAILURE(ExpectHeld(hold, cells, text));
    ASSERT_NO_FATAL_FAILURE(Check(false));
    ASSERT_NO_FATAL_FAILURE(Meanwhile());
    ASSERT_NO_FATAL_FAILURE(ExpectHeld(hold, cells, text));
    ASSERT_NO_FATAL_FAILURE(RestoreFrom(hold, cells, text));
    ASSERT_NO_FATAL_FAILURE(ExpectHeld(hold, cells, text));
    memory_->ReleaseHold(hold);
    --lent_;
    verb_ = "release hold";
    Check(false);
  }
  void ExpectHeld(const SequenceHold& hold, const std::vector<ReferenceCell>& cells,
                  const std::vector<std::uint32_t>& text) const {
    ASSERT_EQ(hold.info.cell_count, cells.size());
    for (std::uint32_t group = 0; group < hold.group_count; ++group) {
      const GroupPart& part = hold.parts[group];
      const bool is_cross = group == hold.cross_group;
      ASSERT_EQ(part.cell_count, is_cross ? text.size() : cells.size());
      for (std::uint32_t at = part.first_cell; at < part.cell_count; ++at) {
        const layout::Extent& extent = part.extents[FindExtent(part.view(), at)];
        const std::uint32_t cell = extent.first + (at - extent.start);
        ASSERT_FALSE(memory_->is_free_block(group, extent.block));
        if (has_bytes(group)) {
          ASSERT_EQ(*Tag(group, extent.block, cell), is_cross ? text[at] : cells[at].k_id);
        }
        const layout::CellRecord& record = memory_->BlockCells(group, BlockId{extent.block})[cell];
        if (!is_cross) {
          ASSERT_EQ(record.token, cells[at].token);
          ASSERT_EQ(record.stored_pos + std::int64_t{extent.delta}, cells[at].position);
        }
      }
    }
    if (!has_state_) return;
    ASSERT_EQ(StateIn(hold.state_slot), SumOf(cells));
    for (const layout::Checkpoint& checkpoint : hold.checkpoints) {
      ASSERT_EQ(StateIn(checkpoint.state_slot),
                SumOf(std::span(cells).first(checkpoint.cell_count)));
    }
    if (hold.logits_slot == layout::kNoSlot) return;
    Sum sum = 0;
    std::memcpy(&sum, memory_->LogitsBytes(hold.logits_slot), sizeof sum);
    ASSERT_EQ(sum, SumOf(cells));
  }
  void RestoreFrom(const SequenceHold& hold, const std::vector<ReferenceCell>& cells,
                   const std::vector<std::uint32_t>& text) {
    const Result<SequenceHandle> fresh = memory_->Create({1000, SessionId{1}, 0});
    const bool is_created = Judge("create", reference_.CheckRoom(1), fresh);
    if (is_created) reference_.sequences[*fresh] = {};
    Check(is_created);
    if (!is_created) return;
    const SequenceHandle handle = OneIn(10) ? Any() : *fresh;
    std::vector<TokenId> tokens, cross_tokens(text.size(), 7);
    std::vector<Pos> positions;
    for (const ReferenceCell& cell : cells) {
      tokens.push_back(cell.token);
      positions.push_back(Pos{static_cast<std::int32_t>(cell.position)});
    }
    std::vector<std::uint32_t> checkpoints;
    for (const layout::Checkpoint& at : hold.checkpoints) checkpoints.push_back(at.cell_count);
    RestoreRequest request{.handle = handle,
                           .tokens = tokens,
                           .positions = positions,
                           .cross_tokens = cross_tokens,
                           .has_state = has_state_ && !cells.empty(),
                           .checkpoint_cells = checkpoints,
                           .has_logits = hold.logits_slot != layout::kNoSlot};
    for (std::uint32_t group = 1; group < hold.group_count; ++group) {
      if (group != hold.cross_group) request.first_cell[group] = hold.parts[group].first_cell;
    }
    const ReferenceSequence* target = reference_.Find(handle);
    Code expected = reference_.CheckMutable(handle);
    if (expected == Code::kOk && !(target->cells.empty() && texts_[handle].empty())) {
      expected = Code::kExists;
    }
    Restore restore;
    const bool has_begun =
        Judge("begin restore", expected, memory_->BeginRestore(request, &restore));
    for (auto at = texts_.begin(); at != texts_.end();) {
      at = reference_.Find(at->first) == nullptr ? texts_.erase(at) : std::next(at);
    }
    Check(has_state_);  // checkpoints and rows of logits may have been given up
    if (!has_begun) return;
    ++lent_;
    const std::uint64_t content_number = target->content_number;
    std::vector<ReferenceCell> restored = cells;
    std::vector<std::uint32_t> restored_text;
    for (ReferenceCell& cell : restored) {
      cell.shift = 0;
      cell.k_id = next_id_++;
    }
    for (std::size_t at = 0; at < text.size(); ++at) restored_text.push_back(next_id_++);
    Fill(restore, restored, restored_text);
    ASSERT_NO_FATAL_FAILURE(Meanwhile());
    --lent_;
    if (OneIn(4)) {
      memory_->AbandonRestore(restore);
      ++lent_;  // nothing of the hold can be seen to leak yet
      verb_ = "abandon restore";
      Check(false);
      --lent_;
      return;
    }
    target = reference_.Find(handle);
    const bool conflicts = target == nullptr || target->content_number != content_number ||
                           !target->cells.empty() || !texts_[handle].empty() ||
                           target->is_published;
    if (target == nullptr) texts_.erase(handle);
    const bool done = Judge("commit restore", conflicts ? Code::kConflict : Code::kOk,
                            memory_->CommitRestore(restore));
    if (done) {
      ReferenceSequence& sequence = reference_.sequences.at(handle);
      sequence.cells = restored;
      ++sequence.content_number;
      texts_[handle] = restored_text;
    }
    Check(done);
  }
  void Fill(const Restore& restore, const std::vector<ReferenceCell>& cells,
            const std::vector<std::uint32_t>& text) {
    for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
      const GroupPart& part = restore.parts[group];
      const bool is_cross = group == meta_.geometry().cross_group;
      if (!has_bytes(group)) continue;
      for (std::uint32_t at = part.first_cell; at < part.cell_count; ++at) {
        const layout::Extent& extent = part.extents[FindExtent(part.view(), at)];
        *Tag(group, extent.block, at - extent.start) = is_cross ? text[at] : cells[at].k_id;
      }
    }
    const Sum sum = SumOf(cells);
    if (restore.state_slot != layout::kNoSlot) WriteState(restore.state_slot, sum);
    if (restore.logits_slot != layout::kNoSlot) {
      std::memcpy(memory_->LogitsBytes(restore.logits_slot), &sum, sizeof sum);
    }
    for (const layout::Checkpoint& checkpoint : restore.checkpoints) {
      WriteState(checkpoint.state_slot, SumOf(std::span(cells).first(checkpoint.cell_count)));
    }
  }

  std::mt19937_64 random_;
  KindTally* tally_;
  const bool has_state_;
  const bool has_encoder_;
  std::uint32_t window_ = 0;
  std::unique_ptr<UnifiedMemory> memory_;
  ConstMetaView meta_;
  ReferenceMemory reference_;
  std::map<SequenceHandle, std::vector<std::uint32_t>> texts_;  // ids of the encoded cells
  std::uint32_t next_id_ = 1;
  std::uint32_t digest_ = 0;
  bool step_is_open_ = false;
  bool rewind_is_open_ = false;
  int lent_ = 0;  // holds and restores that are open
  const char* verb_ = "";
};

TEST(MemoryKindsModelTest, RandomOperationsDoWhatTheReferenceDoesForEveryKind) {
  const char* const seed_text = std::getenv("KVD_TEST_SEED");
  const std::uint64_t seed =
      seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : std::random_device()();
  const char* const scale = std::getenv("KVD_TEST_SCALE");
  const auto operations =
      static_cast<std::uint64_t>(40000 * (scale == nullptr ? 1.0 : std::strtod(scale, nullptr)));
  std::printf("KVD_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  KindTally tally;
  for (std::uint64_t number = 0; tally.operations < operations; ++number) {
    KindEpisode episode(seed + number, static_cast<Kind>(number % kKindCount), &tally);
    const std::uint64_t end = tally.operations + 400;
    while (tally.operations < end) {
      episode.Operate();
      ASSERT_FALSE(HasFailure()) << "KVD_TEST_SEED=" << seed << " episode " << number;
    }
  }
  for (const auto& [name, count] : tally.codes) {
    std::printf("  %-32s %8llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
  if (operations < 10000) return;
  // What this test is for has happened.
  for (const char* name :
       {"remove window_lost", "remove needs_replay", "fork needs_replay", "fork window_lost",
        "commit conflict", "commit rewind ok", "commit rewind conflict", "reserve no_space",
        "reserve exists", "copy unsupported", "keep logits ok", "begin rewind no_space"}) {
    EXPECT_GT(tally.codes[name], 0u) << name;
  }
}

}  // namespace
}  // namespace kvd
