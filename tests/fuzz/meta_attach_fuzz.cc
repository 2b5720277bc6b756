// Uses any bytes as the tables of a file `meta` of an earlier process (tests/fuzz/meta_image.h).
// The fuzz target corrects the checksums of the tables, because a mutation rarely produces correct
// checksums. Attaching drops damaged sequences, or refuses the whole `meta` with a named error. An
// attached memory must be consistent: tables rebuilt from `meta` equal the derived tables, unused
// blocks are free, and the prefix index holds the tokens that prompts may reuse. The memory then
// executes a few operations, such as fork, append and drop, on each sequence, and must stay
// consistent.
//
// Seeds: make_corpus meta_attach FOLDER.
#include <sanitizer/asan_interface.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/memory/holds_and_restores.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"
#include "tests/engine/memory/rewrite_all.h"
#include "tests/fuzz/meta_image.h"
#include "tests/fuzz/mutate_meta_image.h"
#include "tests/support/into.h"

namespace {

using namespace kvd;

constexpr CellLimits kLimits{.vocab_size = 1000, .key_forms = 2};
constexpr SequenceOwner kOwner{.id = OwnerId{1000}, .session = SessionId{1}};

struct Mover final : CellMover {
  void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                 std::uint32_t) override {}
};
struct Rotator final : CellRotator {
  Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                    Pos) override {
    return {};
  }
};

const MemoryGeometry& GeometryOf(fuzz::MetaKind kind) {
  static const auto all = [] {
    std::vector<MemoryGeometry> made;
    for (std::size_t number = 0; number < fuzz::kMetaKinds; ++number) {
      auto geometry = ComputeGeometry(fuzz::OptionsOf(static_cast<fuzz::MetaKind>(number)));
      KVD_ASSERT(geometry.has_value());
      made.push_back(std::move(*geometry));
    }
    return made;
  }();
  return all[static_cast<std::size_t>(kind)];
}

// The bytes between the parts of a `meta` and after the last part belong to no part. While a
// FencedMeta exists, AddressSanitizer detects reads of the bytes between the parts; without it,
// AddressSanitizer does not check reads in a mapping.
class FencedMeta {
 public:
  explicit FencedMeta(MetaView meta) : meta_(meta) {
    Fence(0, sizeof(layout::MetaHeader), meta.offsets().commit);
    const layout::MetaGeometry& geometry = meta.geometry();
    const MetaOffsets& at = meta.offsets();
    Fence(at.sessions, geometry.session_capacity * sizeof(layout::SessionRecord), at.histories);
    Fence(at.histories, fuzz::HistoryBytes(geometry), at.lists);
    Fence(at.lists, std::size_t{geometry.list_unit_count} * layout::kListUnitBytes, at.cells[0]);
    for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
      const bool is_last = group + 1 == geometry.group_count;
      Fence(at.cells[group],
            std::size_t{geometry.block_count[group]} * layout::kBlockCells *
                sizeof(layout::CellRecord),
            is_last ? at.total_bytes : at.cells[group + 1]);
    }
  }
  FencedMeta(const FencedMeta&) = delete;
  FencedMeta& operator=(const FencedMeta&) = delete;
  ~FencedMeta() { ASAN_UNPOISON_MEMORY_REGION(meta_.bytes().data(), meta_.bytes().size()); }

 private:
  // Poisons the bytes between the end of a part and the start of the next one.
  void Fence(std::uint64_t part, std::uint64_t part_bytes, std::uint64_t next) {
    KVD_ASSERT(part + part_bytes <= next);
    ASAN_POISON_MEMORY_REGION(meta_.bytes().data() + part + part_bytes, next - part - part_bytes);
  }

  const MetaView meta_;
};

// Checks that the derived tables match the bytes of `meta`, that every unused block and slot is
// free, and that the prefix index holds the pristine tokens of every sequence that prompts may use.
void CheckMemory(Memory& memory) {
  const Result<DerivedTables> rebuilt = RebuildTables(memory.meta_bytes());
  KVD_ASSERT(rebuilt.has_value());
  const DerivedTables& tables = memory.derived();
  KVD_ASSERT(*rebuilt == tables);
  const layout::MetaGeometry& geometry = memory.geometry().meta;
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    for (std::uint32_t block = 0; block < geometry.block_count[group]; ++block) {
      KVD_ASSERT(memory.is_free_block(group, block) != tables.blocks[group].is_used(block));
    }
  }
  for (std::uint32_t slot = 0; slot < geometry.state_slot_count; ++slot) {
    KVD_ASSERT(memory.is_free_state(slot) != tables.states.is_used(slot));
  }
  for (std::uint32_t slot = 0; slot < geometry.logits_row_count; ++slot) {
    KVD_ASSERT(memory.is_free_logits(slot) != tables.logits.is_used(slot));
  }
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  for (const SequenceInfo& info : memory.sequences().List()) {
    const std::uint32_t index = IndexOf(info.handle);
    KVD_ASSERT(memory.prefix_index().contains(index));
    KVD_ASSERT(memory.holds().ReadCells(info.handle, 0, info.pristine_cells, &tokens, &positions));
    // The index has no tokens of a sequence whose cells no prompt may take.
    if (info.owner.life.is_ephemeral || geometry.cross_group != layout::kNoSlot) tokens.clear();
    KVD_ASSERT(memory.prefix_index().Tokens(index) == tokens);
  }
}

void Append(Memory& memory, SequenceHandle handle, std::size_t count) {
  const Result<SequenceInfo> info = memory.sequences().Query(handle);
  if (!info) return;
  const std::vector<TokenId> tokens(count, 7);
  const AppendRequest request{.handle = handle, .pos = info->next_pos, .tokens = tokens};
  StepPlan plan;
  if (!memory.steps().Reserve({&request, 1}, plan)) return;
  (void)memory.steps().Commit(plan, 0);
  memory.steps().EndStep(plan);
}

