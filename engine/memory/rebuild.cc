// Order of trust: the header says where things are only after its own sums and the size agree; a
// record is read only inside the parts so found; a list only inside the arena; a cell only inside
// its block. Everything read is checked before it is used as an index or a count.
#include "engine/memory/rebuild.h"

#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine/memory/commit_log.h"
#include "engine/memory/extents.h"
#include "shm/crc32c.h"
#include "shm/ids.h"

namespace kvd {
namespace {

using layout::kBlockCells;
using layout::kNoSlot;

constexpr std::uint32_t kFlagsKnown = layout::kSequenceLive | layout::kSequenceRetained |
                                      layout::kSequencePinned | layout::kSequencePublished |
                                      layout::kSequenceEdited;
constexpr std::int64_t kLastPos = std::numeric_limits<std::int32_t>::max() - 1;
constexpr std::uint32_t kCellsMax = std::numeric_limits<std::int32_t>::max();  // of one sequence

std::unexpected<Error> Corrupt(const std::string& field, const std::string& text) {
  return Fail(Code::kCorrupt, "meta: " + field + ": " + text);
}
std::unexpected<Error> Corrupt(const std::string& field, std::uint64_t found) {
  return Corrupt(field, std::to_string(found));
}
std::string Name(const char* table, std::uint32_t index) {
  return std::string(table) + " " + std::to_string(index);
}

template <class T, std::size_t count>
bool IsZero(const T (&values)[count]) {
  for (const T& value : values) {
    if (value != T{}) return false;
  }
  return true;
}

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

// --------------------------------------------------------------------------------------- sequences

Status ValidateListRoot(ConstMetaView meta, const std::string& name, const layout::ListRoot& root) {
  if (root.capacity_units == 0) {
    if (!(root == kEmptyList)) return Corrupt(name, "an empty list with entries or a place");
    return {};
  }
  const std::uint32_t unit_count = meta.geometry().list_unit_count;
  if (root.first_unit >= unit_count || root.capacity_units > unit_count - root.first_unit) {
    return Corrupt(name + " first_unit", std::to_string(root.first_unit) + " + " +
                                             std::to_string(root.capacity_units) + " of " +
                                             std::to_string(unit_count) + " units");
  }
  const std::uint64_t room =
      std::uint64_t{root.capacity_units} * (layout::kListUnitBytes / sizeof(layout::Extent));
  if (root.entry_count == 0 || root.entry_count > room) {
    return Corrupt(name + " entry_count", root.entry_count);
  }
  if (Crc32c(0, std::as_bytes(meta.entries(root))) != root.crc) {
    return Corrupt(name + " crc", "does not match");
  }
  return {};
}

Status ValidateExtents(ConstMetaView meta, const std::string& name, ExtentView view) {
  if (view.entries.empty()) {
    if (view.cell_count != 0) return Corrupt(name + " cell_count", view.cell_count);
    return {};
  }
  if (view.entries[0].start != 0) return Corrupt(name + " extent 0 start", view.entries[0].start);
  for (std::size_t index = 0; index < view.entries.size(); ++index) {
    const layout::Extent& extent = view.entries[index];
    const auto field = [&](const char* which) {
      return name + " extent " + std::to_string(index) + " " + which;
    };
    if (extent.block >= meta.geometry().block_count[0]) {
      return Corrupt(field("block"), extent.block);
    }
    if (extent.reserved != 0) return Corrupt(field("reserved"), extent.reserved);
    if (extent.first >= kBlockCells) return Corrupt(field("first"), extent.first);
    const std::uint32_t end = view.EndOf(index);
    if (end <= extent.start || end - extent.start > kBlockCells - extent.first) {
      return Corrupt(field("end"), std::to_string(end) + " with start " +
                                       std::to_string(extent.start) + " and first " +
                                       std::to_string(extent.first));
    }
    // Normal form: an edit uncounts pieces that it has joined, so they must have been counted as
    // one.
    if (index > 0 && view.entries[index - 1].block == extent.block &&
        view.entries[index - 1].delta == extent.delta &&
        view.entries[index - 1].first + view.CountOf(index - 1) == extent.first) {
      return Corrupt(field("first"), "goes on where the extent before it ends");
    }
  }
  return {};
}

// Cells, positions, and the fields of the record that follow from them. REQUIRES: the extents are
// valid.
Status ValidateCells(ConstMetaView meta, const std::string& name,
                     const layout::SequenceRecord& record, ExtentView view) {
  std::int64_t last = -1;
  std::uint32_t ordinal = 0;
  if (record.pristine_cells > record.cell_count) {
    return Corrupt(name + " pristine_cells", record.pristine_cells);
  }
  for (std::size_t index = 0; index < view.entries.size(); ++index) {
    const Piece piece = view.PieceAt(index);
    for (std::uint32_t cell = piece.first; cell < piece.first + std::uint32_t{piece.count};
         ++cell, ++ordinal) {
      const layout::CellRecord& cell_record = meta.cells(piece.block)[cell];
      const auto field = [&](const char* which) {
        return name + " cell " + std::to_string(ordinal) + " " + which;
      };
      if (cell_record.check != CellCheck(cell_record.token, cell_record.stored_pos, 0, piece.block,
                                         cell, cell_record.key_form)) {
        return Corrupt(field("check"), "does not match");
      }
      if (cell_record.key_form >= layout::kKeyFormsMax) {
        return Corrupt(field("key_form"), cell_record.key_form);
      }
      if (cell_record.stored_pos < 0) {
        return Corrupt(field("stored_pos"), std::to_string(cell_record.stored_pos));
      }
      const std::int64_t position = std::int64_t{cell_record.stored_pos} + piece.delta;
      if (position < 0 || position > kLastPos || position < last) {
        return Corrupt(field("position"),
                       std::to_string(position) + " after " + std::to_string(last));
      }
      if (ordinal < record.pristine_cells && position != ordinal) {
        return Corrupt(field("position"), std::to_string(position) + " but pristine");
      }
      last = position;
    }
  }
  if (record.next_pos != last + 1) {
    return Corrupt(name + " next_pos",
                   std::to_string(record.next_pos) + " after " + std::to_string(last));
  }
  if (((record.flags & layout::kSequenceEdited) != 0) !=
      (record.pristine_cells < record.cell_count)) {
    return Corrupt(name + " flags", "edited and pristine_cells disagree");
  }
  return {};
}

Status ValidateState(ConstMetaView meta, const std::string& name,
                     const layout::SequenceRecord& record) {
  const std::uint32_t slot_count = meta.geometry().state_slot_count;
  const bool needs_slot = slot_count != 0 && record.cell_count != 0;
  if (needs_slot ? record.state_slot >= slot_count : record.state_slot != kNoSlot) {
    return Corrupt(name + " state_slot", record.state_slot);
  }
  if (record.logits_slot != kNoSlot &&
      (record.logits_slot >= meta.geometry().logits_row_count || record.cell_count == 0)) {
    return Corrupt(name + " logits_slot", record.logits_slot);
  }
  KVD_CHECK_OK(ValidateListRoot(meta, name + " checkpoints", record.checkpoints));
  std::uint32_t last = 0;
  for (const layout::Checkpoint& checkpoint : meta.checkpoints(record.checkpoints)) {
    if (checkpoint.cell_count <= last || checkpoint.cell_count > record.cell_count) {
      return Corrupt(name + " checkpoints cell_count", checkpoint.cell_count);
    }
    if (checkpoint.state_slot >= slot_count) {
      return Corrupt(name + " checkpoints state_slot", checkpoint.state_slot);
    }
    if (!IsZero(checkpoint.reserved)) return Corrupt(name + " checkpoints reserved", "not zero");
    last = checkpoint.cell_count;
  }
  return {};
}

Status ValidateOtherState(ConstMetaView meta, const std::string& name,
                          const layout::SequenceRecord& record) {
  KVD_CHECK_OK(ValidateState(meta, name, record));
  if (record.cross_slot != kNoSlot) return Corrupt(name + " cross_slot", record.cross_slot);
  for (std::uint32_t group = 1; group < layout::kGroupsMax; ++group) {
    if (!(record.extents[group] == kEmptyList)) {
      return Corrupt(name + " extents[" + std::to_string(group) + "]",
                     "of a group that is not there");
    }
  }
  if (!(record.sampler == kEmptyList)) return Corrupt(name + " sampler", "not empty");
  if (!IsZero(record.first_cell)) return Corrupt(name + " first_cell", "not zero");
  if (record.reserved0 != 0 || !IsZero(record.reserved1))
    return Corrupt(name + " reserved", "not zero");
  return {};
}

// --------------------------------------------------------------------------------------- snapshots

// Adds the snapshot to the tables. `owner` is, by sequence index, the snapshot that names it.
Status AddSnapshot(ConstMetaView meta, std::uint32_t index, std::vector<std::uint32_t>* owner,
                   DerivedTables* tables) {
  const layout::SnapshotRecord& record = meta.snapshots()[index];
  const std::string name = Name("snapshot", index);
  const std::size_t name_bytes = ::strnlen(record.name, sizeof record.name);
  for (std::size_t at = name_bytes; at < sizeof record.name; ++at) {
    if (record.name[at] != 0) return Corrupt(name + " name", "bytes behind its end");
  }
  if (name_bytes == 0) {
    if (record.sequence != 0) return Corrupt(name + " sequence", "of a free record");
    return {};
  }
  if (record.is_public > 1) return Corrupt(name + " is_public", record.is_public);
  if (!IsZero(record.reserved)) return Corrupt(name + " reserved", "not zero");
  const auto handle = static_cast<SequenceHandle>(record.sequence);
  const std::uint32_t sequence = IndexOf(handle);
  if (sequence >= meta.geometry().sequence_capacity ||
      meta.sequences()[sequence].generation != GenerationOf(handle) ||
      (meta.sequences()[sequence].flags & layout::kSequencePublished) == 0) {
    return Corrupt(name + " sequence",
                   std::to_string(record.sequence) + " is no published sequence");
  }
  if ((*owner)[sequence] != kNoSlot) {
    return Corrupt(name + " sequence",
                   std::to_string(record.sequence) + " belongs to another snapshot too");
  }
  (*owner)[sequence] = index;
  if (!tables->snapshots_by_name.emplace(std::string(record.name, name_bytes), index).second) {
    return Corrupt(name + " name", "belongs to another snapshot too");
  }
  tables->snapshots.Take(index);
  return {};
}

}  // namespace

Result<ConstMetaView> ValidateHeader(std::span<const std::byte> meta_bytes) {
  using layout::MetaHeader;
  if (meta_bytes.size() < sizeof(MetaHeader)) {
    return Corrupt("size", std::to_string(meta_bytes.size()) + " bytes, less than a header");
  }
  if (reinterpret_cast<std::uintptr_t>(meta_bytes.data()) % alignof(MetaHeader) != 0) {
    return Fail(Code::kInvalidArgument, "meta: the bytes are not aligned");
  }
  const auto& header = *reinterpret_cast<const MetaHeader*>(meta_bytes.data());
  if (header.magic != layout::kMetaMagic) return Corrupt("magic", header.magic);
  if (header.version != layout::kLayoutVersion) {
    return Fail(Code::kVersionMismatch, "meta: version: " + std::to_string(header.version) +
                                            ", this build reads " +
                                            std::to_string(layout::kLayoutVersion));
  }
  if (header.header_crc != Crc32c(0, meta_bytes.first(offsetof(MetaHeader, header_crc)))) {
    return Corrupt("header_crc", "does not match");
  }
  if (header.header_bytes != sizeof(MetaHeader))
    return Corrupt("header_bytes", header.header_bytes);
  if (header.layout_signature != layout::LayoutSignature()) {
    return Fail(Code::kVersionMismatch, "meta: layout_signature: of another build");
  }
  if (header.reserved != 0) return Corrupt("reserved", header.reserved);
  if (header.total_bytes != meta_bytes.size()) {
    return Corrupt("total_bytes", std::to_string(header.total_bytes) + ", but there are " +
                                      std::to_string(meta_bytes.size()));
  }
  KVD_TRY(const MetaOffsets expected, LayOut(header.geometry));
  MetaOffsets found{header.commit_offset,   header.sequences_offset, header.snapshots_offset,
                    header.sessions_offset, header.lists_offset,     {},
                    header.total_bytes};
  std::memcpy(found.cells.data(), header.cells_offset, sizeof header.cells_offset);
  if (found.total_bytes != expected.total_bytes) {
    return Corrupt("total_bytes", std::to_string(found.total_bytes) + ", but the geometry needs " +
                                      std::to_string(expected.total_bytes));
  }
  if (!(found == expected)) return Corrupt("offsets", "not those of the geometry");
  return ConstMetaView(meta_bytes.data(), expected, header.geometry);
}

Status ValidateSequence(ConstMetaView meta, std::uint32_t index) {
  const layout::SequenceRecord& record = meta.sequences()[index];
  const std::string name = Name("sequence", index);
  if (record.generation == 0) return Corrupt(name + " generation", "0");
  if ((record.flags & ~kFlagsKnown) != 0) return Corrupt(name + " flags", record.flags);
  if ((record.flags & layout::kSequenceLive) == 0) {
    if (record.flags != 0) return Corrupt(name + " flags", record.flags);
    return {};
  }
  if (record.cell_count > kCellsMax) return Corrupt(name + " cell_count", record.cell_count);
  KVD_CHECK_OK(ValidateListRoot(meta, name + " extents[0]", record.extents[0]));
  const ExtentView view{meta.entries(record.extents[0]), record.cell_count};
  KVD_CHECK_OK(ValidateExtents(meta, name, view));
  KVD_CHECK_OK(ValidateCells(meta, name, record, view));
  return ValidateOtherState(meta, name, record);
}

Result<DerivedTables> RebuildTables(std::span<const std::byte> meta_bytes) {
  KVD_TRY(ConstMetaView meta, ValidateHeader(meta_bytes));
  if (meta.geometry().group_count != 1) {
    return Fail(Code::kUnsupported,
                "meta: geometry.group_count: " + std::to_string(meta.geometry().group_count) +
                    ", this memory serves 1");
  }
  AlignedBytes copy;
  if (meta.header().commit_word.load(std::memory_order_acquire) != 0) {
    copy.reset(static_cast<std::byte*>(::operator new(meta_bytes.size(), std::align_val_t{64})));
    std::memcpy(copy.get(), meta_bytes.data(), meta_bytes.size());
    KVD_CHECK_OK(CommitLog::Replay(MetaView(copy.get(), meta.offsets(), meta.geometry())));
    meta = ConstMetaView(copy.get(), meta.offsets(), meta.geometry());
  }

  DerivedTables tables(meta.geometry());
  for (std::uint32_t index = 0; index < meta.geometry().sequence_capacity; ++index) {
    KVD_CHECK_OK(ValidateSequence(meta, index));
    const layout::SequenceRecord& record = meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    tables.sequences.Take(index);
    const layout::ListRoot& root = record.extents[0];
    if (root.capacity_units != 0 && !tables.lists.Take(root.first_unit, root.capacity_units)) {
      return Corrupt(Name("sequence", index) + " extents[0]", "overlaps another list");
    }
    if (record.checkpoints.capacity_units != 0 &&
        !tables.lists.Take(record.checkpoints.first_unit, record.checkpoints.capacity_units)) {
      return Corrupt(Name("sequence", index) + " checkpoints", "overlaps another list");
    }
    tables.blocks.AddList({meta.entries(root), record.cell_count}, HolderOf(record.flags));
    tables.AddState(record, meta.checkpoints(record.checkpoints), HolderOf(record.flags), 1);
  }

  std::vector<std::uint32_t> owner(meta.geometry().sequence_capacity, kNoSlot);
  for (std::uint32_t index = 0; index < meta.geometry().snapshot_capacity; ++index) {
    KVD_CHECK_OK(AddSnapshot(meta, index, &owner, &tables));
  }
  for (std::uint32_t index = 0; index < meta.geometry().sequence_capacity; ++index) {
    if ((meta.sequences()[index].flags & layout::kSequencePublished) != 0 &&
        owner[index] == kNoSlot) {
      return Corrupt(Name("sequence", index) + " flags", "published, but no snapshot names it");
    }
  }
  return tables;
}

}  // namespace kvd
