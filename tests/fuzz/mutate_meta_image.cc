#include "tests/fuzz/mutate_meta_image.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "shm/segment_layout.h"
#include "tests/fuzz/meta_image.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t byte_count,
                                        std::size_t byte_count_max);

namespace kvd::fuzz {
namespace {

using layout::Extent;
using layout::ListRoot;
using layout::SequenceRecord;

class Mutator {
 public:
  Mutator(const layout::MetaGeometry& geometry, std::span<std::uint8_t> image, unsigned seed)
      : geometry_(geometry), tables_(image.subspan(kImageStart)), random_(seed) {
    at_.snapshots = geometry.sequence_capacity * sizeof(SequenceRecord);
    at_.sessions =
        at_.snapshots + std::size_t{geometry.snapshot_capacity} * sizeof(layout::SnapshotRecord);
    at_.histories =
        at_.sessions + std::size_t{geometry.session_capacity} * sizeof(layout::SessionRecord);
    at_.lists = at_.histories + HistoryBytes(geometry);
    at_.cells = at_.lists + std::size_t{geometry.list_unit_count} * layout::kListUnitBytes;
  }

  std::size_t Below(std::size_t end) { return random_() % end; }

  // Changes a 32-bit number at a chosen place; in one of eight calls, a 64-bit number.
  void Change() {
    if (Below(8) == 0) return ChangeLong();
    const std::size_t at = Place() / 4 * 4;
    std::uint32_t value = 0;
    if (at + sizeof value > tables_.size()) return;
    std::memcpy(&value, &tables_[at], sizeof value);
    value = Changed(value);
    std::memcpy(&tables_[at], &value, sizeof value);
  }

 private:
  // Changes a number of 64 bits, such as an owner, a session or a request.
  void ChangeLong() {
    constexpr std::uint64_t kEdges[] = {0,          1,          0xffff'ffff, 0x1'0000'0000,
                                        1ull << 63, ~0ull >> 1, ~0ull,       ~0ull - 1};
    const std::size_t at = Place() / 8 * 8;
    const std::uint64_t value = kEdges[Below(std::size(kEdges))];
    if (at + sizeof value <= tables_.size()) std::memcpy(&tables_[at], &value, sizeof value);
  }

  template <class T>
  std::optional<T> Read(std::size_t at) const {
    T read;
    if (at > tables_.size() || tables_.size() - at < sizeof read) return std::nullopt;
    std::memcpy(&read, &tables_[at], sizeof read);
    return read;
  }

  std::size_t Place() {
    switch (Below(11)) {
      case 0:
      case 1: return LiveSequence() + Below(sizeof(SequenceRecord));
      case 2:
      case 3: return Entry().value_or(at_.lists) + Below(sizeof(Extent));
      case 4: return Cell() + Below(sizeof(layout::CellRecord));
      case 5: return at_.snapshots + Below(at_.sessions - at_.snapshots);
      case 6: return at_.sessions + Below(at_.histories - at_.sessions);
      case 7: return tables_.size() - std::min(tables_.size(), kCommitBytes) + Below(kCommitBytes);
      case 8: return Edit();
      default: return Below(tables_.size());
    }
  }