void Encode(Memory& memory, SequenceHandle handle, std::size_t count) {
  const std::vector<TokenId> tokens(count, 7);
  Restore restore;
  if (!Into(memory.restores().Begin({.handle = handle, .cross_tokens = tokens}), &restore)) return;
  (void)memory.restores().Commit(restore);
}

// Calls a few verbs on one sequence. `choice` selects the verbs.
void Serve(Memory& memory, SequenceHandle handle, std::uint32_t choice) {
  const Result<SequenceInfo> info = memory.sequences().Query(handle);
  if (!info) return;
  KVD_ASSERT(memory.sequences().QueryUse(handle).has_value());
  const Result<SequenceHistory> history = memory.sequences().QueryHistory(handle);
  KVD_ASSERT(history.has_value() && history->edits.size() <= layout::kEditsKept);
  for (const SequenceEdit& edit : history->edits) KVD_ASSERT(edit.range.begin < edit.range.end);
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  KVD_ASSERT(memory.holds().ReadCells(handle, 0, ~0u, &tokens, &positions));
  KVD_ASSERT(tokens.size() == info->cell_count);
  const Pos middle{static_cast<std::int32_t>(info->next_pos.value / 2)};
  Mover mover;
  Rotator rotator;
  switch (choice % 12) {
    case 0: {
      SequenceHandle forks[2] = {};
      (void)memory.sequences().Fork(handle, kOwner, forks);
      Append(memory, forks[0], 3);
      break;
    }
    case 1: Append(memory, handle, 1 + choice % 40); break;
    case 2: {
      const PosRange range{middle, kPosEnd};
      const Result<std::uint32_t> removed = memory.sequences().RemoveRange(handle, range);
      if (removed || removed.error().code != Code::kNeedsReplay) break;
      Rewind rewind;
      if (Into(memory.states().BeginRewind(handle, range), &rewind)) rewind.reservation.End();
      break;
    }
    case 3: (void)memory.sequences().AddPositions(handle, {middle, kPosEnd}, 3); break;
    case 4: (void)memory.prefixes().Retain(handle); break;
    case 5: (void)memory.snapshots().Publish(handle, kOwner, "fuzz", true, true); break;
    case 6: (void)memory.sequences().Drop(handle); break;
    case 7: {
      tokens.push_back(7);
      const Result<SequenceHandle> made = memory.sequences().Create(info->owner);
      if (made) (void)memory.prefixes().Take({.destination = *made, .tokens = tokens});
      break;
    }
    case 8: (void)memory.states().KeepCheckpoint(handle); break;
    case 9: (void)SettleCells(memory, handle, SettleScope::kAll, rotator); break;
    case 10: (void)memory.block_packer().Advance(64, mover); break;
    default: Encode(memory, handle, 5); break;
  }
}

void Take(std::span<const std::byte> image) {
  const auto kind =
      static_cast<fuzz::MetaKind>(static_cast<std::uint8_t>(image[0]) % fuzz::kMetaKinds);
  const auto flags = static_cast<std::uint8_t>(image[1]);
  const MemoryGeometry& geometry = GeometryOf(kind);
  auto segments = MemorySegments::CreateAnonymous(geometry, {}, 4 * 4096);
  KVD_ASSERT(segments.has_value());
  const MetaView meta = segments->meta.view();
  fuzz::UnpackImage(image, meta);
  if ((flags & fuzz::kKeepsSums) == 0) fuzz::SumUp(meta);
  if ((flags & fuzz::kHasPublishedCommit) != 0) {
    std::uint64_t number = 0;
    std::memcpy(&number, meta.bytes().data() + meta.offsets().commit, sizeof number);
    meta.header().commit_word.store(number);
  }
  const FencedMeta fenced(meta);
  std::vector<LostSequence> lost;
  auto attached = Memory::Attach(std::move(*segments), kLimits, &lost);
  if (!attached) {
    KVD_ASSERT(attached.error().message.starts_with("meta: ") ||
               attached.error().message.starts_with("commit record: "));
    return;
  }
  for (const LostSequence& one : lost) {
    KVD_ASSERT(one.reason.starts_with("meta: sequence ") &&
               !(*attached)->sequences().Query(one.handle));
  }
  CheckMemory(**attached);
  // The selection of verbs depends only on the input.
  std::uint32_t choice = Crc32c(0, image);
  for (int round = 0; round < 2; ++round) {
    for (const SequenceInfo& info : (*attached)->sequences().List()) {
      choice = choice * 1664525 + 1013904223;
      Serve(**attached, info.handle, choice >> 16);
      CheckMemory(**attached);
    }
  }
  for (const SnapshotInfo& snapshot : (*attached)->snapshots().List()) {
    KVD_ASSERT((*attached)->snapshots().Unpublish(snapshot.name, snapshot.owner).has_value());
  }
  for (const SequenceInfo& info : (*attached)->sequences().List()) {
    KVD_ASSERT((*attached)->sequences().Drop(info.handle).has_value());
  }
  CheckMemory(**attached);
  const PoolUsage usage = (*attached)->Usage();
  KVD_ASSERT(usage.free_blocks == usage.total_blocks && usage.live_sequences == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kvd::fuzz::kImageStart) return -1;
  Take(std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned int seed) {
  using kvd::fuzz::MetaKind;
  const auto kind = static_cast<MetaKind>(size == 0 ? 0 : data[0] % kvd::fuzz::kMetaKinds);
  return kvd::fuzz::MutateMetaImage(GeometryOf(kind).meta, data, size, size_max, seed);
}
