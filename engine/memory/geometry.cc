// Every number of the geometry is checked against a limit before any arithmetic, so that no product
// of the layout exceeds 64 bits; an error names the number. Products that depend on the model's
// shapes are checked for overflow one by one.
#include "engine/memory/geometry.h"
#include "base/rounding.h"
#include "base/text.h"
#include "kernels/data_type.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <tuple>

namespace kvd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kBlocksMax = 1u << 26;     // 2^31 cells
constexpr std::uint32_t kRecordsMax = 1u << 20;    // sequences, snapshots, sessions, state slots
constexpr std::uint32_t kListUnitsMax = 1u << 28;  // 64 GiB of lists
constexpr std::uint64_t kWindowPositionsMax = 1u << 30;  // in positions
constexpr std::uint64_t kBlockBytesMax = 1ull << 40;
constexpr std::uint64_t kPoolBytesMax = 1ull << 62;

Status CheckRange(Code code, const char* field, std::uint64_t value, std::uint64_t least,
                  std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return Fail(code, field, ": ", value, ", must be ", least, " to ", most);
}

Status CheckCellType(const char* field, kernels::DataType type) {
  if (kernels::IsCellType(type)) return {};
  return Fail(Code::kInvalidArgument, field, ": ", kernels::DataTypeName(type),
              " cannot hold cells; f32, f16, bf16, q8_0 and q4_0 can");
}

// Bytes of one row of a head.
Result<std::uint32_t> RowBytesOf(const char* field, std::size_t layer, kernels::DataType type,
                                 std::uint32_t dim) {
  constexpr std::uint32_t kDimMax = 1u << 16;
  const std::string name = Concat("layer ", layer, " ", field);
  KVD_CHECK_OK(CheckRange(Code::kInvalidArgument, name.c_str(), dim, 1, kDimMax));
  if (dim % kernels::ElementsPerBlock(type) != 0) {
    return Fail(Code::kInvalidArgument, name, ": ", dim, " is not a multiple of the ",
                kernels::ElementsPerBlock(type), " elements that ", kernels::DataTypeName(type),
                " packs together");
  }
  return static_cast<std::uint32_t>(kernels::RowBytes(type, dim));
}

}  // namespace

std::uint32_t ListUnitsFor(std::uint32_t entry_count) {
  if (entry_count == 0) return 0;
  const std::uint64_t wanted = entry_count + std::max<std::uint64_t>(1, entry_count / 8);
  return static_cast<std::uint32_t>(
      RoundUp(wanted * sizeof(layout::Extent), layout::kListUnitBytes) / layout::kListUnitBytes);
}

std::uint64_t DefaultListUnits(const layout::MetaGeometry& geometry) {
  const std::uint64_t sequences = geometry.sequence_capacity;
  const std::uint64_t forks = std::min(layout::kForksMax, geometry.sequence_capacity);
  std::uint64_t units = geometry.state_slot_count == 0 ? 0 : sequences;
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    const std::uint32_t long_list = std::min(geometry.block_count[group], 1024u);
    units += 4 * sequences + forks * ListUnitsFor(long_list);
  }
  return units;
}

