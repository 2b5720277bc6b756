// Any bytes as the tables of a `meta` that an earlier process left (tests/fuzz/meta_image.h), with
// the sums put right, which no mutation would hit. Attaching drops what is damaged or refuses all of
// it by name; the memory that results satisfies the invariants of the model tests and serves verbs.
//
// Seeds: make_meta_attach_corpus DIRECTORY.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"
#include "tests/fuzz/meta_image.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

namespace {

using namespace kvd;

constexpr CellLimits kLimits{.vocab_size = 1000, .key_forms = 2};
constexpr SequenceOwner kOwner{.uid = 1000, .session = SessionId{1}};

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

// The derived tables are those of the bytes, nothing leaks, and the index holds what is pristine.
void CheckMemory(const UnifiedMemory& memory) {
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
  for (const SequenceInfo& info : memory.Sequences()) {
    const std::uint32_t index = IndexOf(info.handle);
    KVD_ASSERT(memory.prefixes().contains(index));
    KVD_ASSERT(memory.ReadCells(info.handle, 0, info.pristine_cells, &tokens, &positions));
    if (geometry.cross_group != layout::kNoSlot) tokens.clear();
    KVD_ASSERT(memory.prefixes().Tokens(index) == tokens);
  }
}

void Append(Memory& memory, SequenceHandle handle, std::size_t count, bool is_encoding) {
  const Result<SequenceInfo> info = memory.Query(handle);
  if (!info) return;
  const std::vector<TokenId> tokens(count, 7);
  const AppendRequest request{.handle = handle,
                              .pos = is_encoding ? Pos{0} : info->next_pos,
                              .tokens = tokens,
                              .is_encoding = is_encoding};
  StepPlan plan;
  if (!memory.Reserve({&request, 1}, &plan, nullptr)) return;
  (void)memory.Commit(plan, 0);
  memory.EndStep(plan);
}

// A few verbs on one sequence, whatever it is; which ones depends on `choice`.
void Serve(UnifiedMemory& memory, SequenceHandle handle, std::uint32_t choice) {
  const Result<SequenceInfo> info = memory.Query(handle);
  if (!info) return;
  KVD_ASSERT(memory.QueryUse(handle).has_value());
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  KVD_ASSERT(memory.ReadCells(handle, 0, ~0u, &tokens, &positions));
  KVD_ASSERT(tokens.size() == info->cell_count);
  const Pos middle{static_cast<std::int32_t>(info->next_pos.value / 2)};
  Mover mover;
  Rotator rotator;
  switch (choice % 12) {
    case 0: {
      SequenceHandle forks[2] = {};
      (void)memory.Fork(handle, kOwner, forks);
      Append(memory, forks[0], 3, false);
      break;
    }
    case 1: Append(memory, handle, 1 + choice % 40, false); break;
    case 2: {
      const PosRange range{middle, kPosEnd};
      const Result<std::uint32_t> removed = memory.RemoveRange(handle, range);
      if (removed || removed.error().code != Code::kNeedsReplay) break;
      Rewind rewind;
      if (memory.BeginRewind(handle, range, &rewind)) memory.AbandonRewind(rewind);
      break;
    }
    case 3: (void)memory.AddPositions(handle, {middle, kPosEnd}, 3); break;
    case 4: (void)memory.Retain(handle); break;
    case 5: (void)memory.Publish(handle, kOwner, "fuzz", true, true); break;
    case 6: (void)memory.Drop(handle); break;
    case 7: {
      tokens.push_back(7);
      const Result<SequenceHandle> made = memory.Create(info->owner);
      if (made) (void)memory.TakePrefix({.destination = *made, .tokens = tokens});
      break;
    }
    case 8: (void)memory.KeepCheckpoint(handle); break;
    case 9: (void)memory.Settle(handle, Memory::SettleScope::kAll, rotator); break;
    case 10: (void)memory.Defragment(64, mover); break;
    default: Append(memory, handle, 5, true); break;
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
  std::vector<LostSequence> lost;
  auto attached = UnifiedMemory::Attach(std::move(*segments), kLimits, &lost);
  if (!attached) {
    KVD_ASSERT(attached.error().message.starts_with("meta: ") ||
               attached.error().message.starts_with("commit record: "));
    return;
  }
  for (const LostSequence& one : lost) {
    KVD_ASSERT(one.reason.starts_with("meta: sequence ") && !(*attached)->Query(one.handle));
  }
  CheckMemory(**attached);
  // The same bytes give the same verbs.
  std::uint32_t choice = Crc32c(0, image);
  for (int round = 0; round < 2; ++round) {
    for (const SequenceInfo& info : (*attached)->Sequences()) {
      choice = choice * 1664525 + 1013904223;
      Serve(**attached, info.handle, choice >> 16);
      CheckMemory(**attached);
    }
  }
  for (const SnapshotInfo& snapshot : (*attached)->Snapshots()) {
    KVD_ASSERT((*attached)->Unpublish(snapshot.name).has_value());
  }
  for (const SequenceInfo& info : (*attached)->Sequences()) {
    KVD_ASSERT((*attached)->Drop(info.handle).has_value());
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

// Mostly a few aligned numbers in place: a byte more or less would shift every table behind it.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned int seed) {
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random()) % end; };
  constexpr std::size_t kStart = kvd::fuzz::kImageStart;
  if (size < kStart + 4 || below(16) == 0) return LLVMFuzzerMutate(data, size, size_max);
  if (below(8) == 0) data[1] ^= static_cast<std::uint8_t>(1u << below(2));
  const std::size_t words = (size - kStart) / 4;
  // The records of sequences come first, and lists lie in front of the cells.
  constexpr std::size_t kReaches[] = {384, 2400, 1u << 16};
  const std::size_t reach = std::min(words, kReaches[below(3)]);
  for (std::size_t change = 0; change <= below(4); ++change) {
    std::uint8_t* const at = data + kStart + 4 * below(reach);
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    switch (below(6)) {
      case 0: value = static_cast<std::uint32_t>(below(48)); break;
      case 1: value += 1; break;
      case 2: value -= 1; break;
      case 3: value ^= 1u << below(32); break;
      case 4: std::memcpy(&value, data + kStart + 4 * below(words), sizeof value); break;
      default: {
        constexpr std::uint32_t kEdges[] = {0u,          1u,          0x7fffffffu, 0x80000000u,
                                            0xffffffffu, 0xfffffffeu, 0x7ffffffeu};
        value = kEdges[below(std::size(kEdges))];
        break;
      }
    }
    std::memcpy(at, &value, sizeof value);
  }
  return size;
}
