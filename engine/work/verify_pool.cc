#include "engine/work/verify_pool.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "engine/forward/pass/cache_planes.h"
#include "engine/memory/memory.h"

namespace kvd {
namespace {

using layout::kBlockCells;

class PoolCheck {
 public:
  explicit PoolCheck(Memory& memory) : memory_(memory) {}

  // Describes the first part of the sequence with a value that is not finite; nullopt: all values
  // of the sequence are finite.
  std::optional<std::string> Find(const SequenceHold& sequence) {
    for (std::uint32_t group = 0; group < sequence.group_count; ++group) {
      const GroupPart& part = sequence.parts[group];
      const ExtentView view{part.extents, part.cell_count};
      for (std::size_t index = 0; index < view.entries.size(); ++index) {
        const BlockRange range = view.RangeAt(index);
        const std::uint64_t cells = ((1ull << range.count) - 1) << range.first;
        if ((BadCells(group, range.block) & cells) != 0) {
          return Concat("block ", range.block, " of group ", group, ": K or V is not finite");
        }
      }
    }
    if (!IsSoundState(sequence.state_slot)) return "state: not finite";
    for (const layout::Checkpoint& checkpoint : sequence.checkpoints) {
      if (!IsSoundState(checkpoint.state_slot)) {
        return Concat("checkpoint at ", checkpoint.cell_count, " cells: not finite");
      }
    }
    if (sequence.logits_slot != layout::kNoSlot &&
        !AllFinite(kernels::DataType::kF32, memory_.LogitsBytes(sequence.logits_slot),
                   memory_.geometry().logits_bytes / sizeof(float))) {
      return "logits: not finite";
    }
    return std::nullopt;
  }

 private:
  // In the result, bit c is set if K or V of the block's cell c is not finite.
  std::uint32_t BadCells(std::uint32_t group, std::uint32_t block) {
    const auto [found, is_new] = blocks_.try_emplace({group, block}, 0);
    if (!is_new) return found->second;
    if (memory_.geometry().groups[group].layers.empty()) return 0;
    const std::byte* const bytes = memory_.BlockBytes(group, BlockId{block});
    const layout::MetaGeometry& meta = memory_.geometry().meta;
    for (const LayerLayout& layer : memory_.geometry().groups[group].layers) {
      for (std::uint32_t head = 0; head < layer.kv_head_count; ++head) {
        found->second |= BadRows(static_cast<kernels::DataType>(meta.k_type),
                                 bytes + layer.k_offset + std::size_t{head} * layer.k_head_bytes,
                                 layer.k_row_bytes);
        if (layer.values_in_keys) continue;
        found->second |= BadRows(static_cast<kernels::DataType>(meta.v_type),
                                 bytes + layer.v_offset + std::size_t{head} * layer.v_head_bytes,
                                 layer.v_row_bytes);
      }
    }
    return found->second;
  }
  static std::uint32_t BadRows(kernels::DataType type, const std::byte* rows,
                               std::size_t row_bytes) {
    const std::size_t elements =
        row_bytes / kernels::BytesPerBlock(type) * kernels::ElementsPerBlock(type);
    if (AllFinite(type, rows, elements * kBlockCells)) return 0;
    std::uint32_t bad = 0;
    for (std::uint32_t cell = 0; cell < kBlockCells; ++cell) {
      if (!AllFinite(type, rows + cell * row_bytes, elements)) bad |= 1u << cell;
    }
    return bad;
  }
  bool IsSoundState(std::uint32_t slot) {
    if (slot == layout::kNoSlot) return true;
    const auto [found, is_new] = states_.try_emplace(slot, true);
    if (is_new) {
      // A slot of states is padded with zeros after the state.
      found->second = AllFinite(kernels::DataType::kF32, memory_.StateBytes(slot),
                                memory_.geometry().meta.state_slot_bytes / sizeof(float));
    }
    return found->second;
  }

  Memory& memory_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> blocks_;  // by group and block
  std::map<std::uint32_t, bool> states_;
};

SnapshotInfo SnapshotOf(const Memory& memory, SequenceHandle handle) {
  for (const SnapshotInfo& snapshot : memory.snapshots().List()) {
    if (snapshot.sequence == handle) return snapshot;
  }
  return {};
}

}  // namespace

std::vector<LostSequence> DropWhatIsNotFinite(Memory& memory) {
  PoolCheck check(memory);
  std::vector<LostSequence> lost;
  for (const SequenceInfo& info : memory.sequences().List()) {
    SequenceHold hold;
    if (!memory.holds().Begin(info.handle, &hold)) continue;
    std::optional<std::string> found = check.Find(hold);
    memory.holds().Release(hold);
    if (!found) continue;
    const bool is_published = (info.flags & layout::kSequencePublished) != 0;
    SnapshotInfo snapshot = is_published ? SnapshotOf(memory, info.handle) : SnapshotInfo();
    const Status dropped = is_published
                               ? memory.snapshots().Unpublish(snapshot.name, snapshot.owner)
                               : memory.sequences().Drop(info.handle);
    if (!dropped) *found += "; it could not be dropped: " + dropped.error().message;
    lost.push_back({info.handle, std::move(snapshot.name), std::move(*found)});
  }
  return lost;
}

}  // namespace kvd
