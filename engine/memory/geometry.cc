// Limits first, arithmetic after: every factor is bounded so that no product of the layout leaves
// 64 bits, and the bounds are checked by name. Products that depend on the model's shapes are
// checked one by one.
#include "engine/memory/geometry.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

namespace kvd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kBlocksMax = 1u << 26;     // 2^31 cells
constexpr std::uint32_t kRecordsMax = 1u << 20;    // sequences, snapshots, sessions, state slots
constexpr std::uint32_t kListUnitsMax = 1u << 28;  // 64 GiB of lists
constexpr std::uint64_t kBlockBytesMax = 1ull << 40;
constexpr std::uint64_t kPoolBytesMax = 1ull << 62;

constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Status CheckRange(Code code, const char* field, std::uint64_t value, std::uint64_t least,
                  std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return Fail(code, std::string(field) + ": " + std::to_string(value) + ", must be " +
                        std::to_string(least) + " to " + std::to_string(most));
}

bool IsCellType(kernels::DataType type) {
  switch (type) {
    case kernels::DataType::kF32:
    case kernels::DataType::kF16:
    case kernels::DataType::kBF16:
    case kernels::DataType::kQ8_0: return true;
    default: return false;
  }
}

Status CheckCellType(const char* field, kernels::DataType type) {
  if (IsCellType(type)) return {};
  return Fail(Code::kInvalidArgument, std::string(field) + ": " + kernels::DataTypeName(type) +
                                          " cannot hold cells; f32, f16, bf16 and q8_0 can");
}

// Bytes of one head's plane in a block, and of one of its rows.
Result<std::uint32_t> RowBytesOf(const char* field, std::size_t layer, kernels::DataType type,
                                 std::uint32_t dim) {
  constexpr std::uint32_t kDimMax = 1u << 16;
  const std::string name = "layer " + std::to_string(layer) + " " + field;
  KVD_CHECK_OK(CheckRange(Code::kInvalidArgument, name.c_str(), dim, 1, kDimMax));
  if (dim % kernels::ElementsPerBlock(type) != 0) {
    return Fail(Code::kInvalidArgument,
                name + ": " + std::to_string(dim) + " is not a multiple of the " +
                    std::to_string(kernels::ElementsPerBlock(type)) + " elements that " +
                    kernels::DataTypeName(type) + " packs together");
  }
  return static_cast<std::uint32_t>(kernels::RowBytes(type, dim));
}

// *pool_bytes += count * bytes.
Status AddToPool(const char* what, std::uint64_t count, std::uint64_t bytes,
                 std::uint64_t* pool_bytes) {
  std::uint64_t added = 0;
  if (__builtin_mul_overflow(count, bytes, &added) || added > kPoolBytesMax - *pool_bytes) {
    return Fail(Code::kInvalidArgument, "pool: " + std::to_string(count) + " " + what + " of " +
                                            std::to_string(bytes) + " bytes, at most " +
                                            std::to_string(kPoolBytesMax) + " bytes together");
  }
  *pool_bytes += added;
  return {};
}

}  // namespace

std::uint32_t ListUnitsFor(std::uint32_t entry_count) {
  if (entry_count == 0) return 0;
  const std::uint64_t wanted = entry_count + std::max<std::uint64_t>(1, entry_count / 8);
  return static_cast<std::uint32_t>(
      RoundUp(wanted * sizeof(layout::Extent), layout::kListUnitBytes) / layout::kListUnitBytes);
}