  // Returns the offset of a live sequence's record; 0, the first record, if no sequence is live.
  std::size_t LiveSequence() {
    std::vector<std::size_t> live;
    for (std::size_t at = 0; at < at_.snapshots; at += sizeof(SequenceRecord)) {
      const auto record = Read<SequenceRecord>(at);
      if (record && (record->flags & layout::kSequenceLive) != 0) live.push_back(at);
    }
    return live.empty() ? 0 : live[Below(live.size())];
  }
  // Returns an offset inside one of a sequence's first four edit records.
  std::size_t Edit() {
    const std::size_t index = LiveSequence() / sizeof(SequenceRecord);
    return at_.histories + (index * layout::kEditsKept + Below(4)) * sizeof(layout::EditRecord) +
           Below(sizeof(layout::EditRecord));
  }
  // Returns the offset of an entry in a live sequence's list of extents or checkpoints.
  std::optional<std::size_t> Entry() { return EntryOf(Below(geometry_.group_count + 1)); }
  std::optional<std::size_t> EntryOf(std::size_t group) {
    const auto record = Read<SequenceRecord>(LiveSequence());
    if (!record) return std::nullopt;
    const bool is_checkpoint = group == geometry_.group_count;
    const ListRoot& root = is_checkpoint ? record->checkpoints : record->extents[group];
    if (root.first_unit >= geometry_.list_unit_count || root.entry_count == 0) return std::nullopt;
    return at_.lists + std::size_t{root.first_unit} * layout::kListUnitBytes +
           Below(root.entry_count) * sizeof(Extent);
  }
  // Returns the offset of a cell of a live sequence; of the group's first cell if the sequence has
  // none.
  std::size_t Cell() {
    const std::size_t group = Below(geometry_.group_count);
    std::size_t cell = 0;
    if (const auto entry = EntryOf(group)) {
      const Extent extent = Read<Extent>(*entry).value_or(Extent{});
      cell = std::size_t{extent.block} * layout::kBlockCells + Below(layout::kBlockCells);
    }
    for (std::size_t before = 0; before < group; ++before) {
      cell += std::size_t{geometry_.block_count[before]} * layout::kBlockCells;
    }
    return at_.cells + cell * sizeof(layout::CellRecord);
  }

  std::uint32_t Changed(std::uint32_t value) {
    switch (Below(7)) {
      case 0: return static_cast<std::uint32_t>(Below(48));
      case 1: return value + 1;
      case 2: return value - 1;
      case 3: return value ^ 1u << Below(32);
      case 4: return Read<std::uint32_t>(Below(tables_.size()) / 4 * 4).value_or(value);
      case 5: return NearLimit();
      default: {
        constexpr std::uint32_t kEdges[] = {0u,          1u,          0x7fffffffu, 0x80000000u,
                                            0xffffffffu, 0xfffffffeu, 0x7ffffffeu};
        return kEdges[Below(std::size(kEdges))];
      }
    }
  }
  // Returns the number of sequences, blocks or another resource, or a number one less or one more.
  std::uint32_t NearLimit() {
    const std::uint32_t limits[] = {geometry_.sequence_capacity,
                                    geometry_.snapshot_capacity,
                                    geometry_.state_slot_count,
                                    geometry_.logits_row_count,
                                    geometry_.list_unit_count,
                                    layout::kBlockCells,
                                    geometry_.block_count[Below(geometry_.group_count)]};
    return limits[Below(std::size(limits))] - 1 + static_cast<std::uint32_t>(Below(3));
  }

  // Offsets of an image's parts after the sequences.
  struct Places {
    std::size_t snapshots = 0, sessions = 0, histories = 0, lists = 0, cells = 0;
  };

  const layout::MetaGeometry& geometry_;
  const std::span<std::uint8_t> tables_;
  std::minstd_rand random_;
  Places at_;
};

}  // namespace

std::size_t MutateMetaImage(const layout::MetaGeometry& geometry, std::uint8_t* data,
                            std::size_t byte_count, std::size_t byte_count_max, unsigned seed) {
  if (byte_count < kImageStart + 4) return LLVMFuzzerMutate(data, byte_count, byte_count_max);
  Mutator mutator(geometry, {data, byte_count}, seed);
  if (mutator.Below(16) == 0) return LLVMFuzzerMutate(data, byte_count, byte_count_max);
  if (mutator.Below(8) == 0) data[1] ^= static_cast<std::uint8_t>(1u << mutator.Below(2));
  for (std::size_t change = 0, changes = 1 + mutator.Below(4); change < changes; ++change) {
    mutator.Change();
  }
  return byte_count;
}

}  // namespace kvd::fuzz