Result<MetaOffsets> LayOut(const layout::MetaGeometry& geometry) {
  const auto check = [](const char* field, std::uint64_t value, std::uint64_t least,
                        std::uint64_t most) {
    return CheckRange(Code::kCorrupt, field, value, least, most);
  };
  KVD_CHECK_OK(check("geometry.block_cells", geometry.block_cells, layout::kBlockCells,
                     layout::kBlockCells));
  KVD_CHECK_OK(check("geometry.group_count", geometry.group_count, 1, layout::kGroupsMax));
  KVD_CHECK_OK(check("geometry.sequence_capacity", geometry.sequence_capacity, 1, kRecordsMax));
  KVD_CHECK_OK(check("geometry.snapshot_capacity", geometry.snapshot_capacity, 0, kRecordsMax));
  KVD_CHECK_OK(check("geometry.session_capacity", geometry.session_capacity, 0, kRecordsMax));
  KVD_CHECK_OK(check("geometry.state_slot_count", geometry.state_slot_count, 0, kRecordsMax));
  KVD_CHECK_OK(check("geometry.logits_row_count", geometry.logits_row_count, 0, kRecordsMax));
  for (const auto& [field, bytes, count] :
       {std::tuple{"geometry.state_slot_bytes", geometry.state_slot_bytes,
                   geometry.state_slot_count},
        std::tuple{"geometry.logits_row_bytes", geometry.logits_row_bytes,
                   geometry.logits_row_count}}) {
    KVD_CHECK_OK(check(field, bytes, count != 0 ? kPageBytes : 0, count != 0 ? kBlockBytesMax : 0));
    KVD_CHECK_OK(check((std::string(field) + " modulo page").c_str(), bytes % kPageBytes, 0, 0));
  }
  KVD_CHECK_OK(check("geometry.list_unit_count", geometry.list_unit_count, 1, kListUnitsMax));
  KVD_CHECK_OK(check("geometry.reserved", geometry.reserved[0] | geometry.reserved[1], 0, 0));
  if (geometry.cross_group != layout::kNoSlot) {
    KVD_CHECK_OK(check("geometry.cross_group", geometry.cross_group, 1,
                       std::uint64_t{geometry.group_count} - 1));
  }
  for (std::uint32_t group = 0; group < layout::kGroupsMax; ++group) {
    const bool used = group < geometry.group_count;
    const std::string name = Concat("[", group, "]");
    KVD_CHECK_OK(check(("geometry.block_count" + name).c_str(), geometry.block_count[group],
                       used ? 1 : 0, used ? kBlocksMax : 0));
    KVD_CHECK_OK(check(("geometry.block_stride_bytes" + name).c_str(),
                       geometry.block_stride_bytes[group], 0, used ? kBlockBytesMax : 0));
    KVD_CHECK_OK(check(("geometry.block_stride_bytes" + name + " modulo page").c_str(),
                       geometry.block_stride_bytes[group] % kPageBytes, 0, 0));
    const bool may_have_window = used && group != 0 && group != geometry.cross_group;
    KVD_CHECK_OK(check(("geometry.window" + name).c_str(), geometry.window[group], 0,
                       may_have_window ? kWindowPositionsMax : 0));
  }

  MetaOffsets offsets;
  offsets.commit = kPageBytes;
  offsets.sequences = offsets.commit + layout::kCommitRecordBytes;
  offsets.snapshots = offsets.sequences +
                      std::uint64_t{geometry.sequence_capacity} * sizeof(layout::SequenceRecord);
  offsets.sessions = offsets.snapshots +
                     std::uint64_t{geometry.snapshot_capacity} * sizeof(layout::SnapshotRecord);
  offsets.histories =
      offsets.sessions + std::uint64_t{geometry.session_capacity} * sizeof(layout::SessionRecord);
  offsets.lists = RoundUp(offsets.histories + std::uint64_t{geometry.sequence_capacity} *
                                                  layout::kEditsKept * sizeof(layout::EditRecord),
                          kPageBytes);
  std::uint64_t end = RoundUp(
      offsets.lists + std::uint64_t{geometry.list_unit_count} * layout::kListUnitBytes, kPageBytes);
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    offsets.cells[group] = end;
    end = RoundUp(end + std::uint64_t{geometry.block_count[group]} * layout::kBlockCells *
                            sizeof(layout::CellRecord),
                  kPageBytes);
  }
  offsets.total_bytes = end;
  return offsets;
}

