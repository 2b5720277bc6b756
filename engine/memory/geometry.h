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

struct MemoryOptions {
  std::uint64_t cells = 0;                             // rounded up to whole blocks
  std::vector<LayerShape> layers;                      // those with K and V, in order; or none
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

struct MemoryGeometry {
  layout::MetaGeometry meta = {};
  MetaOffsets offsets;
  std::uint64_t logits_bytes = 0;  // of one row, not rounded
  std::uint32_t checkpoint_slots = 0;
  std::uint64_t states_offset = 0;  // in the pool: of the first state slot
  std::uint64_t logits_offset = 0;  // of the first row of logits
  std::uint64_t pool_bytes = 0;
  std::uint64_t block_bytes = 0;    // of K and V; the stride is this rounded up to pages
  std::vector<LayerLayout> layers;  // of one block
};

// Units that hold a list of `entry_count` extents with ~12.5 % of slack and room for at least one
// more. 0 for no entries.
std::uint32_t ListUnitsFor(std::uint32_t entry_count);

// Every sequence a list of 4 units, and beside that the forks of one request over a sequence of
// 32,768 tokens (or the whole pool if that is smaller).
std::uint64_t DefaultListUnits(std::uint64_t block_count, std::uint32_t sequence_capacity);

// Errors: kInvalidArgument, naming the option, the number found and the limit.
Result<MemoryGeometry> ComputeGeometry(const MemoryOptions& options);

// The parts of a `meta` of this geometry. The numbers may come from a damaged segment: errors are
// kCorrupt, naming the field.
Result<MetaOffsets> LayOut(const layout::MetaGeometry& geometry);

}  // namespace kvd
