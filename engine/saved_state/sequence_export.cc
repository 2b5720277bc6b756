// Most rows are copied unchanged from their block. A key whose cell is shifted, or whose form is
// not the form that belongs to the sequence's length, is rotated and rounded to the pool's type
// exactly as settling would do it (ModelCellRotator), and only then converted. The saved key
// therefore equals the key that settling would store.
#include "engine/saved_state/sequence_export.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "engine/model/rope_table.h"

namespace kvd {
namespace {

// The offset within a block of the row of one head and cell.
std::size_t RowOffset(const CellLayout& cells, const CachePlane& plane, std::size_t head,
                      std::size_t cell) {
  return plane.side == CacheSide::kKeys ? cells.KRow(plane.layer, head, cell)
                                        : cells.VRow(plane.layer, head, cell);
}

}  // namespace

Result<SequenceExport> SequenceExport::Open(Engine& engine, SequenceHandle handle, OwnerId reader) {
  SequenceHold hold;
  hold.owner = reader;
  KVD_CHECK_OK(engine.memory().holds().Begin(handle, &hold));
  return SequenceExport(engine, std::move(hold));
}

Result<SequenceExport> SequenceExport::OpenPaused(Engine& engine, SequenceHandle handle) {
  SequenceHold hold;
  hold.is_brief = true;
  KVD_CHECK_OK(engine.memory().holds().Begin(handle, &hold));
  SequenceExport opened(engine, std::move(hold));
  opened.Pause();
  return opened;
}

void SequenceExport::Pause() { engine_->memory().holds().Release(hold_); }

Status SequenceExport::Resume() {
  KVD_ASSERT(!hold_.is_held);
  SequenceHold now;
  now.is_brief = true;
  const Status held = engine_->memory().holds().Begin(hold_.info.handle, &now);
  const bool is_same =
      held && now.info.edit_number == hold_.info.edit_number &&
      now.info.cell_count == hold_.info.cell_count &&
      std::ranges::equal(now.checkpoints, hold_.checkpoints, {}, &layout::Checkpoint::cell_count,
                         &layout::Checkpoint::cell_count);
  if (held && is_same) {
    hold_ = std::move(now);
    return {};
  }
  if (held) engine_->memory().holds().Release(now);
  return Fail(Code::kConflict, "the sequence or its checkpoints changed while it was read");
}

SequenceExport::SequenceExport(Engine& engine, SequenceHold hold)
    : engine_(&engine),
      hold_(std::move(hold)),
      planes_(CachePlanesOf(engine.config(), engine.cell_layout())) {
  bool is_shifted = false;
  const GroupPart& part = hold_.parts[0];
  for (std::size_t e = 0; e < part.extents.size(); ++e) {
    const layout::Extent& extent = part.extents[e];
    is_shifted |= extent.delta != 0;
    const layout::CellRecord* records =
        engine.memory().BlockCells(0, BlockId{extent.block}) + extent.first;
    for (std::uint32_t k = 0; k < part.view().CountOf(e); ++k) {
      tokens_.push_back(records[k].token);
      positions_.push_back(
          Pos{static_cast<std::int32_t>(std::int64_t{records[k].stored_pos} + extent.delta)});
    }
  }
  if (hold_.cross_group != layout::kNoSlot) {
    const GroupPart& cross = hold_.parts[hold_.cross_group];
    for (std::size_t e = 0; e < cross.extents.size(); ++e) {
      const layout::Extent& extent = cross.extents[e];
      const layout::CellRecord* records =
          engine.memory().BlockCells(hold_.cross_group, BlockId{extent.block}) + extent.first;
      for (std::uint32_t k = 0; k < cross.view().CountOf(e); ++k) {
        cross_tokens_.push_back(records[k].token);
      }
    }
  }
  key_form_ = KeyFormAt(engine.config(), std::int64_t{hold_.info.next_pos.value} - 1);
  repeats_llama_shift_ = is_shifted && engine.options().llama_shifts;
}

SequenceExport::SequenceExport(SequenceExport&& other) noexcept
    : engine_(other.engine_),
      hold_(std::move(other.hold_)),
      planes_(std::move(other.planes_)),
      tokens_(std::move(other.tokens_)),
      positions_(std::move(other.positions_)),
      cross_tokens_(std::move(other.cross_tokens_)),
      key_form_(other.key_form_),
      repeats_llama_shift_(other.repeats_llama_shift_) {
  other.hold_.is_held = false;
}

SequenceExport::~SequenceExport() {
  if (hold_.is_held) engine_->memory().holds().Release(hold_);
}

Status SequenceExport::ReadRows(const CachePlane& plane, std::uint32_t begin, std::uint32_t end,
                                kernels::DataType type, RowPlacement placement,
                                std::byte* rows) const {
  KVD_ASSERT(first_cell(plane) <= begin && begin <= end && end <= end_cell(plane));
  KVD_CHECK_OK(CheckRowType(plane, type));
  if (begin == end) return {};
  const bool may_rotate = plane.side == CacheSide::kKeys &&
                          engine_->config().rotates(plane.layer) &&
                          plane.group != hold_.cross_group;
  const ExtentView view = hold_.parts[plane.group].view();
  std::uint32_t at = begin;
  for (std::size_t e = FindExtent(view, begin); at < end; ++e) {
    const layout::Extent& extent = view.entries[e];
    const auto block_id = BlockId{extent.block};
    const std::byte* block = engine_->memory().BlockBytes(plane.group, block_id);
    const layout::CellRecord* records = engine_->memory().BlockCells(plane.group, block_id);
    const std::uint32_t cell = extent.first + (at - extent.start);
    const std::uint32_t count = std::min(end, view.EndOf(e)) - at;
    const bool rotates =
        may_rotate && (extent.delta != 0 || repeats_llama_shift_ ||
                       std::any_of(records + cell, records + cell + count, [&](const auto& record) {
                         return record.key_form != key_form_;
                       }));
    std::byte* const out = rows + (at - begin) * placement.cell_stride_bytes;
    if (rotates) {
      KVD_CHECK_OK(RotateRows(plane, extent, cell, count, type, placement, out));
    } else if (type == plane.type) {
      CopyRows(plane, block, cell, count, placement, out);
    } else {
      KVD_CHECK_OK(ConvertRows(plane, block, cell, count, type, placement, out));
    }
    at += count;
  }
  return {};
}

void SequenceExport::CopyRows(const CachePlane& plane, const std::byte* block, std::uint32_t cell,
                              std::uint32_t count, RowPlacement placement, std::byte* rows) const {
  const std::size_t row_bytes = plane.row_bytes(plane.type);
  for (std::size_t head = 0; head < plane.head_count; ++head) {
    const std::byte* source = block + RowOffset(engine_->cell_layout(), plane, head, cell);
    std::byte* out = rows + head * placement.head_stride_bytes;
    if (placement.cell_stride_bytes == row_bytes) {
      std::memcpy(out, source, count * row_bytes);
      continue;
    }
    for (std::size_t k = 0; k < count; ++k) {
      std::memcpy(out + k * placement.cell_stride_bytes, source + k * row_bytes, row_bytes);
    }
  }
}

Status SequenceExport::ConvertRows(const CachePlane& plane, const std::byte* block,
                                   std::uint32_t cell, std::uint32_t count, kernels::DataType type,
                                   RowPlacement placement, std::byte* rows) const {
  const kernels::KernelTable& kernels = engine_->kernels();
  std::vector<float> row(plane.dim);
  bool is_finite = true;
  for (std::size_t head = 0; head < plane.head_count; ++head) {
    for (std::size_t k = 0; k < count; ++k) {
      kernels.decode_row(plane.type,
                         block + RowOffset(engine_->cell_layout(), plane, head, cell + k),
                         row.data(), plane.dim);
      is_finite &= kernels.encode_row(
          type, row.data(),
          rows + head * placement.head_stride_bytes + k * placement.cell_stride_bytes, plane.dim);
    }
  }
  if (is_finite) return {};
  return Fail(Code::kNumerical, PlaneText(plane), ": a value does not fit ",
              kernels::DataTypeName(type));
}

Status SequenceExport::RotateRows(const CachePlane& plane, const layout::Extent& extent,
                                  std::uint32_t cell, std::uint32_t count, kernels::DataType type,
                                  RowPlacement placement, std::byte* rows) const {
  const ModelConfig& config = engine_->config();
  const kernels::KernelTable& kernels = engine_->kernels();
  const ModelRopes& ropes = engine_->ropes();
  const RopeConfig& rope = config.rope_of(plane.layer);
  const std::size_t kind = ModelRopes::KindOf(config, plane.layer);
  const auto block_id = BlockId{extent.block};
  const std::byte* block = engine_->memory().BlockBytes(plane.group, block_id);
  const layout::CellRecord* records = engine_->memory().BlockCells(plane.group, block_id);
  std::vector<float> key(plane.dim), cosine(ropes.pair_count_max()), sine(ropes.pair_count_max());
  std::vector<std::byte> stored(plane.row_bytes(plane.type));
  bool is_finite = true;
  for (std::size_t k = 0; k < count; ++k) {
    const layout::CellRecord& record = records[cell + k];
    const bool turns = extent.delta != 0 || record.key_form != key_form_ || repeats_llama_shift_;
    if (turns) {
      ropes.table(kind, key_form_)
          .FillDifference(
              ropes.table(kind, record.key_form), Pos{record.stored_pos},
              Pos{static_cast<std::int32_t>(std::int64_t{record.stored_pos} + extent.delta)},
              cosine.data(), sine.data());
    }
    for (std::size_t head = 0; head < plane.head_count; ++head) {
      const std::byte* source = block + RowOffset(engine_->cell_layout(), plane, head, cell + k);
      std::byte* out = rows + head * placement.head_stride_bytes + k * placement.cell_stride_bytes;
      if (turns) {
        kernels.decode_row(plane.type, source, key.data(), plane.dim);
        float* const rotated = key.data() + rope.first_rotated;
        kernels.rope(rotated, 1, plane.dim, rope.rotated_dim, rope.interleaved, cosine.data(),
                     sine.data());
        if (repeats_llama_shift_) {
          kernels.scale(rotated, rope.attention_factor, rope.rotated_dim, rotated);
        }
        is_finite &= kernels.encode_row(plane.type, key.data(), stored.data(), plane.dim);
        source = stored.data();
      }
      if (type == plane.type) {
        std::memcpy(out, source, stored.size());
      } else {
        kernels.decode_row(plane.type, source, key.data(), plane.dim);
        is_finite &= kernels.encode_row(type, key.data(), out, plane.dim);
      }
    }
  }
  if (is_finite) return {};
  return Fail(Code::kNumerical, PlaneText(plane), ": a key is not finite after its rotation");
}

std::span<const float> SequenceExport::state() const {
  if (hold_.state_slot == layout::kNoSlot) return {};
  return checkpoint_state({hold_.info.cell_count, hold_.state_slot, {}});
}

std::span<const float> SequenceExport::checkpoint_state(
    const layout::Checkpoint& checkpoint) const {
  return {reinterpret_cast<const float*>(engine_->memory().StateBytes(checkpoint.state_slot)),
          engine_->state_bytes() / sizeof(float)};
}

std::span<const float> SequenceExport::logits() const {
  if (hold_.logits_slot == layout::kNoSlot) return {};
  return {reinterpret_cast<const float*>(engine_->memory().LogitsBytes(hold_.logits_slot)),
          engine_->config().vocab_size};
}

}  // namespace kvd