namespace {

// Computes the layout of one block and fills the group's part of `meta`.
Result<GroupGeometry> ComputeGroup(const MemoryOptions& options, std::size_t number,
                                   layout::MetaGeometry* meta) {
  const GroupOptions& group = options.groups[number];
  const std::string prefix = number == 0 ? "" : Concat("group ", number, " ");
  const auto check = [&](const std::string& field, std::uint64_t value, std::uint64_t least,
                         std::uint64_t most) {
    return CheckRange(Code::kInvalidArgument, (prefix + field).c_str(), value, least, most);
  };
  KVD_CHECK_OK(check("cells", group.cells, 1, std::uint64_t{kBlocksMax} * layout::kBlockCells));
  KVD_CHECK_OK(check("layers", group.layers.size(), 0, 1u << 16));
  KVD_CHECK_OK(
      check("window", group.window, 0, number == 0 || group.is_cross ? 0 : kWindowPositionsMax));
  GroupGeometry geometry;
  for (std::size_t index = 0; index < group.layers.size(); ++index) {
    const LayerShape& shape = group.layers[index];
    KVD_CHECK_OK(
        check(Concat("layer ", index, " kv_head_count"), shape.kv_head_count, 1, 1u << 16));
    LayerLayout layer;
    layer.kv_head_count = shape.kv_head_count;
    layer.values_in_keys = shape.values_in_keys;
    KVD_TRY(layer.k_row_bytes, RowBytesOf("k_dim", index, options.k_type, shape.k_dim));
    layer.k_head_bytes = layer.k_row_bytes * layout::kBlockCells;
    layer.k_offset = geometry.block_bytes;
    geometry.block_bytes += std::uint64_t{layer.k_head_bytes} * layer.kv_head_count;
    if (shape.values_in_keys) {
      KVD_CHECK_OK(RowBytesOf("v_dim", index, options.k_type, shape.v_dim));
      KVD_CHECK_OK(check(Concat("layer ", index, " v_dim"), shape.v_dim, 1, shape.k_dim));
      layer.v_offset = layer.k_offset;
      layer.v_row_bytes = layer.k_row_bytes;
      layer.v_head_bytes = layer.k_head_bytes;
    } else {
      KVD_TRY(layer.v_row_bytes, RowBytesOf("v_dim", index, options.v_type, shape.v_dim));
      layer.v_head_bytes = layer.v_row_bytes * layout::kBlockCells;
      layer.v_offset = geometry.block_bytes;
      geometry.block_bytes += std::uint64_t{layer.v_head_bytes} * layer.kv_head_count;
    }
    KVD_CHECK_OK(check("bytes of one block", geometry.block_bytes, 1, kBlockBytesMax));
    geometry.layers.push_back(layer);
  }
  meta->block_count[number] =
      static_cast<std::uint32_t>((group.cells + layout::kBlockCells - 1) / layout::kBlockCells);
  meta->block_stride_bytes[number] = RoundUp(geometry.block_bytes, kPageBytes);
  meta->window[number] = group.window;
  if (group.is_cross) {
    if (number == 0 || meta->cross_group != layout::kNoSlot) {
      return Fail(Code::kInvalidArgument, "group ", number,
                  " is_cross: not allowed for group 0 or a second group");
    }
    meta->cross_group = static_cast<std::uint32_t>(number);
  }
  return geometry;
}

}  // namespace

Result<PoolBytes> ComputePoolBytes(const layout::MetaGeometry& geometry) {
  PoolBytes pool;
  const auto add = [&](const char* what, std::uint64_t count, std::uint64_t stride_bytes,
                       std::uint64_t* part_bytes) -> Status {
    if (__builtin_mul_overflow(count, stride_bytes, part_bytes) || *part_bytes > kPoolBytesMax ||
        pool.total + *part_bytes > kPoolBytesMax) {
      return Fail(Code::kInvalidArgument, "pool: ", count, " ", what, " of ", stride_bytes,
                  " bytes, at most ", kPoolBytesMax, " bytes together");
    }
    pool.total += *part_bytes;
    return {};
  };
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    KVD_CHECK_OK(add("blocks", geometry.block_count[group], geometry.block_stride_bytes[group],
                     &pool.blocks[group]));
  }
  KVD_CHECK_OK(
      add("state slots", geometry.state_slot_count, geometry.state_slot_bytes, &pool.states));
  KVD_CHECK_OK(
      add("rows of logits", geometry.logits_row_count, geometry.logits_row_bytes, &pool.logits));
  return pool;
}

Result<MemoryGeometry> WithCounts(const MemoryGeometry& wanted, const layout::MetaGeometry& found) {
  MemoryGeometry geometry = wanted;
  geometry.meta = found;
  KVD_TRY(geometry.offsets, LayOut(found));
  KVD_TRY(geometry.pool, ComputePoolBytes(found));
  return geometry;
}

