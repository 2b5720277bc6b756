// Geometry: how many blocks, records and bytes the two segments of a memory have, and where each
// part lies.
//
// A geometry consists of plain values that are computed once. Only `LayOut` defines the order of
// the parts of `meta`. Creating and validating a `meta` both call `LayOut`, so a header whose
// offsets differ from those of its own geometry is rejected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "kernels/data_type.h"
#include "shm/segment_layout.h"

namespace kvd {

// The shape of one layer's K and V. Each cell has kv_head_count K rows of k_dim elements and
// kv_head_count V rows of v_dim elements; with values_in_keys, a V row is the first v_dim elements
// of the K row and takes no bytes of its own.
struct LayerShape {
  std::uint32_t kv_head_count = 0;
  std::uint32_t k_dim = 0;
  std::uint32_t v_dim = 0;
  bool values_in_keys = false;
};

// A block group: layers that keep and drop the same cells.
struct GroupOptions {
  std::uint64_t cells = 0;         // rounded up to whole blocks
  std::vector<LayerShape> layers;  // in order; empty: the group's cells have no bytes in the pool
  std::uint32_t window = 0;  // a query at position p reaches positions above p - window; 0: all
  bool is_cross = false;     // cells of an encoded text; at most one such group
};

struct MemoryOptions {
  // Group 0 comes first and holds every token of a sequence: it has no window and is not the cross
  // group.
  std::vector<GroupOptions> groups;
  kernels::DataType k_type = kernels::DataType::kF16;  // f32, f16, bf16, q8_0 or q4_0
  kernels::DataType v_type = kernels::DataType::kF16;
  std::uint32_t sequence_capacity = 16384;
  std::uint32_t snapshot_capacity = 1024;
  std::uint32_t session_capacity = 1024;
  std::uint32_t list_unit_count = 0;  // units of the list arena; 0: DefaultListUnits()
  // Recurrent state: bytes of one sequence's state in all layers, and the number of slots. 0: the
  // model has no recurrent state.
  std::uint64_t state_bytes = 0;
  std::uint32_t state_slots = 0;
  // Kept rows of logits: bytes of one row, and the number of rows.
  std::uint64_t logits_bytes = 0;
  std::uint32_t logits_rows = 0;
  // The most state slots that checkpoints may hold together. checkpoint_slots limits this process
  // only; the layout of the segments does not depend on it.
  std::uint32_t checkpoint_slots = 0;
};

// Offsets of the parts of `meta` from its start.
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

// Offsets of the K and V planes of one layer in a block. The plane of head h is [kBlockCells][dim]
// at *_offset + h * *_head_bytes; the size of every plane is a multiple of 64 bytes.
// With values_in_keys, the V plane is the K plane.
struct LayerLayout {
  std::uint64_t k_offset = 0;
  std::uint64_t v_offset = 0;
  std::uint32_t k_row_bytes = 0;  // one cell of one head
  std::uint32_t v_row_bytes = 0;
  std::uint32_t k_head_bytes = 0;  // kBlockCells rows
  std::uint32_t v_head_bytes = 0;
  std::uint32_t kv_head_count = 0;
  bool values_in_keys = false;
};

struct GroupGeometry {
  // Bytes of K and V in one block; the stride is block_bytes rounded up to whole pages.
  std::uint64_t block_bytes = 0;
  std::vector<LayerLayout> layers;  // by layer: where its K and V lie in a block
};

// Bytes of the parts of the pool, whole pages each. Every part has its own file (PoolParts), so
// that a change of its number of blocks or slots changes the file's end alone.
struct PoolBytes {
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};  // by block group
  std::uint64_t states = 0;
  std::uint64_t logits = 0;
  std::uint64_t total = 0;
};

struct MemoryGeometry {
  layout::MetaGeometry meta = {};
  MetaOffsets offsets;
  PoolBytes pool;
  std::vector<GroupGeometry> groups;
  std::uint64_t logits_bytes = 0;  // bytes of one row of logits, not rounded up
  std::uint32_t checkpoint_slots = 0;
};

// The number of list units for a list of `entry_count` extents with ~12.5 % of slack and room for
// at least one more extent. 0 if entry_count is 0.
std::uint32_t ListUnitsFor(std::uint32_t entry_count);

// The default size of the list arena in units. Each group gets 4 units per sequence, and room for
// the forks of one request over a sequence of 32,768 tokens (or of all cells of the group if the
// group is smaller). With recurrent state, checkpoints get one unit per sequence.
std::uint64_t DefaultListUnits(const layout::MetaGeometry& geometry);

// Errors: kInvalidArgument, naming the option, the number found and the limit.
Result<MemoryGeometry> ComputeGeometry(const MemoryOptions& options);

// Computes the offsets of a `meta` of this geometry. The numbers may come from a damaged segment.
// Errors: kCorrupt, naming the field.
Result<MetaOffsets> LayOut(const layout::MetaGeometry& geometry);

// Computes the sizes of the parts of a pool of this geometry. Errors: kInvalidArgument (more bytes
// than a pool may have), with the numbers.
Result<PoolBytes> ComputePoolBytes(const layout::MetaGeometry& geometry);

// Returns `wanted` with the numbers of blocks, slots, records and list units of `found`, which
// differs from wanted.meta in these numbers alone (IsResized). Errors: kCorrupt, those of
// ComputePoolBytes.
Result<MemoryGeometry> WithCounts(const MemoryGeometry& wanted, const layout::MetaGeometry& found);
// Whether the two geometries are equal except for their numbers of blocks, slots, records and list
// units, so that the content of a memory of one geometry can move into one of the other.
bool IsResized(const layout::MetaGeometry& a, const layout::MetaGeometry& b);

// CellLayout: where the K and V rows of a cell lie in its block, with the element types.
//
// One head's K (or V) of one block is a dense matrix [kBlockCells, dim]. CellLayout is a plain
// value that is made once from the memory's geometry.
struct CellLayout {
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;
  // One entry per layer of the model. A model with cross-attention has a second entry per layer,
  // whose index CrossLayer returns.
  std::vector<LayerLayout> layers;
  std::vector<std::uint32_t> groups;            // by layer: block group of its cells
  std::uint32_t cross_group = layout::kNoSlot;  // block group of encoded texts; kNoSlot: none

  // The index in `layers` of the entry for the K and V of an encoded text in the given layer.
  static std::size_t CrossLayer(std::size_t layer_count, std::size_t layer) {
    return layer_count + layer;
  }

  // Offset of a cell's row from its block's start.
  std::size_t KRow(std::size_t layer, std::size_t head, std::size_t cell) const {
    const LayerLayout& at = layers[layer];
    return at.k_offset + head * at.k_head_bytes + cell * at.k_row_bytes;
  }
  std::size_t VRow(std::size_t layer, std::size_t head, std::size_t cell) const {
    const LayerLayout& at = layers[layer];
    return at.v_offset + head * at.v_head_bytes + cell * at.v_row_bytes;
  }
  kernels::DataType value_type(std::size_t layer) const {
    return layers[layer].values_in_keys ? k_type : v_type;
  }
  // Bytes of K and V of one token in all layers, without those of an encoded text.
  std::size_t cell_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const LayerLayout& at = layers[layer];
      if (groups[layer] == cross_group) continue;
      const std::size_t v_bytes = at.values_in_keys ? 0 : at.v_row_bytes;
      bytes += std::size_t{at.kv_head_count} * (at.k_row_bytes + v_bytes);
    }
    return bytes;
  }
};

}  // namespace kvd