std::uint64_t DefaultListUnits(std::uint64_t block_count, std::uint32_t sequence_capacity) {
  const auto long_list = static_cast<std::uint32_t>(std::min<std::uint64_t>(block_count, 1024));
  return 4ull * sequence_capacity +
         std::uint64_t{std::min(layout::kForksMax, sequence_capacity)} * ListUnitsFor(long_list);
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
  KVD_CHECK_OK(check("geometry.list_unit_count", geometry.list_unit_count, 1, kListUnitsMax));
  KVD_CHECK_OK(check("geometry.logits_row_count", geometry.logits_row_count, 0, kRecordsMax));
  for (const auto& [field, bytes, count] :
       {std::tuple{"geometry.state_slot_bytes", geometry.state_slot_bytes,
                   geometry.state_slot_count},
        std::tuple{"geometry.logits_row_bytes", geometry.logits_row_bytes,
                   geometry.logits_row_count}}) {
    KVD_CHECK_OK(check(field, bytes, count != 0 ? kPageBytes : 0, count != 0 ? kBlockBytesMax : 0));
    KVD_CHECK_OK(check((std::string(field) + " modulo page").c_str(), bytes % kPageBytes, 0, 0));
  }
  for (std::uint32_t group = 0; group < layout::kGroupsMax; ++group) {
    const bool used = group < geometry.group_count;
    const std::string name = "[" + std::to_string(group) + "]";
    KVD_CHECK_OK(check(("geometry.block_count" + name).c_str(), geometry.block_count[group],
                       used ? 1 : 0, used ? kBlocksMax : 0));
    KVD_CHECK_OK(check(("geometry.block_stride_bytes" + name).c_str(),
                       geometry.block_stride_bytes[group], 0, used ? kBlockBytesMax : 0));
    KVD_CHECK_OK(check(("geometry.block_stride_bytes" + name + " modulo page").c_str(),
                       geometry.block_stride_bytes[group] % kPageBytes, 0, 0));
  }

  MetaOffsets offsets;
  offsets.commit = kPageBytes;
  offsets.sequences = offsets.commit + layout::kCommitRecordBytes;
  offsets.snapshots = offsets.sequences +
                      std::uint64_t{geometry.sequence_capacity} * sizeof(layout::SequenceRecord);
  offsets.sessions = offsets.snapshots +
                     std::uint64_t{geometry.snapshot_capacity} * sizeof(layout::SnapshotRecord);
  offsets.lists = RoundUp(
      offsets.sessions + std::uint64_t{geometry.session_capacity} * sizeof(layout::SessionRecord),
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

Result<MemoryGeometry> ComputeGeometry(const MemoryOptions& options) {
  const auto check = [](const char* field, std::uint64_t value, std::uint64_t least,
                        std::uint64_t most) {
    return CheckRange(Code::kInvalidArgument, field, value, least, most);
  };
  KVD_CHECK_OK(check("cells", options.cells, 1, std::uint64_t{kBlocksMax} * layout::kBlockCells));
  KVD_CHECK_OK(check("layers", options.layers.size(), 0, 1u << 16));
  KVD_CHECK_OK(check("state_slots", options.state_slots, 0, kRecordsMax));
  KVD_CHECK_OK(check("logits_rows", options.logits_rows, 0, kRecordsMax));
  KVD_CHECK_OK(check("state_bytes", options.state_bytes, options.state_slots != 0 ? 1 : 0,
                     options.state_slots != 0 ? kBlockBytesMax : 0));
  KVD_CHECK_OK(check("logits_bytes", options.logits_bytes, options.logits_rows != 0 ? 1 : 0,
                     options.logits_rows != 0 ? kBlockBytesMax : 0));
  KVD_CHECK_OK(check("sequence_capacity", options.sequence_capacity, 1, kRecordsMax));
  KVD_CHECK_OK(check("snapshot_capacity", options.snapshot_capacity, 0, kRecordsMax));
  KVD_CHECK_OK(check("session_capacity", options.session_capacity, 0, kRecordsMax));
  KVD_CHECK_OK(check("list_unit_count", options.list_unit_count, 0, kListUnitsMax));
  KVD_CHECK_OK(CheckCellType("k_type", options.k_type));
  KVD_CHECK_OK(CheckCellType("v_type", options.v_type));

  MemoryGeometry geometry;
  for (std::size_t index = 0; index < options.layers.size(); ++index) {
    const LayerShape& shape = options.layers[index];
    KVD_CHECK_OK(check(("layer " + std::to_string(index) + " kv_head_count").c_str(),
                       shape.kv_head_count, 1, 1u << 16));
    LayerLayout layer;
    layer.kv_head_count = shape.kv_head_count;
    KVD_TRY(layer.k_row_bytes, RowBytesOf("k_dim", index, options.k_type, shape.k_dim));
    KVD_TRY(layer.v_row_bytes, RowBytesOf("v_dim", index, options.v_type, shape.v_dim));
    layer.k_head_bytes = layer.k_row_bytes * layout::kBlockCells;
    layer.v_head_bytes = layer.v_row_bytes * layout::kBlockCells;
    layer.k_offset = geometry.block_bytes;
    layer.v_offset = layer.k_offset + std::uint64_t{layer.k_head_bytes} * layer.kv_head_count;
    geometry.block_bytes = layer.v_offset + std::uint64_t{layer.v_head_bytes} * layer.kv_head_count;
    KVD_CHECK_OK(check("bytes of one block", geometry.block_bytes, 1, kBlockBytesMax));
    geometry.layers.push_back(layer);
  }

  layout::MetaGeometry& meta = geometry.meta;
  meta.block_cells = layout::kBlockCells;
  meta.group_count = 1;
  meta.block_count[0] =
      static_cast<std::uint32_t>((options.cells + layout::kBlockCells - 1) / layout::kBlockCells);
  meta.block_stride_bytes[0] = RoundUp(geometry.block_bytes, kPageBytes);
  meta.sequence_capacity = options.sequence_capacity;
  meta.snapshot_capacity = options.snapshot_capacity;
  meta.session_capacity = options.session_capacity;
  meta.k_type = static_cast<std::uint8_t>(options.k_type);
  meta.v_type = static_cast<std::uint8_t>(options.v_type);
  const std::uint64_t units =
      options.list_unit_count != 0
          ? options.list_unit_count
          : std::min<std::uint64_t>(
                DefaultListUnits(meta.block_count[0], options.sequence_capacity), kListUnitsMax);
  meta.list_unit_count = static_cast<std::uint32_t>(units);

  meta.state_slot_count = options.state_slots;
  meta.state_slot_bytes = RoundUp(options.state_bytes, kPageBytes);
  meta.logits_row_count = options.logits_rows;
  meta.logits_row_bytes = RoundUp(options.logits_bytes, kPageBytes);

  KVD_CHECK_OK(
      AddToPool("blocks", meta.block_count[0], meta.block_stride_bytes[0], &geometry.pool_bytes));
  geometry.logits_bytes = options.logits_bytes;
  geometry.checkpoint_slots = options.checkpoint_slots;
  geometry.states_offset = geometry.pool_bytes;
  KVD_CHECK_OK(
      AddToPool("state slots", meta.state_slot_count, meta.state_slot_bytes, &geometry.pool_bytes));
  geometry.logits_offset = geometry.pool_bytes;
  KVD_CHECK_OK(AddToPool("rows of logits", meta.logits_row_count, meta.logits_row_bytes,
                         &geometry.pool_bytes));
  KVD_TRY(geometry.offsets, LayOut(meta));
  return geometry;
}

}  // namespace kvd
