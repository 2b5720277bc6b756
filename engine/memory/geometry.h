// Geometry: how many blocks, records and bytes the two segments of a memory hold, and where each of
// them lies.
//
// Plain values, computed once. `LayOut` is the one place that knows the order of the parts of
// `meta`: creating and validating both call it, so that a header whose offsets are not what its own
// geometry gives is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/data_type.h"
#include "shm/error.h"
#include "shm/segment_layout.h"

namespace kvd {

// Attention of one layer: its K rows are kv_head_count rows of k_dim elements per cell.
struct LayerShape {
  std::uint32_t kv_head_count = 0;
  std::uint32_t k_dim = 0;
  std::uint32_t v_dim = 0;
};

// Layers that keep and drop the same cells.
struct GroupOptions {
  std::uint64_t cells = 0;         // rounded up to whole blocks
  std::vector<LayerShape> layers;  // in order; none: the group's cells have no bytes in the pool
  std::uint32_t window = 0;  // a query at position p reaches positions above p - window; 0: all
  bool is_cross = false;     // cells of an encoded text; at most one such group
};

struct MemoryOptions {
  // Group 0 first, which holds every token of a sequence: neither window nor cross.
  std::vector<GroupOptions> groups;
  kernels::DataType k_type = kernels::DataType::kF16;  // f32, f16, bf16 or q8_0
  kernels::DataType v_type = kernels::DataType::kF16;
  std::uint32_t sequence_capacity = 16384;
  std::uint32_t snapshot_capacity = 1024;
  std::uint32_t session_capacity = 1024;
  std::uint32_t list_unit_count = 0;  // of the list arena; 0: DefaultListUnits()
  // Recurrent state: bytes of one sequence's state in all layers, and how many are kept. 0: none.
  std::uint64_t state_bytes = 0;
  std::uint32_t state_slots = 0;
  // Last rows of logits: bytes of one, and how many are kept.
  std::uint64_t logits_bytes = 0;
  std::uint32_t logits_rows = 0;
  // State slots that checkpoints may hold together; a bound of this process, not of the segments.
  std::uint32_t checkpoint_slots = 0;
};

// Where the parts of `meta` lie, from its start.
struct MetaOffsets {
  std::uint64_t commit = 0;
  std::uint64_t sequences = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t sessions = 0;
  std::uint64_t histories = 0;
  std::uint64_t lists = 0;
  std::array<std::uint64_t, layout::kGroupsMax> cells = {};
  std::uint64_t total_bytes = 0;
  friend bool operator==(const MetaOffsets&, const MetaOffsets&) = default;
};

// Where K and V of one layer lie in a block. Plane of head h: [kBlockCells][dim] at *_offset + h *
// *_head_bytes; every plane is a multiple of 64 bytes.
struct LayerLayout {
  std::uint64_t k_offset = 0;
  std::uint64_t v_offset = 0;
  std::uint32_t k_row_bytes = 0;  // one cell of one head
  std::uint32_t v_row_bytes = 0;
  std::uint32_t k_head_bytes = 0;  // kBlockCells rows
  std::uint32_t v_head_bytes = 0;
  std::uint32_t kv_head_count = 0;
};

struct GroupGeometry {
  std::uint64_t block_bytes = 0;    // of K and V; the stride is this rounded up to pages
  std::vector<LayerLayout> layers;  // of one block
};

// Where the parts of `pool` lie, from its start; each starts a page.
struct PoolOffsets {
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
  std::uint64_t states = 0;
  std::uint64_t logits = 0;
  std::uint64_t total_bytes = 0;
};

struct MemoryGeometry {
  layout::MetaGeometry meta = {};
  MetaOffsets offsets;
  PoolOffsets pool;
  std::vector<GroupGeometry> groups;
  std::uint64_t logits_bytes = 0;  // of one row, not rounded
  std::uint32_t checkpoint_slots = 0;
};

// Units that hold a list of `entry_count` extents with ~12.5 % of slack and room for at least one
// more. 0 for no entries.
std::uint32_t ListUnitsFor(std::uint32_t entry_count);

// Every sequence a list of 4 units, and beside that the forks of one request over a sequence of
// 32,768 tokens (or all of group 0 if that is smaller); twice that for each further group, and a
// unit per sequence for checkpoints.
std::uint64_t DefaultListUnits(const layout::MetaGeometry& geometry);

// Errors: kInvalidArgument, naming the option, the number found and the limit.
Result<MemoryGeometry> ComputeGeometry(const MemoryOptions& options);

// The parts of a `meta` of this geometry. The numbers may come from a damaged segment: errors are
// kCorrupt, naming the field.
Result<MetaOffsets> LayOut(const layout::MetaGeometry& geometry);

// The parts of a `pool` of this geometry. Errors: kInvalidArgument (more bytes than a pool may
// have), with the numbers.
Result<PoolOffsets> LayOutPool(const layout::MetaGeometry& geometry);

}  // namespace kvd