bool IsResized(const layout::MetaGeometry& a, const layout::MetaGeometry& b) {
  layout::MetaGeometry resized = a;
  std::ranges::copy(b.block_count, std::begin(resized.block_count));
  resized.sequence_capacity = b.sequence_capacity;
  resized.snapshot_capacity = b.snapshot_capacity;
  resized.session_capacity = b.session_capacity;
  resized.list_unit_count = b.list_unit_count;
  // Without slots, a slot has no bytes.
  const bool has_states = a.state_slot_count != 0 && b.state_slot_count != 0;
  if (has_states) resized.state_slot_count = b.state_slot_count;
  const bool has_logits = a.logits_row_count != 0 && b.logits_row_count != 0;
  if (has_logits) resized.logits_row_count = b.logits_row_count;
  return resized == b;
}

Result<MemoryGeometry> ComputeGeometry(const MemoryOptions& options) {
  const auto check = [](const char* field, std::uint64_t value, std::uint64_t least,
                        std::uint64_t most) {
    return CheckRange(Code::kInvalidArgument, field, value, least, most);
  };
  KVD_CHECK_OK(check("groups", options.groups.size(), 1, layout::kGroupsMax));
  KVD_CHECK_OK(check("sequence_capacity", options.sequence_capacity, 1, kRecordsMax));
  KVD_CHECK_OK(check("snapshot_capacity", options.snapshot_capacity, 0, kRecordsMax));
  KVD_CHECK_OK(check("session_capacity", options.session_capacity, 0, kRecordsMax));
  KVD_CHECK_OK(check("list_unit_count", options.list_unit_count, 0, kListUnitsMax));
  KVD_CHECK_OK(check("state_slots", options.state_slots, 0, kRecordsMax));
  KVD_CHECK_OK(check("logits_rows", options.logits_rows, 0, kRecordsMax));
  KVD_CHECK_OK(check("state_bytes", options.state_bytes, options.state_slots != 0 ? 1 : 0,
                     options.state_slots != 0 ? kBlockBytesMax : 0));
  KVD_CHECK_OK(check("logits_bytes", options.logits_bytes, options.logits_rows != 0 ? 1 : 0,
                     options.logits_rows != 0 ? kBlockBytesMax : 0));
  KVD_CHECK_OK(CheckCellType("k_type", options.k_type));
  KVD_CHECK_OK(CheckCellType("v_type", options.v_type));

  MemoryGeometry geometry;
  geometry.logits_bytes = options.logits_bytes;
  geometry.checkpoint_slots = options.checkpoint_slots;
  layout::MetaGeometry& meta = geometry.meta;
  meta.block_cells = layout::kBlockCells;
  meta.group_count = static_cast<std::uint32_t>(options.groups.size());
  meta.cross_group = layout::kNoSlot;
  for (std::size_t group = 0; group < options.groups.size(); ++group) {
    KVD_TRY(GroupGeometry computed, ComputeGroup(options, group, &meta));
    geometry.groups.push_back(std::move(computed));
  }
  meta.sequence_capacity = options.sequence_capacity;
  meta.snapshot_capacity = options.snapshot_capacity;
  meta.session_capacity = options.session_capacity;
  meta.state_slot_count = options.state_slots;
  meta.state_slot_bytes = RoundUp(options.state_bytes, kPageBytes);
  meta.logits_row_count = options.logits_rows;
  meta.logits_row_bytes = RoundUp(options.logits_bytes, kPageBytes);
  meta.k_type = static_cast<std::uint8_t>(options.k_type);
  meta.v_type = static_cast<std::uint8_t>(options.v_type);
  const std::uint64_t units = options.list_unit_count != 0
                                  ? options.list_unit_count
                                  : std::min<std::uint64_t>(DefaultListUnits(meta), kListUnitsMax);
  meta.list_unit_count = static_cast<std::uint32_t>(units);
  KVD_TRY(geometry.pool, ComputePoolBytes(meta));
  KVD_TRY(geometry.offsets, LayOut(meta));
  return geometry;
}

}  // namespace kvd
