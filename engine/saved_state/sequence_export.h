// SequenceExport: the content of one sequence as it was when the export was opened. The exported
// form is independent of blocks and shifts: exported keys are rotated as if they had been computed
// at the cells' effective positions.
//
// While an export is open, its sequence may be decoded, edited or dropped; a hold preserves the
// exported content. Threads: Open on any thread; the const methods may be called by several threads
// at once. The engine must outlive the export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/forward/pass/cache_planes.h"
#include "engine/memory/memory.h"

namespace kvd {

class SequenceExport {
 public:
  // While the export is open, blocks and slots that only its hold keeps count for `reader`
  // (kNoOwner: for no owner). Error: kNotFound.
  static Result<SequenceExport> Open(Engine& engine, SequenceHandle handle,
                                     OwnerId reader = kNoOwner);
  // Opens an export that takes a brief hold only between Resume and Pause, for callers that read a
  // little at a time. A paused export has no hold, so a change of the sequence makes the next
  // Resume fail.
  static Result<SequenceExport> OpenPaused(Engine& engine, SequenceHandle handle);
  SequenceExport(SequenceExport&& other) noexcept;
  SequenceExport& operator=(SequenceExport&&) = delete;
  ~SequenceExport();

  // Begins a hold of the sequence. Error: kConflict (the sequence has changed since the export was
  // opened).
  Status Resume();
  void Pause();

  const SequenceInfo& info() const { return hold_.info; }
  std::uint32_t cell_count() const { return hold_.info.cell_count; }
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const Pos> positions() const { return positions_; }  // effective
  std::span<const TokenId> cross_tokens() const { return cross_tokens_; }

  std::span<const CachePlane> planes() const { return planes_; }
  // The cells of the plane are [first_cell, end_cell) by ordinal; earlier cells have been dropped
  // from a window.
  std::uint32_t first_cell(const CachePlane& plane) const {
    return hold_.parts[plane.group].first_cell;
  }
  std::uint32_t end_cell(const CachePlane& plane) const {
    return hold_.parts[plane.group].cell_count;
  }
  // Reads the rows of the cells [begin, end) as elements of `type`. Errors: kUnsupported
  // (CheckRowType); kNumerical (a key is not finite after its rotation, or a value not in `type`).
  // REQUIRES: first_cell <= begin <= end <= end_cell.
  Status ReadRows(const CachePlane& plane, std::uint32_t begin, std::uint32_t end,
                  kernels::DataType type, RowPlacement placement, std::byte* rows) const;

  // The recurrent state of all layers after the last cell, as in the pool. Empty: the model has no
  // recurrent state, or the sequence is empty.
  std::span<const float> state() const;
  // The checkpoints, ordered by their numbers of cells. A checkpoint after all cells is the same
  // state as state().
  std::span<const layout::Checkpoint> checkpoints() const { return hold_.checkpoints; }
  std::span<const float> checkpoint_state(const layout::Checkpoint& checkpoint) const;
  // The row of logits of the last token. Empty: no row is kept.
  std::span<const float> logits() const;

 private:
  SequenceExport(Engine& engine, SequenceHold hold);
  // Copies rows of adjacent cells in one block unchanged.
  void CopyRows(const CachePlane& plane, const std::byte* block, std::uint32_t cell,
                std::uint32_t count, RowPlacement placement, std::byte* rows) const;
  // Copies keys that are stored for another position, and rotates the copies to the effective
  // position.
  Status RotateRows(const CachePlane& plane, const layout::Extent& extent, std::uint32_t cell,
                    std::uint32_t count, kernels::DataType type, RowPlacement placement,
                    std::byte* rows) const;
  Status ConvertRows(const CachePlane& plane, const std::byte* block, std::uint32_t cell,
                     std::uint32_t count, kernels::DataType type, RowPlacement placement,
                     std::byte* rows) const;

  Engine* engine_;
  SequenceHold hold_;  // while paused: the last hold, which has ended
  std::vector<CachePlane> planes_;
  std::vector<TokenId> tokens_;
  std::vector<Pos> positions_;
  std::vector<TokenId> cross_tokens_;
  std::uint32_t key_form_ = 0;  // form of the exported keys
  // True: shifted keys are multiplied by the attention factor again, as in llama.cpp
  // (docs/decisions/0005).
  bool repeats_llama_shift_ = false;
};

}  // namespace kvd
